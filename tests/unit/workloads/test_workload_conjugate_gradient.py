"""Conjugate gradients find the solution of HPCG's problem, however many threads share the work."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import workloads
from workloads import conjugate_gradient
from workloads._options import BadInputError
from workloads._output import Context, StepLog


def dense(grid: int) -> np.ndarray:
    """The matrix, from its definition."""
    points = list(itertools.product(range(grid), repeat=3))
    found = np.zeros((len(points), len(points)))
    for (row, one), (column, other) in itertools.product(enumerate(points), repeat=2):
        if max(abs(a - b) for a, b in zip(one, other, strict=True)) <= 1:
            found[row, column] = 26 if row == column else -1
    return found


@pytest.mark.parametrize("threads", [1, 3])
def test_the_matrix_is_that_of_hpcg(threads: int) -> None:
    matrix, vector = dense(4), np.random.default_rng(1).normal(size=(4, 4, 4))
    with conjugate_gradient.Problem(4, threads) as problem:
        flat = problem.flat(vector)
        product = problem.cube(problem.product(flat)).ravel()
        assert product == pytest.approx(matrix @ vector.ravel())
        assert problem.cube(problem.right).ravel() == pytest.approx(matrix.sum(axis=1))
        assert problem.dot(flat, flat) == pytest.approx(float((vector**2).sum()))
        assert problem.flop == 2 * np.count_nonzero(matrix) + 10 * 64


def test_the_solution_is_ones() -> None:
    with conjugate_gradient.Problem(8, 2) as problem:
        seen: list[float] = []
        found, residual = conjugate_gradient.solve(problem, 40, seen.append)
        assert len(seen) <= 40 and residual < 1e-10
        assert np.abs(problem.cube(found) - 1).max() < 1e-9
        _, early = conjugate_gradient.solve(problem, 2, seen.append)
        assert residual < early < 1


def test_each_iteration_is_a_step_and_the_bound_is_told(tmp_path: Path) -> None:
    options = workloads.options("conjugate_gradient").parse(
        {"grid": 8, "iterations": 6, "warmup_iterations": 2}
    )
    found = workloads.workload("conjugate_gradient")
    with StepLog(tmp_path / "steps.jsonl") as steps:
        context = Context("cg", tmp_path, steps, cpus=2, metrics=found.METRICS)
        found.run(options, context)
    rows = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [row["phase"] for row in rows] == 2 * ["warmup"] + 6 * ["measured"]
    values = {name: scalar["value"] for name, scalar in context.scalars.items()}
    assert set(values) == {metric.name for metric in found.METRICS}
    assert values["flops"] == pytest.approx(rows[0]["items"] / values["iteration_mean"])
    assert values["of_copy"] == values["bandwidth"] / values["copy_bandwidth"]
    assert 0 < values["residual"] < 1 and context.environment["threads"] == 2


@pytest.mark.parametrize("given", [{"grid": 3}, {"grid": 513}, {"iterations": 0}])
def test_what_is_no_grid_is_refused(given: dict[str, int]) -> None:
    with pytest.raises(BadInputError, match="must be at"):
        workloads.options("conjugate_gradient").parse(given)
