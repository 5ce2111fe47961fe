"""What a kernel's name says: its sizes, its arithmetic, the bytes that it must move at least.

Standard library only. A multiply-add counts as 2 FLOP, as in DeepBench, whose sizes are meant:

    gemm 1760x16x1760 nn                   rows x columns x inner; t where a matrix lies transposed
    conv 4x161x700x1 32x5x20 p0x0 s2x2     images x height x width x channels, filters x height x
                                           width, padding, stride (both height x width)
    lstm 1024x16x25                        hidden units x batch x time steps; vanilla, lstm, gru
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from workloads._options import BadInputError

Direction = Literal["forward", "backward_data", "backward_filter", "training"]
GATES = {"vanilla": 1, "lstm": 4, "gru": 3}
EXAMPLE = "kernel: gemm 1760x16x1760 nn"
TRAINING = 3  # forward, and the gradients by inputs and by weights, cost one each


@dataclass(frozen=True)
class Gemm:
    """A product of two matrices."""

    rows: int
    columns: int
    inner: int
    transposes: str = "nn"

    directions = ("forward",)

    def flop(self, _direction: str) -> int:
        """Of one call."""
        return 2 * self.rows * self.columns * self.inner

    def values(self, _direction: str) -> int:
        """Numbers that are read or written at least."""
        read = self.inner * (self.rows + self.columns)
        return read + self.rows * self.columns

    def smallest(self) -> Gemm:
        """The same call with next to nothing to compute."""
        return replace(self, rows=1, columns=1, inner=1)


@dataclass(frozen=True)
class Convolution:
    """A layer of filters over images."""

    images: int
    height: int
    width: int
    channels: int
    filters: int
    filter_height: int
    filter_width: int
    pad: tuple[int, int]
    stride: tuple[int, int]

    directions = ("forward", "backward_data", "backward_filter")

    @property
    def output(self) -> tuple[int, int]:
        """Height and width of what comes out."""
        high = self.height + 2 * self.pad[0] - self.filter_height
        wide = self.width + 2 * self.pad[1] - self.filter_width
        return high // self.stride[0] + 1, wide // self.stride[1] + 1

    @property
    def shapes(self) -> tuple[list[int], list[int], list[int]]:
        """Of images, filters and result, channels last."""
        return (
            [self.images, self.height, self.width, self.channels],
            [self.filter_height, self.filter_width, self.channels, self.filters],
            [self.images, *self.output, self.filters],
        )

    def flop(self, _direction: str) -> int:
        """Of one call; the products are the same in each direction."""
        high, wide = self.output
        kernel = self.filter_height * self.filter_width * self.channels
        return 2 * self.images * self.filters * high * wide * kernel

    def values(self, _direction: str) -> int:
        """Numbers that are read or written at least."""
        return sum(a * b * c * d for a, b, c, d in self.shapes)

    def smallest(self) -> Convolution:
        """The same call with next to nothing to compute."""
        return Convolution(1, 1, 1, 1, 1, 1, 1, (0, 0), (1, 1))


@dataclass(frozen=True)
class Recurrent:
    """A layer of recurrent cells over a sequence.

    As in DeepBench the product of the inputs is left out: it is a gemm of its own.
    """

    cell: str
    hidden: int
    batch: int
    steps: int

    directions = ("forward", "training")

    def flop(self, direction: str) -> int:
        """Of one call: the products of the state, without what gates add to them."""
        times = TRAINING if direction == "training" else 1
        return times * 2 * GATES[self.cell] * self.hidden**2 * self.batch * self.steps

    def values(self, direction: str) -> int:
        """Numbers that are read or written at least, with weights that stay in a cache."""
        times = TRAINING if direction == "training" else 1
        weights = GATES[self.cell] * self.hidden**2
        return times * (weights + 2 * self.batch * self.hidden * self.steps)

    def smallest(self) -> Recurrent:
        """As many short kernels one after the other, with next to nothing to compute."""
        return replace(self, hidden=1, batch=1)


Kernel = Gemm | Convolution | Recurrent
FORMS = {
    "gemm": re.compile(r"gemm (\d+)x(\d+)x(\d+) ([nt][nt])"),
    "conv": re.compile(r"conv (\d+)x(\d+)x(\d+)x(\d+) (\d+)x(\d+)x(\d+) p(\d+)x(\d+) s(\d+)x(\d+)"),
    "cell": re.compile(r"(vanilla|lstm|gru) (\d+)x(\d+)x(\d+)"),
}


def parse(name: str) -> Kernel:
    """The kernel of that name; BadInputError where it is none, or has nothing to compute."""
    found = {kind: form.fullmatch(name) for kind, form in FORMS.items()}
    kernel: Kernel | None = None
    if (match := found["gemm"]) is not None:
        kernel = Gemm(int(match[1]), int(match[2]), int(match[3]), match[4])
    elif (match := found["conv"]) is not None:
        n, h, w, c, k, r, s, *rest = (int(number) for number in match.groups())
        kernel = Convolution(n, h, w, c, k, r, s, (rest[0], rest[1]), (rest[2], rest[3]))
    elif (match := found["cell"]) is not None:
        kernel = Recurrent(match[1], int(match[2]), int(match[3]), int(match[4]))
    if kernel is None or not _computes(kernel):
        raise BadInputError(
            "kernel: must be a gemm, a conv, or a vanilla, lstm or gru with its sizes, as "
            "docs/components.md has them, and with something to compute "
            f"(example: {EXAMPLE}); given: {name!r}"
        )
    return kernel


def _computes(kernel: Kernel) -> bool:
    if isinstance(kernel, Convolution):
        return min(kernel.stride) > 0 and min(kernel.output) > 0 and kernel.flop("forward") > 0
    return kernel.flop("forward") > 0
