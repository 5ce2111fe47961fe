"""Models, arithmetic, data and step, in this process."""

import math
from pathlib import Path
from typing import Any

import pytest

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")

from workloads import _grpc, _optimizers, _tensorflow  # noqa: E402
from workloads._output import StepLog  # noqa: E402
from workloads.tf_image_classification import (  # noqa: E402
    data,
    flops,
    models,
    train,
)
from workloads.tf_image_classification.folder import find  # noqa: E402
from workloads.tf_image_classification.options import PUBLISHED, Options  # noqa: E402

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]


def jpeg(colour: tuple[int, int, int]) -> bytes:
    pixels = tf.broadcast_to(tf.constant(colour, tf.uint8), [40, 50, 3])
    return bytes(tf.io.encode_jpeg(pixels, quality=95).numpy())


def batch_of(options: Options, folder: Path) -> Any:
    return next(iter(data.real(options, find(folder, options.classes), 2)))


def check_colours(images: Any, labels: Any) -> None:
    assert set(labels.numpy().tolist()) <= {0, 1, 2}
    for image, label in zip(images.numpy(), labels.numpy(), strict=True):
        expected = [c / 127.5 - 1 for c in COLOURS[label]]
        assert image.mean(axis=(0, 1)) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize(
    ("name", "parameters", "gmac"),
    [
        ("inception_v3", 23_851_784, 5.71),
        ("resnet50", 25_636_712, 3.86),
        ("alexnet", 61_100_840, 0.714),
        ("tiny", 18_392, 0.000145),
    ],
)
def test_models_are_the_published_ones(name: Any, parameters: int, gmac: float) -> None:
    model = models.build(Options(model=name))
    assert models.parameters(model) == parameters
    assert flops.forward(model) / 2e9 == pytest.approx(gmac, rel=0.01)
    assert PUBLISHED[name].forward == pytest.approx(flops.forward(model), rel=0.1)


def test_flops_by_hand() -> None:
    image = keras.Input((8, 8, 3))
    x = keras.layers.Conv2D(4, 3, strides=2, padding="same")(image)  # 4x4x4 of 27 products
    model = keras.Model(image, keras.layers.Dense(5)(keras.layers.Flatten()(x)))  # 64 x 5
    assert flops.forward(model) == 2 * (4 * 4 * 4 * 27 + 64 * 5)
    assert flops.training(model) == 3 * flops.forward(model)


@pytest.mark.parametrize(("name", "size"), [(n, p.minimum) for n, p in PUBLISHED.items()])
def test_the_smallest_size_works(name: Any, size: int) -> None:
    model = models.build(Options(model=name, image_size=size, classes=3))
    assert tuple(model.output.shape) == (None, 3)


def test_alexnet_computes_at_its_smallest_size() -> None:
    size = PUBLISHED["alexnet"].minimum
    for smaller, works in ((0, True), (1, False)):
        shape = (size - smaller, size - smaller, 3)
        model = models.alexnet(shape, 3, filters=2, units=4)
        compute = tf.function(lambda x, model=model: model(x), autograph=False)
        if works:
            assert tuple(compute(tf.zeros([1, *shape])).shape) == (1, 3)
        else:
            with pytest.raises(ValueError, match="Negative dimension"):
                compute(tf.zeros([1, *shape]))


def test_a_narrow_alexnet_has_a_share_of_its_filters_and_units() -> None:
    eighth = models.build(Options(model="alexnet", image_size=95, width=0.125))
    layers = [layer for layer in eighth.layers if layer.weights]
    assert [layer.kernel.shape[-1] for layer in layers] == [8, 24, 48, 32, 32, 512, 512, 1000]


