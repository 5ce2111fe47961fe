"""The built-in factors: every level has a type, and a host has what a level asks for."""

from __future__ import annotations

from typing import Any

import pytest
from strata import cell
from strata.cell import Resources
from strata.errors import Refused

from controller import levels, placing
from workloads import _declare

NAN = float("nan")


def test_the_table_names_all_factors_in_the_order_of_a_cell() -> None:
    assert tuple(levels.FACTORS) == tuple(name for name in cell.NAMES if name != "workload")


def test_workloads_know_the_names_that_are_taken() -> None:
    """They are declared in the image, where nothing of Strata's but the workloads is."""
    assert _declare.BUILT_IN == cell.NAMES


@pytest.mark.parametrize(
    ("name", "level", "read"),
    [
        ("memory", "8G", 8 * 2**30),
        ("memory", 2**30, 2**30),
        ("memory", None, None),
        ("cpus", "0-3,8", "0-3,8"),
        ("cpus", None, None),
        ("numa", 0, 0),
        ("gpus", ["0", "GPU-e86cb44c-6756-fd30-cd4a-1e6da3caf9b0"], ...),
        ("quota", 1, 1),
        ("quota", 0.5, 0.5),
        ("label", "no", "no"),
        ("label", "A/A".replace("/", " against "), "A against A"),
        ("workers", 24, 24),
        ("network", "none", "none"),
        ("beside", None, None),
    ],
)
def test_levels_are_read(name: str, level: Any, read: Any) -> None:
    assert levels.read(name, level) == (level if read is ... else read)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("substrate", ["metal", None, 1, ["vm"]]),
        ("runtime", ["dokcer", True, None]),
        ("network", ["brdige", None]),
        ("label", ["", None, False, 0, "a\nb", "x" * 65, "../up", ["a"], "\x1b[31m"]),
        ("cpus", ["", 0, "a", "3-1", "0-", "0,,1", "0-999999999", "99999", ["0"], True, 1.5]),
        ("memory", [1.5, ["8G"], "8X", "", 0, -1, True, "1K", "9" * 400, NAN, float("inf")]),
        ("numa", ["0", -1, 1024, 0.0, [0], True]),
        ("gpus", ["0", [], [0], ["0", "0"], ["all"], 0, ["GPU-\x1b"], {}]),
        ("quota", ["1", 0, -1.0, NAN, float("inf"), True, [1], 0.001, 10**9]),
        ("distribution", ["rings", None]),
        ("workers", [0, -1, "2", 1.0, None, True, 10**8, 10**9]),
        ("servers", [0, "2", 65535, 10**9]),
        ("placement", ["scattered", None]),
        ("beside", [1, "", ["neighbour"]]),
    ],
)
def test_levels_of_another_type_are_refused(name: str, bad: list[Any]) -> None:
    for level in bad:
        with pytest.raises(Refused) as refused:
            levels.read(name, level, f"factors.{name}")
        assert refused.value.example, level
        assert f"factors.{name}: " in refused.value.given
        assert len(str(refused.value)) < 600


HOST = placing.Host(
    *("here", "vm", ("native",), 4),
    memory_total=4 * 2**30,
    cpus=frozenset({0, 1, 2, 3}),
    nodes=frozenset({0}),
    gpus=frozenset({"0", "GPU-abc"}),
)


@pytest.mark.parametrize(
    ("given", "lacks"),
    [
        ({"cpus": "0-3"}, ""),
        ({"cpus": "2-5"}, "CPU 4-5, of 0-3"),
        ({"quota": 4.0}, ""),
        ({"quota": 4.5}, "4.5 CPUs, of 4"),
        ({"numa": 1}, "NUMA node 1, of 0"),
        ({"gpus": ["0"]}, ""),
        ({"gpus": ["GPU-abc"]}, ""),
        ({"gpus": ["0", "1"]}, "GPU 1, of 0, GPU-abc"),
        ({"memory": 4 * 2**30}, ""),
        ({"memory": 5 * 2**30}, "5 GiB of memory, of 4 GiB"),
        ({"cpus": "9", "numa": 2}, "CPU 9, of 0-3; NUMA node 2, of 0"),
        ({"cpus": None, "memory": None}, ""),
    ],
)
def test_a_host_has_what_a_cell_is_given_or_lacks_it(given: dict[str, Any], lacks: str) -> None:
    assert levels.lacking(Resources(**given), HOST) == lacks
    assert levels.lacking(Resources(**given), placing.Host("paper", "vm", ("native",))) == ""


def test_a_host_without_a_gpu_lacks_each() -> None:
    bare = placing.Host("here", "vm", ("native",), gpus=frozenset())
    assert levels.lacking(Resources(gpus=["0"]), bare) == "GPU 0, of none"
