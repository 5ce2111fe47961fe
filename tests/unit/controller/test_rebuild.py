"""A testbed's lock: what it holds, what cannot be had of it, and what differs afterwards."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from test_results import IMAGE, PLAN, RUN

from controller import rebuild, results
from controller.rebuild import Seen
from schema import lock as schema
from schema.documents import SchemaError

HOST = {
    **{"cpu.model": "Example CPU 3000", "memory.total": 2**34, "nic.eth0.speed": 10**10},
    **{"kernel.release": "6.1.0-40", "docker.version": "20.10.24", "clock.synchronised": True},
    **{"package.docker.io": "20.10.24+dfsg1-1", "package.rsync": "3.2.7-1"},
    **{"sysctl.vm.swappiness": "60", "firmware.bios_version": "2.19.1"},
}
OFFER = {"provider": "rehearsal", "what": {"lab": "x"}, "cpu_ids": [0, 1], "memory_total": 2**34}
SEEN = Seen(
    images=[IMAGE],
    runtimes=["native"],
    offers={"made": OFFER},
    hosts={"here": HOST, "made": HOST},
    names=["here", "made"],
)


def changed(**values: Any) -> Seen:
    """The testbed with other values of the host `here`; None is for none."""
    now = {key: value for key, value in {**HOST, **values}.items() if value is not None}
    return replace(SEEN, hosts={**SEEN.hosts, "here": now})


@pytest.fixture
def run(tmp_path: Path) -> results.Run:
    lock = rebuild.lock("lab", SEEN)
    return results.Run.create(tmp_path / "x-1", RUN, PLAN, {"here": {}}, lock)


def test_the_lock_lies_with_the_run_and_is_readable(run: results.Run) -> None:
    document = json.loads((run.folder / "testbed.lock").read_text())
    made = document["hosts"]["made"]
    assert made["provider"] == "rehearsal" and made["placement"] == {"cpus": 2, "memory": 2**34}
    assert list(made["software"]) == sorted(made["software"])
    assert set(made["hardware"]) == {
        *("cpu.model", "memory.total", "nic.eth0.speed", "firmware.bios_version")
    }
    assert rebuild.packages(rebuild.of(run))["here"] == {
        "docker.io": "20.10.24+dfsg1-1",
        "rsync": "3.2.7-1",
    }


def test_equal_testbeds_have_equal_digests_whatever_is_allowed_to_differ() -> None:
    first = rebuild.lock("lab", SEEN)["digest"]
    assert rebuild.lock("lab", changed(**{"clock.synchronised": False}))["digest"] == first
    assert rebuild.lock("lab", changed(**{"package.rsync": "3.2.8-1"}))["digest"] != first
    other = {**IMAGE, "digest": "e"}
    assert rebuild.lock("lab", replace(SEEN, images=[other]))["digest"] != first


def test_a_lock_that_was_changed_by_hand_is_refused(run: results.Run) -> None:
    path = run.folder / "testbed.lock"
    path.write_text(path.read_text().replace("20.10.24+dfsg1-1", "20.10.25"))
    with pytest.raises(Refused, match="not what was written"):
        rebuild.of(run)
    path.unlink()
    with pytest.raises(Refused, match=r"has no testbed\.lock"):
        rebuild.of(run)


def test_what_is_there_can_be_had_and_what_is_gone_yet_is_not_known(run: results.Run) -> None:
    locked = rebuild.of(run)
    rebuild.check(locked, SEEN)
    rebuild.check(locked, replace(SEEN, hosts={}))
    rebuild.check(locked, changed(**{"kernel.release": "6.1.0-41", "package.rsync": "3.2.8-1"}))


@pytest.mark.parametrize(
    ("seen", "line"),
    [
        (
            changed(**{"cpu.model": "Example CPU 3001"}),
            "here: cpu.model: Example CPU 3000 locked, Example CPU 3001 there",
        ),
        (changed(**{"nic.eth0.speed": None}), "here: nic.eth0.speed: 10000000000 locked, none"),
        (
            replace(SEEN, unavailable={"made": ["docker.io=20.10.24+dfsg1-1"]}),
            "made: package docker.io=20.10.24+dfsg1-1 locked, and no source of packages has it",
        ),
        (replace(SEEN, images=[]), "image of tools: d locked, in the cache none; --tags deploy"),
        (
            replace(SEEN, images=[{**IMAGE, "digest": "e"}]),
            "image of tools: d locked, in the cache e",
        ),
        (replace(SEEN, names=["here"]), "hosts: here, made locked, here in the inventory"),
        (
            replace(SEEN, offers={"made": {**OFFER, "placement": {"rate": 1e9}}}),
            f"made: memory: {2**34} locked, none there",
        ),
        (replace(SEEN, offers={}), "made: provider: rehearsal locked,  there"),
        (replace(SEEN, runtimes=["kubernetes"]), "kubernetes.etcd: none locked, v"),
    ],
)
def test_each_line_that_cannot_be_had_is_refused(run: results.Run, seen: Seen, line: str) -> None:
    with pytest.raises(Refused) as caught:
        rebuild.check(rebuild.of(run), seen)
    assert f"\n  {line}" in str(caught.value)


def test_many_lines_are_counted(run: results.Run) -> None:
    many = [f"p{number}=1" for number in range(30)]
    with pytest.raises(Refused, match="and 10 more"):
        rebuild.check(rebuild.of(run), replace(SEEN, unavailable={"here": many}))


def test_the_difference_is_none_or_each_line_with_its_class(run: results.Run) -> None:
    took = {"down": 3.0, "up": 40.0}
    same = rebuild.keep(run, SEEN, "2026-01-01T00:00:00Z", took, {"made": "abc"})
    assert same.differences == [] and same.digest == same.locked
    (line,) = rebuild.told(same)
    assert line.startswith("rebuild 1 (down 3 s, up 40 s): no difference: ")

    values = {"clock.synchronised": False, "sysctl.vm.swappiness": "1", "docker.runc": "1.2"}
    other = rebuild.keep(run, changed(**values), "2026-01-01T01:00:00Z", took, {})
    assert rebuild.told(other)[1:] == [
        "confound: here: runc: none locked, 1.2 found",
        "confound: here: kernel setting vm.swappiness: 60 locked, 1 found",
        "allowed: here: clock is synchronised: True locked, False found",
    ]
    assert other.digest != other.locked
    kept = schema.read_rebuilds(run.folder)
    assert [one.number for one in kept] == [1, 2] and kept[1] == other
    assert kept[0].instances == {"made": "abc"}


def test_a_difference_of_the_images_is_one_of_all_hosts(run: results.Run) -> None:
    seen = replace(SEEN, images=[{**IMAGE, "digest": "e"}])
    (row,) = rebuild.keep(run, seen, "2026-01-01T00:00:00Z", {}, {}).differences
    assert (row.host, row.key, row.kind) == ("", "image.tools", "confound")


def test_components_are_those_of_the_requirements() -> None:
    assert rebuild.components(["native", "docker"]) == {}
    found = rebuild.components(["kubernetes"])
    assert {"kubernetes.yml", "kubernetes.flannel", "calico.calico", "cilium.yml"} <= set(found)
    assert found["kubernetes.cni"].startswith("v1.")


def test_a_lock_of_a_newer_strata_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "testbed.lock"
    path.write_text(json.dumps({**rebuild.lock("lab", SEEN), "schema": 99}))
    with pytest.raises(SchemaError, match="newer Strata"):
        schema.read_lock(path)


def test_the_journal_tells_which_rebuild_is_in_place(run: results.Run) -> None:
    assert run.rebuild() == 1
    run.event("rebuild_begun", rebuild=2)
    assert run.rebuild() == 0, "a kill in the middle of one leaves none"
    run.event("rebuilt", rebuild=2, number=1, instances={})
    assert run.rebuild() == 2
