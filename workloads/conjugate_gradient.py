"""Conjugate gradients on the problem of HPCG: a sparse system whose bound is the memory.

The problem is HPCG's: a grid of `grid` points in each direction, where each point has 26 for itself
and -1 for each of its up to 26 neighbours, and a right-hand side to which ones are the solution.
The method is plain conjugate gradients, without HPCG's preconditioner, in NumPy with a thread for
each CPU: HPCG itself is in no package of the distribution, and figures of the two are not to be
compared.

The matrix is stored, 27 numbers a point, and read once in each iteration, as HPCG's is. What bounds
it is the memory: `of_copy` says how near the bytes that an iteration moves at least come to a copy
of large arrays on the same cores, right after it.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workloads import _options
from workloads._declare import ONE, Metric
from workloads._output import Context, FailureError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

COMMON = ("grid", "iterations")
ITEMS = "FLOP"
METRICS = (
    Metric("flops", "Solving", "FLOP/s", "higher", headline=True),
    Metric("iteration_mean", "Iteration, mean", "s", "lower"),
    Metric("residual", "Residual / the first", "1"),
    Metric("error", "Largest error of the solution", "1"),
    Metric("bandwidth", "Bytes moved at least", "bytes/s", "higher"),
    Metric("copy_bandwidth", "Bytes moved by a copy", "bytes/s", "higher"),
    Metric("of_copy", "Bytes moved / those of a copy", "1", "higher"),
)
TOPOLOGY, PORTS = ONE, ()
BACKGROUND = False
FAMILY = "tensorflow"
WRITABLE = False
MEMORY = 2**30

NEIGHBOURS = 27  # of a point, with itself
DOUBLE = 8  # bytes
VECTORS = 14  # read or written in an iteration, beside the matrix
LEAST_GRID, MOST_GRID = 4, 512
SLOWEST_POINTS = 1e6  # a second and iteration
COPIES = 5
PIECE = 8192  # numbers: 64 KiB


@dataclass(frozen=True)
class Options(_options.Options):
    """Options of `conjugate_gradient`."""

    grid: int = field(
        default=104, metadata={"help": "points in each direction; 104 is HPCG's", "unit": "1"}
    )
    iterations: int = field(default=50, metadata={"help": "that are measured", "unit": "1"})
    warmup_iterations: int = field(
        default=5, metadata={"help": "before them, of another solution", "unit": "1"}
    )

    def __post_init__(self) -> None:
        """Refuses grids that are none, or that no host has the memory for."""
        self.at_least(LEAST_GRID, "grid")
        self.at_most(MOST_GRID, "grid")
        self.at_least(1, "iterations", "warmup_iterations")


def estimate(options: Options, _cores: float) -> float:
    """Seconds."""
    points = options.grid**3
    return 10.0 + points / SLOWEST_POINTS * (options.iterations + options.warmup_iterations + 10)


def run(options: Options, context: Context) -> None:
    """Solves, a step for each iteration, and tells how far it came."""
    import numpy as np  # noqa: PLC0415

    threads = min(context.cpus or len(os.sched_getaffinity(0)), options.grid)
    context.environment |= {"numpy": np.__version__, "threads": threads}
    with Problem(options.grid, threads) as problem:
        context.mark("first_step_begin")
        number = itertools.count(1)
        solve(problem, options.warmup_iterations, _told(context, problem, "warmup", number))
        begin = context.mark("warmup_end")
        found, residual = solve(
            problem, options.iterations, _told(context, problem, "measured", number)
        )
        seconds = context.mark("measured_end") - begin
        if not residual < 1:
            raise FailureError(f"the residual must fall; it is {residual:g} times the first")
        rate = options.iterations / seconds
        context.scalar("flops", problem.flop * rate)
        context.scalar("iteration_mean", 1 / rate)
        context.scalar("residual", residual)
        context.scalar("error", float(np.abs(found - problem.ones).max()))
        copied = problem.copy_bandwidth()
    moved = problem.bytes * rate
    context.scalar("bandwidth", moved)
    context.scalar("copy_bandwidth", copied)
    context.scalar("of_copy", moved / copied)


def _told(context: Context, problem: Problem, phase: str, number: Any) -> Callable[[float], None]:
    """What is called after each iteration, with the time of its begin."""

    def tell(begin: float) -> None:
        took = time.monotonic() - begin
        wall = time.time() - took
        row = (phase, next(number), 0, begin, wall, problem.flop)
        context.steps.add((*row, None, 0.0, took, 0.0, took))

    return tell


def solve(problem: Problem, iterations: int, tell: Callable[[float], None]) -> tuple[Array, float]:
    """The solution from zero after so many iterations, and its residual over the first.

    It ends early only where the residual is 0, and nothing is left to be done.
    """
    found, rest, direction = problem.zeros(), problem.right.copy(), problem.right.copy()
    first = square = problem.dot(rest, rest)
    for _ in range(iterations):
        begin = time.monotonic()
        if not square:
            break
        product = problem.product(direction)
        step = square / problem.dot(direction, product)
        problem.add(found, step, direction)
        problem.add(rest, -step, product)
        before, square = square, problem.dot(rest, rest)
        problem.scale_and_add(direction, square / before, rest)
        tell(begin)
    return found, math.sqrt(square / first)


class Problem:
    """The matrix, by its 27 diagonals, and what is done with vectors; a part for each thread.

    A vector is flat and has a layer of zeros around the grid, so that the neighbours of all points
    in one direction are the same vector, some places further on.
    """

    def __init__(self, grid: int, threads: int) -> None:
        """Makes the matrix and the right-hand side."""
        import numpy as np  # noqa: PLC0415

        self._np, self._grid = np, grid
        side = grid + 2
        self._size = side**3
        self._margin = side**2 + side + 1  # how far away a neighbour is at most
        self._away = [
            z * side**2 + y * side + x for z, y, x in itertools.product((-1, 0, 1), repeat=3)
        ]
        edges = np.linspace(0, self._size, threads + 1).astype(int)
        self._parts = [slice(int(a), int(b)) for a, b in itertools.pairwise(edges)]
        self._pool = ThreadPoolExecutor(threads)
        self._padded = np.zeros(self._size + 2 * self._margin)
        self._product = np.zeros(self._size)
        self.ones = self.flat(np.ones((grid, grid, grid)))
        self._diagonals = np.empty((NEIGHBOURS, self._size))
        self._padded[self._margin : -self._margin] = self.ones
        for n, away in enumerate(self._away):
            near = self._near(away, slice(0, self._size))
            np.multiply(self.ones, near, self._diagonals[n])
            self._diagonals[n] *= -1.0 if away else 26.0
        entries = int(np.count_nonzero(self._diagonals))
        points = grid**3
        self.flop = 2 * entries + 10 * points  # product; two of x*y, three of x + a*y
        self.bytes = DOUBLE * points * (NEIGHBOURS + VECTORS)
        self.right = self._diagonals.sum(axis=0)  # the matrix times ones

    def __enter__(self) -> Problem:
        """It is ready."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Its threads end."""
        self._pool.shutdown()

    def zeros(self) -> Array:
        """A vector."""
        return self._np.zeros(self._size)

    def flat(self, cube: Array) -> Array:
        """The vector of the values on the grid."""
        return self._np.pad(cube, 1).ravel()

    def cube(self, vector: Array) -> Array:
        """The values on the grid."""
        side = self._grid + 2
        return vector.reshape(side, side, side)[1:-1, 1:-1, 1:-1]

    def _near(self, away: int, part: slice) -> Array:
        first = self._margin + away
        return self._padded[first + part.start : first + part.stop]

    def _each(self, do: Callable[[slice], Any]) -> list[Any]:
        return list(self._pool.map(do, self._parts))

    def product(self, vector: Array) -> Array:
        """The matrix times the vector; the next product overwrites it."""

        def fill(part: slice) -> None:
            self._near(0, part)[:] = vector[part]

        def multiply(part: slice) -> None:
            # Piece by piece, so that what is summed stays in a cache.
            term = self._np.empty(PIECE)
            for first in range(part.start, part.stop, PIECE):
                piece = slice(first, min(first + PIECE, part.stop))
                total, one = self._product[piece], term[: piece.stop - first]
                total[:] = 0
                for diagonal, away in zip(self._diagonals, self._away, strict=True):
                    self._np.multiply(diagonal[piece], self._near(away, piece), one)
                    total += one

        self._each(fill)
        self._each(multiply)
        return self._product

    def dot(self, one: Array, other: Array) -> float:
        """The inner product."""
        return float(sum(self._each(lambda part: self._np.vdot(one[part], other[part]))))

    def add(self, vector: Array, factor: float, other: Array) -> None:
        """vector += factor * other"""

        def do(part: slice) -> None:
            vector[part] += factor * other[part]

        self._each(do)

    def scale_and_add(self, vector: Array, factor: float, other: Array) -> None:
        """vector = factor * vector + other"""

        def do(part: slice) -> None:
            vector[part] *= factor
            vector[part] += other[part]

        self._each(do)

    def copy_bandwidth(self) -> float:
        """Bytes/s, read and written, of the fastest of some copies of the matrix's first half."""
        half = NEIGHBOURS // 2
        source, target = self._diagonals[:half], self._diagonals[half : 2 * half]

        def copy(part: slice) -> None:
            for n in range(half):
                target[n, part] = source[n, part]

        took = []
        for _ in range(COPIES):
            begin = time.perf_counter()
            self._each(copy)
            took.append(time.perf_counter() - begin)
        return float(2 * source.nbytes / min(took))
