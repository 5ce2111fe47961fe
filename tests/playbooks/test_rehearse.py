"""The rehearsal lab's playbook from outside: what it refuses, before anything is made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import REPO, changed, environment

# A lab of the tests' own, so that a person's lab stays as it is.
NO_INVENTORY = "[WARNING]: No inventory was parsed, only implicit localhost is available"
LAB = ["-erehearsal_lab=refused", "-erehearsal_subnet=10.201.249.0/24"]


def rehearse(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    given = [*LAB, f"-estrata_cache={tmp_path}/cache", f"-erehearsal_inventory={tmp_path}/lab"]
    return subprocess.run(
        ["ansible-playbook", "playbooks/rehearse.yml", *given, *arguments],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )


def lacks(queue: str) -> bool:
    """Whether this machine's kernel has no such queue; asked in a network namespace of its own."""
    command = ["unshare", "--net", "tc", "qdisc", "add", "dev", "lo", "root", queue]
    more = ["delay", "1ms"] if queue == "netem" else []
    return subprocess.run([*command, *more], capture_output=True, check=False).returncode != 0


@pytest.mark.root
@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("rehearsal_nodes=0", ["1 to 50 nodes", "rehearsal_nodes=3", "given: rehearsal_nodes=0"]),
        ("rehearsal_rate=fast", ["kbit, mbit or gbit", "rehearsal_rate=1gbit", "fast"]),
        ("rehearsal_rate=1kbit", ["from 1mbit to 100gbit"]),
        ("rehearsal_delay=20", ["us, ms or s", "rehearsal_delay=20ms"]),
        ("rehearsal_loss=80%", ["up to 50%", "rehearsal_loss=0.5%"]),
        ("rehearsal_memory=much", ["a size is a number", "much"]),
        ("rehearsal_disk=1M", ["at least 1G", "rehearsal_disk=20G"]),
        ("rehearsal_cpus=4096", ["CPUs of this machine", "rehearsal_cpus=1.5"]),
        ("rehearsal_lab=Two_Words", ["letter", "Two_Words"]),
        ("rehearsal_subnet=10.201.249.0/29", ["too small", "3 nodes"]),
        ("rehearsal_subnet=8.8.8.0/24", ["private"]),
        ("rehearsal_subnet=127.0.0.0/8", ["in use on this machine", "lo"]),
        ("state=gone", ["present or absent", "given: gone"]),
    ],
)
def test_bad_settings_are_refused_before_anything_is_made(
    argument: str, words: list[str], tmp_path: Path
) -> None:
    done = rehearse(tmp_path, f"-e{argument}")
    assert done.returncode != 0
    for word in words:
        assert word in done.stdout, done.stdout
    assert changed(done.stdout) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
@pytest.mark.parametrize("setting", ["rehearsal_delay=20ms", "rehearsal_loss=1%"])
def test_what_the_kernel_has_not_is_refused_by_name(setting: str, tmp_path: Path) -> None:
    """Where the kernel has netem, check mode goes on instead."""
    name = setting.partition("=")[0]
    done = rehearse(tmp_path, f"-e{setting}", "--check")
    if lacks("netem"):
        assert done.returncode != 0
        assert f"{name} needs the queue netem" in done.stdout
        assert f"leave it out: -e {name}=none" in done.stdout
    else:
        assert done.returncode == 0, done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.root
@pytest.mark.docker
@pytest.mark.parametrize("state", ["present", "absent"])
def test_check_mode_makes_nothing(state: str, tmp_path: Path) -> None:
    done = rehearse(tmp_path, "--check", "--diff", f"-estate={state}")
    assert done.returncode == 0, done.stdout + done.stderr
    said = (done.stdout + done.stderr).replace(NO_INVENTORY, "")
    assert "WARNING" not in said
    assert list(tmp_path.iterdir()) == []
    found = subprocess.run(
        ["ip", "link", "show", "rh-refused"], capture_output=True, text=True, check=False
    )
    assert "does not exist" in found.stderr


def test_a_site_without_its_nodes_is_refused() -> None:
    """hosts.yml alone, as it is before the lab is made."""
    done = subprocess.run(
        ["ansible-playbook", "site.yml", "-i", "inventories/rehearsal/hosts.yml"],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "no host in the group 'testbed'" in done.stdout
