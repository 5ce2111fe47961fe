"""A cell taken apart and put together: what a record says of it does not change."""

from __future__ import annotations

from typing import Any

import pytest
from strata.cell import NAMES, Cell, Platform, Resources, Scenario

LONE: dict[str, Any] = {
    **{"substrate": "vm", "runtime": "native", "network": "host", "label": ""},
    **{"workload": "spin", "cpus": None, "memory": None, "numa": None, "gpus": None},
    **{"quota": None, "distribution": "none", "workers": 1, "servers": 0},
    **{"placement": "spread", "beside": None},
    **{"fail": "no", "steps": 100, "warmup_steps": 10, "work": 20_000},
}
LIMITED = {**LONE, "cpus": "0-1", "memory": 2**30, "gpus": ["0"], "quota": 1.5, "runtime": "docker"}
SERVED = {**LONE, "distribution": "ps_sync", "workers": 3, "servers": 2, "placement": "packed"}


@pytest.mark.parametrize("levels", [LONE, LIMITED, SERVED])
def test_flat_levels_come_back_as_they_were(levels: dict[str, Any]) -> None:
    assert Cell.of(levels).levels == levels
    assert tuple(Cell.of(levels).levels)[: len(NAMES)] == NAMES


def test_each_part_has_what_is_its_own() -> None:
    found = Cell.of(LIMITED)
    assert found.platform == Platform("vm", "docker", "host")
    assert str(found.platform) == "vm/docker/host"
    assert found.resources == Resources("0-1", 2**30, None, ["0"], 1.5)
    assert found.scenario == Scenario()
    assert set(found.options) == {"fail", "steps", "warmup_steps", "work"}
    assert Cell.of(SERVED).scenario.members == 5


# As the results of earlier versions have them: a cell keeps its name, or nothing could be compared.
@pytest.mark.parametrize(
    ("levels", "job", "name"),
    [
        (LONE, None, "23705612d11d"),
        (LIMITED, None, "36f61d26aba4"),
        (SERVED, None, "e7c7af7010ba"),
        ({**LONE, "beside": "neighbour"}, {**LONE, "cpus": "1"}, "3791305bb1d5"),
    ],
)
def test_a_cell_keeps_its_name(
    levels: dict[str, Any], job: dict[str, Any] | None, name: str
) -> None:
    cell = Cell.of(levels)
    beside = Cell(cell.platform, cell.workload, cell.label, cell.resources, cell.scenario,
                  cell.options, Cell.of(job) if job else None)  # fmt: skip
    assert beside.name == name


def test_a_level_that_is_missing_is_no_cell() -> None:
    with pytest.raises(KeyError, match="quota"):
        Cell.of({name: level for name, level in LONE.items() if name != "quota"})
