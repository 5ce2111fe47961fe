"""Options of `tf_image_classification`; standard library only."""

from dataclasses import dataclass, field
from typing import Literal

from workloads._cluster import SharedOptions
from workloads._options import refuse

COMMON = ("model", "data", "batch_size", "image_size", "dtype", "steps")

ModelName = Literal["inception_v3", "resnet50", "alexnet", "tiny"]


@dataclass(frozen=True)
class Published:
    """What the papers say of a model, and what the architecture demands."""

    size: int  # pixels, the published input
    minimum: int  # pixels, the smallest input that leaves one value before the classifier
    forward: float  # FLOP for an image of that size, 2 for a multiply-add; flops.py computes it


PUBLISHED = {
    "inception_v3": Published(299, 75, 11.4e9),
    "resnet50": Published(224, 32, 7.7e9),
    "alexnet": Published(224, 95, 1.43e9),
    "tiny": Published(32, 8, 0.29e6),
}

# For estimates only, pessimistic: what a core without matrix units reaches, and what it decodes.
FLOPS_PER_CORE = 20e9
DECODED_PER_CORE = 150.0
STARTUP_S = 20.0
XLA_COMPILE_S = 60.0
XLA_SLOWDOWN = 2.5
BFLOAT16_SLOWDOWN = 2.0
STEP_OVERHEAD_S = 0.005
TRACE_S = 20.0


@dataclass(frozen=True)
class Options(SharedOptions):
    """Options of `tf_image_classification`."""

    model: ModelName = field(
        default="inception_v3",
        metadata={"help": "architecture; tiny is a few thousand parameters, for tests", "unit": ""},
    )
    data: Literal["synthetic", "real"] = field(
        default="synthetic",
        metadata={
            "help": "one resident batch, or JPEGs read from data_dir while training",
            "unit": "",
        },
    )
    batch_size: int = field(default=32, metadata={"help": "images in a step", "unit": "images"})
    image_size: int = field(
        default=0,
        metadata={
            "help": "side of the square input; 0: as published for the model",
            "unit": "pixels",
        },
    )
    width: float = field(
        default=1.0,
        metadata={
            "help": "share of the published filters and units that each layer of alexnet has",
            "unit": "1",
        },
    )
    classes: int = field(default=1000, metadata={"help": "outputs of the model", "unit": "1"})
    first_label: int = field(
        default=1,
        metadata={
            "help": "number of the first class in TFRecord shards; ImageNet's count from 1",
            "unit": "1",
        },
    )
    optimizer: Literal["sgd", "momentum", "adam", "rmsprop"] = field(
        default="momentum", metadata={"help": "update rule; momentum is 0.9", "unit": ""}
    )
    learning_rate: float = field(default=0.01, metadata={"help": "constant", "unit": "1"})
    dtype: Literal["float32", "bfloat16", "mixed_bfloat16"] = field(
        default="float32", metadata={"help": "mixed keeps the variables in float32", "unit": ""}
    )
    xla: bool = field(default=False, metadata={"help": "compile the step with XLA", "unit": ""})
    device: Literal["cpu", "gpu"] = field(
        default="cpu", metadata={"help": "where the model is", "unit": ""}
    )
    seed: int = field(
        default=1, metadata={"help": "of weights, data order and augmentation", "unit": "1"}
    )
    warmup_steps: int = field(
        default=10, metadata={"help": "steps before the measured ones", "unit": "steps"}
    )
    steps: int = field(default=100, metadata={"help": "measured steps", "unit": "steps"})
    trace_steps: int = field(
        default=0,
        metadata={
            "help": "steps that TensorFlow's profiler traces, between the first and the warm-up",
            "unit": "steps",
        },
    )
    probe: bool = field(
        default=True,
        metadata={
            "help": "after the steps, measure a large matmul and, with real data, the input alone",
            "unit": "",
        },
    )

    def __post_init__(self) -> None:
        """Resolves image_size and refuses what cannot run."""
        super().__post_init__()
        self.at_least(1, "batch_size", "warmup_steps", "steps")  # the first step compiles
        self.at_least(2, "classes")
        self.at_least(0, "image_size", "first_label", "seed", "trace_steps")
        if not 0 < self.learning_rate < float("inf"):
            raise refuse("learning_rate", "must be positive and finite", 0.01, self.learning_rate)
        if not 0 < self.width <= 1:
            raise refuse("width", "must be above 0 and at most 1", 0.25, self.width)
        if self.width != 1 and self.model != "alexnet":
            raise refuse("width", f"must be 1 for {self.model}, which has one width", 1, self.width)
        known = PUBLISHED[self.model]
        size = self.image_size or known.size
        if size < known.minimum:
            raise refuse(
                "image_size",
                f"must be at least {known.minimum} for {self.model}, or 0",
                known.size,
                size,
            )
        object.__setattr__(self, "image_size", size)


def estimate(options: Options, cores: float) -> float:
    """Seconds of a trial: rough, pessimistic."""
    known = PUBLISHED[options.model]
    taken = options.trace_steps + options.warmup_steps + options.steps
    images = options.batch_size * taken
    forward = known.forward * (options.image_size / known.size * options.width) ** 2
    compute = 3 * forward * images / (FLOPS_PER_CORE * cores)
    compute *= XLA_SLOWDOWN if options.xla else 1
    compute *= BFLOAT16_SLOWDOWN if "bfloat16" in options.dtype else 1
    decode = images / (DECODED_PER_CORE * cores) if options.data == "real" else 0
    once = STARTUP_S
    once += XLA_COMPILE_S if options.xla else 0
    once += TRACE_S if options.trace_steps else 0
    return once + compute + decode + STEP_OVERHEAD_S * taken
