"""Fingerprints: parsers over recorded and plausible text, capture and drift on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from strata import runtimes
from strata.fields import Field
from strata.host import cpus, devices, facts, fingerprint

from schema import fingerprint as meaning

# /proc/cpuinfo of a Firecracker guest with two CPUs, Linux 6.18, shortened.
GUEST = """\
processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC
microcode\t: 0x1000065
physical id\t: 0
core id\t\t: 0
flags\t\t: sse2 fpu hypervisor avx2
power management:

processor\t: 1
model name\t: AMD EPYC
physical id\t: 0
core id\t\t: 1
flags\t\t: sse2 fpu hypervisor avx2
"""


def server(model: str, sockets: int, cores: int, threads: int) -> str:
    """/proc/cpuinfo in the form of a server's: threads of a core have the same core id."""
    blocks = [
        f"processor\t: {number}\nmodel name\t: {model}\n"
        f"physical id\t: {socket}\ncore id\t\t: {core}\n"
        for number, (_, socket, core) in enumerate(
            (thread, socket, core)
            for thread in range(threads)
            for socket in range(sockets)
            for core in range(cores)
        )
    ]
    return "\n".join(blocks)


EPYC = server("AMD EPYC 9654 96-Core Processor", 2, 96, 2)
XEON = server("Intel(R) Xeon(R) Gold 6338 CPU @  2.00GHz", 2, 32, 2)
ARM = """\
processor\t: 0
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes
CPU implementer\t: 0x41
CPU part\t: 0xd0c

processor\t: 1
CPU implementer\t: 0x41
CPU part\t: 0xd0c
"""
# /proc/mounts of a host with control groups version 1, and a plausible one with version 2.
MOUNTS = """\
/dev/vda / ext4 rw,relatime,discard 0 0
tmpfs /sys/fs/cgroup tmpfs rw,relatime,mode=755 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,relatime,cpu 0 0
/dev/md0 /var/lib xfs rw,noatime 0 0
/dev/sdb1 /srv/my\\040data btrfs rw 0 0
overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0
"""
# Docker 20.10 of Debian 12, the parts that are read and some that must not be.


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("text", "model", "sockets", "cores"),
    [
        (GUEST, "AMD EPYC", 1, 2),
        (EPYC, "AMD EPYC 9654 96-Core Processor", 2, 192),
        (XEON, "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", 2, 64),
        (ARM, "ARM 0x41 0xd0c", 1, 2),
    ],
)
def test_cpus(text: str, model: str, sockets: int, cores: int) -> None:
    assert fingerprint.cpu_model(text) == model
    assert fingerprint.topology(text) == (sockets, cores)


def test_flags_are_sorted() -> None:
    assert cpus.flags(GUEST) == ["avx2", "fpu", "hypervisor", "sse2"]
    assert cpus.flags(ARM) == ["aes", "asimd", "evtstrm", "fp"]
    assert cpus.flags("") == []
    assert fingerprint.cpu_model("") == ""


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("always [madvise] never\n", "madvise"),
        ("none [mq-deadline] kyber bfq\n", "mq-deadline"),
        ("none\n", "none"),
        ("", ""),
    ],
)
def test_the_word_in_brackets(text: str, word: str) -> None:
    assert devices.chosen(text) == word


@pytest.mark.parametrize(("text", "number"), [("0\n", 1), ("0-3,8\n", 5), ("0-7", 8), ("", None)])
def test_a_list_of_the_kernels_is_counted(text: str, number: int | None) -> None:
    assert fingerprint.count(text) == number


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/strata", "xfs"),
        ("/var/library", "ext4"),
        ("/srv/my data/strata", "btrfs"),
        ("/", "ext4"),
    ],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert fingerprint.filesystem(MOUNTS, path) == kind


def test_of_two_mounts_in_one_place_the_last_counts() -> None:
    assert fingerprint.filesystem("/dev/a / ext4 rw\n/dev/b / xfs rw\n", "/x") == "xfs"


def test_the_command_line_tells_no_names_or_secrets() -> None:
    text = (
        "BOOT_IMAGE=/vmlinuz root=UUID=1234-5678 ip=10.0.0.1 token=hunter2 ds=nocloud;h=web1 "
        "mitigations=off isolcpus=2-3 intel_idle.max_cstate=1 nosmt highres=off quiet"
    )
    kept = "mitigations=off isolcpus=2-3 intel_idle.max_cstate=1 nosmt highres=off"
    assert fingerprint.cmdline(text) == kept


@pytest.mark.parametrize(
    ("kind", "what"),
    [("kvm", "kvm"), ("qemu-tcg", "tcg"), ("none", "none"), ("xen", "unknown")],
)
def test_accelerator(kind: str, what: str) -> None:
    assert fingerprint.accelerator(kind) == what


