"""What a host was built of, read from trees of files of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host import built

from schema import fingerprint as meaning

# Of /var/lib/dpkg/status, shortened: two installed, one for another architecture, one removed.
STATUS = """\
Package: tzdata
Status: install ok installed
Architecture: all
Version: 2025b-0+deb12u2

Package: libpopt0
Status: install ok installed
Architecture: {own}
Multi-Arch: same
Version: 1.19+dfsg-1

Package: libc6
Status: install ok installed
Architecture: mips
Multi-Arch: same
Version: 2.36-9+deb12u13

Package: rsync
Status: deinstall ok config-files
Architecture: {own}
Version: 3.2.7-1
"""
# What `apt-cache madison docker.io fio` says on Debian 12.
MADISON = [
    " docker.io | 20.10.24+dfsg1-1+deb12u1+b6 | http://mirror.example/debian bookworm/main amd64 "
    "Packages",
    "       fio |     3.33-3 | http://mirror.example/debian bookworm/main amd64 Packages",
]


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_packages_are_those_that_are_installed(tmp_path: Path) -> None:
    if not built.has("dpkg-query"):
        pytest.skip("needs dpkg: it reads what that has written")
    ask = ["dpkg", "--print-architecture"]
    own = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    write(tmp_path, {"var/lib/dpkg/status": STATUS.format(own=own)})
    (tmp_path / "var/lib/dpkg/updates").mkdir()
    (tmp_path / "var/lib/dpkg/info").mkdir()
    assert built.packages(tmp_path) == {
        "package.tzdata": "2025b-0+deb12u2",
        "package.libpopt0": "1.19+dfsg-1",
        "package.libc6:mips": "2.36-9+deb12u13",
    }


def test_settings_are_those_of_speed_those_of_own_files_and_those_that_left_the_distributions(
    tmp_path: Path,
) -> None:
    write(
        tmp_path,
        {
            "usr/lib/sysctl.d/50-default.conf": "kernel.sysrq = 438\n-fs.suid_dumpable = 2\n"
            "net.ipv4.conf.*.rp_filter = 2\n# kernel.panic = 1\n",
            "etc/sysctl.d/90-lab.conf": "kernel.panic=10\nnet/ipv4/conf/eth0.1/forwarding = 1\n",
            "proc/sys/kernel/sysrq": "16\n",
            "proc/sys/fs/suid_dumpable": "2\n",
            "proc/sys/kernel/panic": "10\n",
            "proc/sys/net/ipv4/conf/eth0.1/forwarding": "0\n",
            "proc/sys/net/ipv4/tcp_rmem": "4096\t131072\t6291456\n",
            "proc/sys/kernel/hostname": "secret\n",
        },
    )
    assert built.settings(tmp_path) == {
        "sysctl.kernel.sysrq": "16",
        "sysctl.kernel.panic": "10",
        "sysctl.net/ipv4/conf/eth0.1/forwarding": "0",
        "sysctl.net.ipv4.tcp_rmem": "4096 131072 6291456",
    }
    assert set(built.settings(tmp_path, shared=True)) == {
        "sysctl.net/ipv4/conf/eth0.1/forwarding",
        "sysctl.net.ipv4.tcp_rmem",
    }


def test_parameters_are_those_that_a_file_sets_of_modules_that_are_loaded(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/modprobe.d/lab.conf": "options kvm-intel nested=0 ept=1\noptions absent x=1\n"
            "blacklist pcspkr\n",
            "sys/module/kvm_intel/parameters/nested": "N\n",
            "sys/module/kvm_intel/parameters/vpid": "Y\n",
        },
    )
    assert built.parameters(tmp_path) == {"module.kvm_intel.nested": "N"}


def test_firmware_tells_of_the_model_and_not_of_the_machine(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "sys/class/dmi/id/bios_version": "2.19.1\n",
            "sys/class/dmi/id/product_serial": "ABC123\n",
            "sys/block/nvme0n1/device/firmware_rev": "GDC5602Q\n",
        },
    )
    found = built.firmware(tmp_path)
    expected = {"firmware.bios_version": "2.19.1", "firmware.disk nvme0n1": "GDC5602Q"}
    assert found == expected
    assert all(map(meaning.is_hardware, found))


def test_what_differs_from_wanted_versions_and_what_no_source_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = {"fio": "3.33-3", "docker.io": "20.10.24+dfsg1-1+deb12u1+b6", "gone": "1"}
    differing = built.differing(wanted, {"package.fio": "3.33-3", "package.gone": "2"})
    assert differing == ["docker.io=20.10.24+dfsg1-1+deb12u1+b6", "gone=1"]
    monkeypatch.setattr(built, "has", lambda _: True)
    monkeypatch.setattr(built, "_output", lambda _: MADISON)
    assert built.unavailable(differing) == ["gone=1"]
    assert built.unavailable(["fio:amd64=3.33-3", "fio:mips=3.33-3"]) == ["fio:mips=3.33-3"]
    monkeypatch.setattr(built, "has", lambda _: False)
    assert built.unavailable([]) == []
    with pytest.raises(Refused, match="by apt"):
        built.unavailable(differing)


@pytest.mark.parametrize(
    ("key", "label", "hardware"),
    [
        ("package.docker.io", "package docker.io", False),
        ("sysctl.vm.swappiness", "kernel setting vm.swappiness", False),
        ("firmware.bios_version", "firmware: bios_version", True),
        ("cpu.model", "CPU", True),
        ("nic.eth0.1.driver", "driver of network card eth0.1", True),
        ("nic.eth0.mtu", "MTU of network card eth0", False),
        ("kernel.release", "kernel", False),
    ],
)
def test_each_key_has_a_meaning(key: str, label: str, hardware: bool) -> None:
    found = meaning.field(key)
    assert (found.label, found.impact) == (label, "confound")
    assert meaning.is_hardware(key) is hardware
