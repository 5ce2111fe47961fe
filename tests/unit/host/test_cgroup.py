"""Control groups of both versions, in folders that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest
from strata.host import cgroup
from strata.host.counters import Counters

# Linux 6.18, version 1, and 6.8, version 2.
V1 = {
    "memory/memory.usage_in_bytes": "4096000\n",
    "memory/memory.max_usage_in_bytes": "8192000\n",
    "memory/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    "cpuacct/cpuacct.usage": "4821690483935\n",
    "cpu/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
}
V2 = {
    "memory.current": "4096000\n",
    "memory.peak": "8192000\n",
    "memory.events": "low 0\nhigh 0\nmax 12\noom 1\noom_kill 1\noom_group_kill 0\n",
    "cpu.stat": "usage_usec 4821690\nuser_usec 1\nsystem_usec 1\nnr_periods 9\nnr_throttled 3\n"
    "throttled_usec 5\n",
}


def fill(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    first = {name: tmp_path / name for name in cgroup.V1_CONTROLLERS}
    one = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path)
    monkeypatch.setattr(cgroup, "of_process", lambda _: one if cgroup.version() == 2 else first)
    return tmp_path


def test_counters_of_version_1(tmp_path: Path) -> None:
    fill(tmp_path, V1)
    folders = {name: tmp_path / name for name in cgroup.V1_CONTROLLERS}
    assert cgroup.counters(folders) == Counters(4821.690483935, 4096000, 8192000, 0)
    assert cgroup.memory_kills(folders) == 1


def test_counters_of_version_2(tmp_path: Path) -> None:
    fill(tmp_path, V2)
    folders = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path)
    assert cgroup.counters(folders) == Counters(4.82169, 4096000, 8192000, 3)
    assert cgroup.memory_kills(folders) == 1


def test_a_limit_above_a_group_counts_from_when_its_meter_is_made(root: Path) -> None:
    own = root / "cpu/machine/strata/t"
    fill(own, {"cpu.stat": "nr_throttled 1\n"})
    fill(own.parents[1], {"cpu.stat": "nr_throttled 7\n"})
    meter = cgroup.Meter(dict.fromkeys(cgroup.V1_CONTROLLERS, own))
    assert meter.read().throttled == 1, "what was before is not its own"
    fill(own.parents[1], {"cpu.stat": "nr_throttled 9\n"})
    assert meter.read().throttled == 3


def test_a_group_that_has_gone_tells_nothing(tmp_path: Path) -> None:
    folders = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path / "gone")
    assert cgroup.counters(folders) == Counters()
    assert cgroup.memory_kills(folders) is None


def test_limits_in_version_2(root: Path) -> None:
    (root / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    folder = root / "strata" / "t-r1"
    folder.mkdir(parents=True)
    (folder / "memory.swap.max").write_text("max\n")
    cgroup.Group("t-r1").create("0-1", 2**30, 0, 0.5)
    assert cgroup.version() == 2
    assert (root / "cgroup.subtree_control").read_text() == "+memory +cpu +cpuset"
    assert (root / "strata/cgroup.subtree_control").read_text() == "+memory +cpu +cpuset"
    found = {path.name: path.read_text() for path in folder.iterdir()}
    assert found == {
        "memory.swap.max": "0",
        "memory.max": str(2**30),
        "cpuset.cpus": "0-1",
        "cpuset.mems": "0",
        "cpu.max": "50000 100000",
    }
    assert cgroup.Group("t-r1").procs_files() == [str(folder / "cgroup.procs")]


def test_limits_in_version_1(root: Path) -> None:
    fill(root / "cpuset", {"cpuset.cpus": "0-7\n", "cpuset.mems": "0-1\n"})
    for name in ("memory", "cpu", "cpuacct"):
        (root / name).mkdir()
    cgroup.Group("t-r1").create("2", 2**30, None, 1.5)
    assert cgroup.version() == 1
    folder = root / "cpuset/strata/t-r1"
    assert (folder / "cpuset.cpus").read_text() == "2"
    assert (folder / "cpuset.mems").read_text() == "0-1\n", "a new set is empty in version 1"
    assert (root / "memory/strata/t-r1/memory.limit_in_bytes").read_text() == str(2**30)
    assert (root / "cpu/strata/t-r1/cpu.cfs_quota_us").read_text() == "150000"
    assert (root / "cpu/strata/t-r1/cpu.cfs_period_us").read_text() == "100000"
    assert len(cgroup.Group("t-r1").procs_files()) == 4
    assert [group.name for group in cgroup.existing()] == ["t-r1"]


def test_what_is_beside_the_first_process_of_a_host_is_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    text = "4:memory:/lab/n1/init.scope\n3:cpuset:/lab/n1\n2:cpu,cpuacct:/lab/n1\n0::/\n"
    monkeypatch.setattr(Path, "read_text", lambda _: text)
    monkeypatch.setattr(cgroup, "version", lambda: 1)
    found = cgroup.Group("t").paths()
    assert set(found) == set(cgroup.V1_CONTROLLERS)
    assert found["memory"] == tmp_path / "memory/lab/n1/strata/t"
    assert found["cpu"] == tmp_path / "cpu/lab/n1/strata/t"


def test_the_group_of_a_process_in_both_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path
    monkeypatch.setattr(cgroup, "ROOT", root)
    text = "4:memory:/docker/ab\n3:cpuset:/docker/ab\n2:cpu,cpuacct:/docker/ab\n0::/\n"
    monkeypatch.setattr(Path, "read_text", lambda _: text)
    monkeypatch.setattr(cgroup, "version", lambda: 1)
    names = {name: name for name in ("memory", "cpuset", "cpu", "cpuacct")}
    assert cgroup.of_process(1) == {k: root / v / "docker/ab" for k, v in names.items()}
    text = "0::/system.slice/docker-ab.scope\n"
    monkeypatch.setattr(cgroup, "version", lambda: 2)
    folder = root / "system.slice/docker-ab.scope"
    assert cgroup.of_process(1) == dict.fromkeys(cgroup.V1_CONTROLLERS, folder)