@pytest.mark.parametrize(("kind", "momentum"), [("sgd", 0), ("momentum", 0.9), ("adam", None)])
def test_fused_updates_equal_those_of_keras(kind: Any, momentum: float | None) -> None:
    plain = (
        keras.optimizers.Adam(0.1)
        if momentum is None
        else keras.optimizers.SGD(0.1, momentum=float(momentum))
    )
    values = []
    for optimizer in (plain, _optimizers.make(kind, 0.1)):
        variable = keras.Variable([1.0, -2.0, 3.0])
        optimizer.build([variable])
        for gradient in ([0.5, 1.0, -1.0], [0.1, 0.2, 0.3], [1.0, 0.0, -2.0]):
            optimizer.apply([tf.constant(gradient)], [variable])
        values.append(variable.numpy())
    assert values[1] == pytest.approx(values[0], rel=1e-4)


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_tensorflows_own_servers_update_by_the_same_rule(kind: str) -> None:
    """Three updates of a variable by both, since the first has no history."""
    ours, given = _optimizers.make(kind, 0.1), [[1.0, -2.0], [0.5, 3.0], [-1.0, 0.25]]
    variable = keras.Variable([1.0, 2.0])
    for gradient in given:
        ours.apply([tf.constant(gradient)], [variable])
    v1, theirs = tf.compat.v1, _grpc.optimizer(ours)
    with tf.Graph().as_default(), v1.Session() as session:
        held = v1.get_variable("v", initializer=[1.0, 2.0], use_resource=True)
        fed = v1.placeholder(tf.float32, [2])
        update = theirs.apply_gradients([(fed, held)])
        session.run(v1.global_variables_initializer())
        for gradient in given:
            session.run(update, {fed: gradient})
        found = session.run(held)
    assert found == pytest.approx(variable.numpy(), rel=1e-5)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tiny", {"dtype": "mixed_bfloat16"}),
        ("tiny", {"dtype": "bfloat16", "optimizer": "adam"}),
        ("tiny", {"xla": True}),
        ("tiny", {"optimizer": "rmsprop"}),
    ],
)
def test_losses_follow_from_the_seed(name: Any, changes: dict[str, Any], tmp_path: Path) -> None:
    def losses(seed: int) -> list[float]:
        options = Options(model=name, classes=10, batch_size=4, image_size=16, seed=seed, **changes)
        keras.utils.set_random_seed(options.seed)
        keras.config.set_dtype_policy(options.dtype)
        try:
            _, step = train.build(options)
            with StepLog(tmp_path / "steps.jsonl") as log:
                loop = train.Loop(options, log, step, data.synthetic(options))
                loop.take(4, "measured")
            return [loop.first_loss or math.nan, loop.loss]
        finally:
            keras.config.set_dtype_policy("float32")

    assert losses(1) == pytest.approx(losses(1), rel=1e-5)
    assert losses(1) != pytest.approx(losses(2), rel=1e-5)


def test_class_folders_give_their_images_and_labels(tmp_path: Path) -> None:
    for label, colour in enumerate(COLOURS):
        (tmp_path / f"c{label}").mkdir()
        (tmp_path / f"c{label}/one.{'JPEG' if label else 'jpg'}").write_bytes(jpeg(colour))
    (tmp_path / "manifest.json").write_text("{}")
    options = Options(model="tiny", data="real", batch_size=6, classes=3)
    images, labels = batch_of(options, tmp_path)
    assert sorted(labels.numpy().tolist()) == [0, 0, 1, 1, 2, 2]  # each once, then again
    check_colours(images, labels)
    assert (batch_of(options, tmp_path)[0].numpy() == images.numpy()).all()


@pytest.mark.parametrize(
    "names", [["train-00000-of-00002", "train-00001-of-00002"], ["a.tfrecord"]]
)
def test_imagenet_shards_give_their_images_and_labels(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        with tf.io.TFRecordWriter(str(tmp_path / name)) as writer:
            for label, colour in enumerate(COLOURS, start=1):  # ImageNet counts from 1
                writer.write(record(jpeg(colour), label))
    options = Options(model="tiny", data="real", batch_size=6, classes=3)
    images, labels = batch_of(options, tmp_path)
    assert sorted(labels.numpy().tolist()) == [0, 0, 1, 1, 2, 2]
    check_colours(images, labels)


def test_a_label_outside_of_the_classes_is_refused(tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "a.tfrecord")) as writer:
        writer.write(record(jpeg(COLOURS[0]), 0))
    with pytest.raises(data.ERRORS, match="label outside"):
        batch_of(Options(model="tiny", data="real", batch_size=1, classes=3), tmp_path)


def record(content: bytes, label: int) -> bytes:
    feature = tf.train.Feature
    return bytes(
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "image/encoded": feature(bytes_list=tf.train.BytesList(value=[content])),
                    "image/class/label": feature(int64_list=tf.train.Int64List(value=[label])),
                }
            )
        ).SerializeToString()
    )


def test_extensions_of_the_cpu_are_read(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("model name : X\nflags : fpu amx_bf16 avx512_bf16 sse\n")
    assert _tensorflow.isa(tmp_path / "cpuinfo") == ["amx_bf16", "avx512_bf16"]
    assert _tensorflow.isa(tmp_path / "none") == []


def test_a_quota_is_reported_as_far_as_the_program_sees_it(tmp_path: Path) -> None:
    limit = tmp_path / "cpu.max"
    for text, seen in (("150000 100000\n", 1.5), ("max 100000\n", None), ("", None)):
        limit.write_text(text)
        assert _tensorflow.quota(limit) == seen
    assert _tensorflow.quota(tmp_path / "none") is None
