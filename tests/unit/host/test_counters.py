"""Parsers of what the kernel says, on text as it says it."""

from __future__ import annotations

from pathlib import Path

import pytest
from strata.host import cgroup, counters

# Linux 6.18 on a virtual machine, 2 CPUs.
STAT = """cpu  10300 20 4100 90000 600 0 80 250 0 0
cpu0 5150 10 2050 45000 300 0 40 125 0 0
ctxt 1
"""
DISKSTATS = """ 254       0 vda 5000 10 400000 900 7000 20 800000 1200 0 2000 2100 0 0 0 0 0 0
 254       1 vda1 4900 10 390000 890 6900 20 790000 1190 0 1990 2080 0 0 0 0 0 0
   7       0 loop0 1 0 2 0 0 0 0 0 0 0 0 0 0 0 0 0 0
"""
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo:  999 1 0 0 0 0 0 0  999 1 0 0 0 0 0 0
  eth0: 5000 9 0 0 0 0 0 0 7000 9 0 0 0 0 0 0
docker0:100 1 0 0 0 0 0 0  200 2 0 0 0 0 0 0
"""


def test_cpu_time_by_what_it_went_to() -> None:
    found = counters.cpu(STAT)
    assert found.busy == pytest.approx((10300 + 20 + 4100 + 80) / counters.TICK)
    assert found.interrupts == pytest.approx(80 / counters.TICK)
    assert found.iowait == pytest.approx(600 / counters.TICK)
    assert found.steal == pytest.approx(250 / counters.TICK)


def test_whole_disks_count_and_partitions_do_not() -> None:
    assert counters.disks(DISKSTATS, {"vda"}) == (400000 * 512, 800000 * 512)
    assert counters.disks(DISKSTATS, set()) == (0, 0)


def test_loopback_does_not_count() -> None:
    assert counters.network(NET) == (5100, 7200)


def test_swap_memory_pressure_frequency() -> None:
    assert counters.swapped("pgpgin 1\npswpin 3\npswpout 4\n") == 7 * counters.PAGE
    assert (
        counters.memory_used("MemTotal: 100 kB\nMemFree: 5 kB\nMemAvailable: 60 kB\n") == 40 * 1024
    )
    text = (
        "some avg10=12.50 avg60=1.00 avg300=0.10 total=1500000\nfull avg10=0.00 avg60=0 total=0\n"
    )
    assert counters.pressure(text) == 0.125 and counters.waited(text) == 1.5
    assert counters.frequency(["2000000\n", "3000000\n"]) == 2.5e9
    assert counters.frequency([]) is None


def test_a_packet_that_passes_a_bridge_and_a_card_counts_once() -> None:
    assert counters.network(NET, frozenset({"eth0"})) == (5000, 7000)


def test_a_host_without_counters_has_zeros(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(counters, "host_text", lambda _: "")
    for name in ("BLOCK", "CARDS", "CPUS"):
        monkeypatch.setattr(counters, name, tmp_path / "none")
    found = counters.totals()
    assert found.cpu_busy > 0
    assert (found.disk_read, found.net_sent, found.swap, found.throttled) == (0, 0, 0, 0)


def test_thermal_counters_are_summed() -> None:
    assert counters.throttled(["3\n", "0\n", "4\n"]) == 7


def test_counters_of_both_versions_of_control_groups(tmp_path: Path) -> None:
    two = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path / "two")
    (tmp_path / "two").mkdir()
    (tmp_path / "two/cpu.stat").write_text("usage_usec 2500000\nnr_throttled 4\n")
    (tmp_path / "two/memory.current").write_text("4096\n")
    (tmp_path / "two/memory.peak").write_text("8192\n")
    (tmp_path / "two/memory.events").write_text("oom 1\noom_kill 1\n")
    one = {name: tmp_path / "one" / name for name in cgroup.V1_CONTROLLERS}
    for folder in one.values():
        folder.mkdir(parents=True)
    (one["cpuacct"] / "cpuacct.usage").write_text("2500000000\n")
    (one["memory"] / "memory.usage_in_bytes").write_text("4096\n")
    (one["memory"] / "memory.max_usage_in_bytes").write_text("8192\n")
    (one["memory"] / "memory.oom_control").write_text("oom_kill_disable 0\noom_kill 1\n")
    for folders in (one, two):
        assert cgroup.cpu_seconds(folders) == 2.5
        assert (cgroup.memory_now(folders), cgroup.memory_peak(folders)) == (4096, 8192)
        assert cgroup.memory_kills(folders) == 1
    assert cgroup.throttled(two) == 4
    nowhere = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path / "nowhere")
    assert cgroup.cpu_seconds(nowhere) is None
    assert cgroup.memory_kills(nowhere) is None