@pytest.mark.parametrize(
    ("name", "text", "on"),
    [
        ("cpufreq/boost", "1\n", True),
        ("cpufreq/boost", "0\n", False),
        ("intel_pstate/no_turbo", "0\n", True),
        ("intel_pstate/no_turbo", "1\n", False),
        ("other", "1\n", None),
    ],
)
def test_boost(tmp_path: Path, name: str, text: str, on: bool | None) -> None:
    write(tmp_path / name, text)
    assert fingerprint.boost(tmp_path) is on


def test_frequencies_of_all_cpus(tmp_path: Path) -> None:
    assert fingerprint.governor(tmp_path) == ""
    assert fingerprint.frequency_max(tmp_path) is None
    for number, (governor, khz) in enumerate([("schedutil", 2000000), ("performance", 3500000)]):
        write(tmp_path / f"cpufreq/policy{number}/scaling_governor", governor + "\n")
        write(tmp_path / f"cpufreq/policy{number}/scaling_max_freq", f"{khz}\n")
    assert fingerprint.governor(tmp_path) == "performance,schedutil"
    assert fingerprint.frequency_max(tmp_path) == 3_500_000_000


@pytest.mark.parametrize(
    ("name", "version"), [("cgroup.controllers", 2), ("unified/cgroup.controllers", 1)]
)
def test_control_groups(tmp_path: Path, name: str, version: int) -> None:
    assert fingerprint.cgroup_version(tmp_path) is None
    write(tmp_path / name)
    assert fingerprint.cgroup_version(tmp_path) == version


def test_disks_have_hardware_behind_them(tmp_path: Path) -> None:
    write(tmp_path / "loop0/queue/rotational", "1\n")
    write(tmp_path / "nvme0n1/device/model", "Samsung SSD 980 PRO 1TB   \n")
    (tmp_path / "nvme0n1/device/subsystem").symlink_to("../../class/nvme")
    write(tmp_path / "nvme0n1/device/serial", "S5GXNF0R\n")
    write(tmp_path / "nvme0n1/queue/rotational", "0\n")
    write(tmp_path / "nvme0n1/queue/scheduler", "[none] mq-deadline\n")
    assert devices.disks(tmp_path) == {
        "disk.nvme0n1.bus": "nvme",
        "disk.nvme0n1.model": "Samsung SSD 980 PRO 1TB",
        "disk.nvme0n1.rotational": False,
        "disk.nvme0n1.scheduler": "none",
    }


def test_what_is_on_the_bus_and_what_of_it_is_imitated(tmp_path: Path) -> None:
    # As a guest of QEMU shows them: bridge, virtio disk, and a device that looks like Intel's.
    told = {
        "00:00.0": ("0x8086", "0x1237", "0x060000", "0x1af4", "0x1100"),
        "00:03.0": ("0x1af4", "0x1001", "0x010000", "0x1af4", "0x0002"),
        "00:04.0": ("0x8086", "0x25ab", "0x088000", "0x1af4", "0x1100"),
        "00:05.0": ("0x10de", "0x2330", "0x030200", "0x10de", "0x16c1"),
        "00:06.0": ("0x10de", "0x2330", "0x030200", "0x10de", "0x16c1"),
        "00:07.0": ("0x1b36", "0x000d", "0x0c0330", "0x1af4", "0x1100"),
    }
    for address, values in told.items():
        names = ("vendor", "device", "class", "subsystem_vendor", "subsystem_device")
        for name, value in zip(names, values, strict=True):
            write(tmp_path / address / name, f"{value}\n")
    assert devices.bus(tmp_path) == {
        "pci.devices": {"10de:2330": 2, "1af4:1001": 1, "1b36:000d": 1, "8086:25ab": 1},
        "pci.simulated": ["8086:25ab"],
    }
    assert devices.bus(tmp_path / "none") == {"pci.devices": {}, "pci.simulated": []}


def test_the_make_of_a_machine(tmp_path: Path) -> None:
    assert fingerprint.machine_model(tmp_path) == ""
    write(tmp_path / "sys_vendor", "Dell Inc.\n")
    assert fingerprint.machine_model(tmp_path) == "Dell Inc."
    write(tmp_path / "product_name", "PowerEdge R740\n")
    assert fingerprint.machine_model(tmp_path) == "Dell Inc. PowerEdge R740"


