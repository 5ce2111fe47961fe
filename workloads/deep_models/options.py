"""Options of `deep_models`, and what the studies had; standard library only."""

from dataclasses import dataclass, field
from typing import Literal, get_args

from workloads._options import refuse
from workloads._tensorflow import ThreadOptions

COMMON = ("model", "framework", "task", "size", "batch_size", "epochs")

# fmt: off
Model = Literal[
    "fcn5", "cifar_alexnet", "cifar_resnet50", "ptb_lstm",  # HKBU 2017
    "snn", "lnn",  # MIT LL 2019
    "seq2seq", "memnet", "speech", "autoenc", "residual", "vgg", "alexnet", "deepq",  # Fathom
]
# fmt: on


@dataclass(frozen=True)
class Published:
    """What a study had, as far as it says."""

    batch_size: int
    examples: int  # of an epoch; where a study counts steps, some ten batches
    learning_rate: float
    forward: float  # FLOP for an example, roughly: for estimates only


PUBLISHED = {
    "fcn5": Published(512, 60_000, 0.001, 29e6),
    "cifar_alexnet": Published(256, 50_000, 0.001, 20e6),
    "cifar_resnet50": Published(32, 50_000, 0.001, 160e6),
    "ptb_lstm": Published(128, 156_000, 0.002, 55e6),
    "snn": Published(301, 1526, 0.001, 0.1e9),
    "lnn": Published(301, 1526, 0.001, 2e9),
    "seq2seq": Published(64, 640, 0.002, 500e6),
    "memnet": Published(32, 960, 0.01, 0.2e6),
    "speech": Published(32, 320, 0.0005, 20e9),
    "autoenc": Published(128, 10_000, 0.001, 1e6),
    "residual": Published(16, 160, 0.001, 7.3e9),
    "vgg": Published(16, 160, 0.0001, 39e9),
    "alexnet": Published(16, 160, 0.0001, 1.43e9),
    "deepq": Published(32, 3200, 0.00025, 20e6),
}
SMALL = Published(32, 640, 0.005, 2e6)  # of each model
FLOPS_PER_CORE = 5e9
STARTUP_S = 30.0
STEP_OVERHEAD_S = 0.02

# Of the networks those of the study that compared frameworks.
OF_JAX = ("fcn5", "cifar_alexnet", "cifar_resnet50", "ptb_lstm")
THREADS = ("intra_op_threads", "inter_op_threads")  # JAX has as many as the trial has CPUs


@dataclass(frozen=True)
class Options(ThreadOptions):
    """Options of `deep_models`."""

    model: Model = field(default="fcn5", metadata={"help": "which network", "unit": ""})
    # Its level is the image family of the trial.
    framework: Literal["tensorflow", "jax"] = field(
        default="tensorflow", metadata={"help": "what computes", "unit": ""}
    )
    task: Literal["training", "inference"] = field(
        default="training",
        metadata={"help": "inference is with weights that were never trained", "unit": ""},
    )
    size: Literal["published", "small"] = field(
        default="published",
        metadata={"help": "of the network and its examples; small learns in seconds", "unit": ""},
    )
    batch_size: int = field(
        default=0,
        metadata={"help": "examples in a step; 0: as published, of small 32", "unit": "examples"},
    )
    examples: int = field(
        default=0,
        metadata={"help": "of an epoch; 0: as published, of small 640", "unit": "examples"},
    )
    epochs: int = field(
        default=2, metadata={"help": "the first one is apart from the others", "unit": "1"}
    )
    learning_rate: float = field(
        default=0.0, metadata={"help": "of Adam; 0: the model's own", "unit": "1"}
    )
    seed: int = field(default=1, metadata={"help": "of weights and examples", "unit": "1"})
    data: Literal["made", "real"] = field(
        default="made",
        metadata={
            "help": "real: of fcn5, MNIST's four IDX files, read in the first epoch",
            "unit": "",
        },
    )
    device: Literal["cpu", "gpu"] = field(
        default="cpu", metadata={"help": "where the model is", "unit": ""}
    )

    def __post_init__(self) -> None:
        """Resolves what is as published, and refuses what cannot run."""
        super().__post_init__()
        known = sizes_of(self.model, self.size)
        for name in ("batch_size", "examples", "learning_rate"):
            self.at_least(0, name)
            if not getattr(self, name):
                object.__setattr__(self, name, getattr(known, name))
        self.at_least(2, "epochs")
        self.at_least(0, "seed")
        if not self.learning_rate < float("inf"):
            raise refuse("learning_rate", "must be finite", 0.001, self.learning_rate)
        if self.examples < self.batch_size:
            raise refuse("examples", "must be at least a batch", known.examples, self.examples)
        if self.framework == "jax":
            self._check_jax()
        if self.data == "real" and (self.model, self.size) != ("fcn5", "published"):
            raise refuse("data", "real data is for fcn5 as published", "made", "real")

    def _check_jax(self) -> None:
        """Refuses what is there with TensorFlow only."""
        if self.model not in OF_JAX:
            rule = f"with jax must be one of {', '.join(OF_JAX)}"
            raise refuse("model", rule, "fcn5", self.model)
        for name, only in (("data", "made"), ("device", "cpu"), *((t, 0) for t in THREADS)):
            given = getattr(self, name)
            if given != only:
                raise refuse(name, f"with jax must be {only}", only, given)


def sizes_of(model: str, size: str) -> Published:
    """What zeros of the options stand for."""
    return PUBLISHED[model] if size == "published" else SMALL


def estimate(options: Options, cores: float) -> float:
    """Seconds of a trial: rough, pessimistic."""
    forward = sizes_of(options.model, options.size).forward
    work = 3 * forward * options.examples * options.epochs
    steps = options.epochs * (options.examples / options.batch_size + 1)
    return STARTUP_S + work / (FLOPS_PER_CORE * max(cores, 1.0)) + steps * STEP_OVERHEAD_S


assert set(PUBLISHED) == set(get_args(Model))  # noqa: S101 - one place forgets nothing of the other
