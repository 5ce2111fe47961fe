"""Batches: synthetic ones that cost nothing, and JPEGs read and decoded while training.

A data set smaller than needed repeats. Order and augmentation follow from the seed alone. Of n
workers each reads every n-th record of the one order, so that they see different ones.
The parallel map has as many threads as the trial has CPUs, in a pool of its own: tf.data's
tuner would still be searching during the warm-up and make a step depend on how long it has run.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from workloads.tf_image_classification.folder import Folder
from workloads.tf_image_classification.options import Options

Batch = tuple[Any, Any]  # images float32 [batch, size, size, 3] in -1..1, labels int32 [batch]

PREFETCH = 2  # batches ready in advance
SHUFFLE = 1024  # records, about 110 MB of JPEGs; a folder's file names are shuffled in full
INTERLEAVE = 8  # shards read in turn
# Crop as Inception and ResNet train: Szegedy et al. 2014, arXiv:1409.4842, section 6.
CROP_AREA = (0.08, 1.0)
CROP_RATIO = (3 / 4, 4 / 3)
ERRORS = (tf.errors.InvalidArgumentError, tf.errors.DataLossError, tf.errors.NotFoundError)


def synthetic(options: Options, worker: int = 0) -> Iterator[Batch]:
    """One seeded batch of each worker, resident where the model is, again and again."""
    size = options.image_size
    with tf.device(f"/{options.device}:0"):
        images = tf.random.stateless_uniform(
            [options.batch_size, size, size, 3], [options.seed, 1 + 2 * worker], -1.0, 1.0
        )
        labels = tf.random.stateless_uniform(
            [options.batch_size], [options.seed, 2 + 2 * worker], 0, options.classes, tf.int32
        )
    return itertools.repeat((images, labels))


def real(options: Options, folder: Folder, threads: int, worker: int = 0, workers: int = 1) -> Any:
    """The endless tf.data.Dataset of one worker's training batches."""
    of = _shard_records if folder.shards else _file_records
    records = of(options, folder, worker, workers)
    read = tf.identity if folder.shards else tf.io.read_file
    examples = (
        records.repeat()
        .enumerate()
        .map(
            lambda number, record: _example(
                options, number * workers + worker, read(record[0]), record[1]
            ),
            num_parallel_calls=threads,
            deterministic=True,
        )
    )
    batches = examples.batch(options.batch_size, drop_remainder=True).prefetch(PREFETCH)
    if options.device == "gpu":
        batches = batches.apply(tf.data.experimental.prefetch_to_device("/gpu:0", PREFETCH))
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = threads
    settings.threading.max_intra_op_parallelism = 1
    settings.autotune.enabled = False
    return batches.with_options(settings)


def _file_records(options: Options, folder: Folder, worker: int, workers: int) -> Any:
    """(path, label) of a class folder; the files are read by the parallel map."""
    files = tf.data.Dataset.from_tensor_slices((list(folder.files), list(folder.labels)))
    files = files.shuffle(len(folder.files), seed=options.seed)
    return files.shard(workers, worker) if workers > 1 else files


def _shard_records(options: Options, folder: Folder, worker: int, workers: int) -> Any:
    """(JPEG, label) of TFRecord shards; labels from 0. Workers share files if there are enough."""
    shards = tf.data.Dataset.from_tensor_slices(list(folder.files))
    shards = shards.shuffle(len(folder.files), seed=options.seed)
    by_file = len(folder.files) >= workers
    if workers > 1 and by_file:
        shards = shards.shard(workers, worker)
    records = shards.interleave(
        tf.data.TFRecordDataset, cycle_length=min(INTERLEAVE, len(folder.files))
    )
    if workers > 1 and not by_file:
        records = records.shard(workers, worker)

    def parse(record: Any) -> tuple[Any, Any]:
        found = tf.io.parse_single_example(
            record,
            {
                "image/encoded": tf.io.FixedLenFeature([], tf.string),
                "image/class/label": tf.io.FixedLenFeature([], tf.int64),
            },
        )
        label = tf.cast(found["image/class/label"], tf.int32) - options.first_label
        return found["image/encoded"], label

    return records.shuffle(SHUFFLE, seed=options.seed).map(parse)


def _example(options: Options, number: Any, jpeg: Any, label: Any) -> Batch:
    """One augmented image, decoded only where it was cropped."""
    tf.debugging.Assert(
        (label >= 0) & (label < options.classes), ["label outside of the classes:", label]
    )
    seed = tf.stack([tf.cast(options.seed, tf.int64), number])
    window = _crop(tf.io.extract_jpeg_shape(jpeg), seed)
    image = tf.io.decode_and_crop_jpeg(
        jpeg, window, channels=3, dct_method="INTEGER_FAST", fancy_upscaling=False
    )
    image = tf.image.resize(image, [options.image_size, options.image_size])
    image = tf.image.stateless_random_flip_left_right(image, seed)
    return image / 127.5 - 1.0, label


def _crop(shape: Any, seed: Any) -> Any:
    """A random window [y, x, height, width]."""
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        tf.zeros([1, 0, 4]),
        seed,
        min_object_covered=0.0,
        aspect_ratio_range=CROP_RATIO,
        area_range=CROP_AREA,
        max_attempts=10,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat([begin[:2], size[:2]], 0)