def test_network_cards_and_bridges_that_last(tmp_path: Path) -> None:
    for name in ("eno1", "docker0", "br-0123456789ab", "br-lab", "veth12ab", "lo"):
        write(tmp_path / name / "mtu", "9000\n")
        write(tmp_path / name / "speed", "25000\n")
        write(tmp_path / name / "address", "52:54:00:12:34:56\n")
    for name in ("docker0", "br-0123456789ab", "br-lab"):
        (tmp_path / name / "bridge").mkdir()
    (tmp_path / "eno1/device").mkdir()
    (tmp_path / "eno1/device/driver").symlink_to("/sys/bus/pci/drivers/ice")
    write(tmp_path / "eno1/tx_queue_len", "1000\n")
    for name in ("rx-0", "rx-1", "tx-0"):
        (tmp_path / "eno1/queues" / name).mkdir(parents=True)
    found = devices.nics(tmp_path)
    assert {key: value for key, value in found.items() if value is not None} == {
        "nic.eno1.mtu": 9000,
        "nic.eno1.driver": "ice",
        "nic.eno1.speed": 25_000_000_000,
        "nic.eno1.queues": {"rx": 2, "tx": 1, "length": 1000},
        "nic.docker0.mtu": 9000,
        "nic.br-lab.mtu": 9000,
    }
    used = devices.nics(tmp_path, ["veth12ab"])
    assert {key for key in used if key not in found} == {
        f"nic.veth12ab.{leaf}" for leaf in ("mtu", "offloads", "queues", "rings")
    }


def test_the_devices_that_lead_to_others() -> None:
    own = facts.address()
    assert devices.addresses()["127.0.0.1"] == "lo"
    assert devices.towards(["", "127.0.0.1", *filter(None, [own])]) == set()
    if own:  # without a route there is none to find
        assert devices.towards([own, facts.ELSEWHERE]) == {devices.addresses()[own]}


def test_offloads_of_no_card_are_unknown() -> None:
    assert devices.offloads("no-such-card") is None
    assert "scatter-gather" in (devices.offloads("lo") or [])


def test_gpus_without_their_identity(tmp_path: Path) -> None:
    # In the form of driver 550.
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 2024\n"
    card = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18\nGPU UUID: \t GPU-1111\n"
    write(tmp_path / "version", version)
    write(tmp_path / "gpus/0000:1b:00.0/information", card)
    assert devices.gpus(tmp_path) == {
        "gpu.0.model": "NVIDIA H100 80GB HBM3",
        "gpu.0.driver": "550.54.15",
    }
    assert devices.gpus(tmp_path / "none") == {}


def test_every_key_has_a_meaning() -> None:
    assert meaning.field("cpu.model").label == "CPU"
    assert meaning.field("nic.eth0.100.speed").label == "speed of network card eth0.100"
    assert meaning.field("nic.eth0.100.speed").unit == "bit/s"
    assert meaning.field("python").impact == "allowed"
    for unknown in ("new.key", "disk.model", "disk.sda.new", "new"):
        assert meaning.field(unknown) == Field(unknown)
    impacts = {one.impact for one in (*fingerprint.FIELDS.values(), *fingerprint.FAMILIES.values())}
    assert impacts == {"confound", "allowed"}


@pytest.fixture
def here(tmp_path: Path) -> dict[str, Any]:
    return fingerprint.capture(tmp_path / "not/there") | runtimes.fingerprint()


def test_this_machine_has_only_known_keys_with_values(here: dict[str, Any]) -> None:
    assert json.loads(json.dumps(here, allow_nan=False)) == here
    assert not [key for key in here if meaning.field(key) == Field(key)]
    assert not [key for key, value in here.items() if value is None or value in ("", [], {})]
    must = {"cpu.flags", "cpu.threads", "kernel.release", "memory.total", "filesystem", "python"}
    assert must <= set(here)


def test_this_machine_is_not_identified(here: dict[str, Any]) -> None:
    text = json.dumps(here)
    secrets = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"]
    secrets += [str(path) for path in Path("/sys/class/net").glob("[!l]*/address")]
    for secret in filter(None, map(facts.read_text, secrets)):
        assert secret not in text


def test_drift_is_exact(here: dict[str, Any]) -> None:
    assert fingerprint.drift(here) == []
    disk = "disk.never-there.scheduler"
    assert fingerprint.drift({**here, "kernel.release": "2.6", disk: "x"}) == [
        {"key": "kernel.release", "reference": "2.6", "now": here["kernel.release"]},
        {"key": disk, "reference": "x", "now": None},
    ]
    assert fingerprint.drift({}) == []


def test_the_device_that_leads_to_others_is_in_it_whatever_it_is(tmp_path: Path) -> None:
    leads = devices.towards([facts.ELSEWHERE])
    found = fingerprint.capture(tmp_path, [facts.ELSEWHERE])
    assert all(f"nic.{name}.mtu" in found for name in leads)
    assert fingerprint.drift(found, [facts.ELSEWHERE]) == []


def test_quick_keys_are_keys() -> None:
    assert set(fingerprint.QUICK) <= set(fingerprint.READERS) <= set(fingerprint.FIELDS)
