"""A rehearsal lab of the tests' own: up, reached, measured, changed, down, and nothing left."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.conftest import REPO, changed, environment

pytestmark = [pytest.mark.root, pytest.mark.docker]

NAME, SUBNET = "proof", "10.201.248.0/24"


@dataclass
class Lab:
    folder: Path
    inventory: Path

    def rehearse(self, *more: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        given = [f"-erehearsal_lab={NAME}", f"-erehearsal_subnet={SUBNET}", "-erehearsal_nodes=2"]
        given += ["-erehearsal_disk=1G", f"-erehearsal_inventory={self.inventory}", *more]
        return run("ansible-playbook", "playbooks/rehearse.yml", *given, check=check)

    def ping(self, *more: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run("ansible", "-i", str(self.inventory), "all", "-m", "ping", *more, check=check)

    def node(self, number: int, *command: str) -> str:
        return run("docker", "exec", f"rehearsal-{NAME}-node{number}", *command).stdout


def run(*command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command, cwd=REPO, env=environment(), capture_output=True, text=True, check=False
    )
    if check:
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    return done


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two nodes, made with the base image of `tests.kept`."""
    made = Lab(REPO / ".cache/rehearsal" / NAME, tmp_path_factory.mktemp("lab") / "inventory")
    try:
        began = time.monotonic()
        first = made.rehearse()
        took = time.monotonic() - began
        print(f"\nrehearsal up: 2 nodes in {took:.1f} s, base image kept\n{measured(first)}")
        yield made
    finally:
        made.rehearse("-estate=absent")


def measured(done: subprocess.CompletedProcess[str]) -> str:
    return "\n".join(line for line in done.stdout.splitlines() if "TCP carries" in line)


def test_a_second_run_changes_nothing(lab: Lab) -> None:
    began = time.monotonic()
    done = lab.rehearse()
    print(f"\nrehearsal again: {time.monotonic() - began:.1f} s")
    assert changed(done.stdout) == 0, done.stdout
    assert changed(lab.rehearse("--check").stdout) == 0


def test_nodes_are_servers(lab: Lab) -> None:
    assert lab.ping().stdout.count("ping: pong") == 2
    for number in (1, 2):
        assert lab.node(number, "systemctl", "is-system-running").strip() == "running"
        assert lab.node(number, "hostname").strip() == f"node{number}"
        listening = {line.split()[3] for line in lab.node(number, "ss", "-Hltn").splitlines()}
        assert {at for at in listening if not at.startswith("127.")} == {"0.0.0.0:22", "[::]:22"}
        # In each hierarchy of control groups that it sees, it has one.
        told = lab.node(number, "cat", "/proc/1/cgroup").splitlines()
        groups = dict(line.split(":", 2)[1:] for line in told)
        mounts = [line.split() for line in lab.node(number, "cat", "/proc/mounts").splitlines()]
        seen = {Path(place).name for _, place, kind, *_ in mounts if kind == "cgroup"}
        assert [name for name in seen if groups.get(name) == "/"] == []


def test_login_is_by_the_labs_key_alone(lab: Lab, tmp_path: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in lab.folder.rglob("*_key")}
    assert set(modes.values()) == {0o600}
    fresh = "-eansible_ssh_extra_args=-oControlPath=none"
    for given in ("-eansible_user=root", f"-eansible_ssh_private_key_file={tmp_path}/none"):
        done = lab.ping(given, fresh, check=False)
        assert "Permission denied (publickey)" in done.stdout + done.stderr


def test_another_host_key_is_refused(lab: Lab) -> None:
    """As if another machine answered at node1's address."""
    kept = (lab.folder / "known_hosts").read_text()
    one, two = kept.splitlines()
    swapped = f"{one.split()[0]} {' '.join(two.split()[1:])}\n{two}\n"
    shutil.rmtree("/run/strata-rehearsal/" + NAME, ignore_errors=True)  # no kept connection
    try:
        (lab.folder / "known_hosts").write_text(swapped)
        done = lab.ping("--limit=node1", check=False)
        assert "HOST IDENTIFICATION HAS CHANGED" in done.stdout + done.stderr
        (lab.folder / "known_hosts").write_text(f"{two}\n")
        done = lab.ping("--limit=node1", check=False)
        assert "Host key verification failed" in done.stdout + done.stderr
    finally:
        (lab.folder / "known_hosts").write_text(kept)
    lab.ping()


def test_a_node_fills_its_own_disk_and_no_other(lab: Lab) -> None:
    fill = "head -c 2G /dev/zero > /var/lib/strata/full 2>&1 || echo refused"
    assert "refused" in lab.node(1, "sh", "-c", fill)
    try:
        half = "head -c 50M /dev/zero > /var/lib/strata/half && rm /var/lib/strata/half"
        lab.node(2, "sh", "-c", half)
    finally:
        lab.node(1, "rm", "/var/lib/strata/full")
    done = lab.rehearse("-erehearsal_disk=2G", check=False)
    assert "the size of a node's disk cannot be changed" in done.stdout


def test_links_have_the_rate_that_is_asked_or_it_fails_with_what_was_measured(lab: Lab) -> None:
    """A rate that this machine cannot reach leaves the links unshaped, to be measured again."""
    asked_rate(lab.rehearse("-erehearsal_rate=100mbit"), 100)
    done = lab.rehearse("-erehearsal_rate=100gbit", check=False)
    assert done.returncode != 0
    assert re.search(r"node1 to node2: TCP carries [\d.e+]+ Mbit/s \(asked 1e\+05\)", done.stdout)
    done = lab.rehearse()
    assert changed(done.stdout) == 1
    asked_rate(done, 1000)


def asked_rate(done: subprocess.CompletedProcess[str], asked: float) -> None:
    """What was measured is what was asked, unless others took this machine's CPUs meanwhile."""
    found = re.findall(r"TCP carries ([\d.]+) Mbit/s \(asked \d+\)(, while)?", done.stdout)
    assert len(found) == 2
    for rate, stolen in found:
        assert float(rate) <= 1.01 * asked
        assert float(rate) >= 0.93 * asked or stolen


def test_a_restarted_node_comes_back_and_is_shaped_again(lab: Lab) -> None:
    run("docker", "kill", f"rehearsal-{NAME}-node2")
    assert "UNREACHABLE" in lab.ping("--limit=node2", "-T2", check=False).stdout
    done = lab.rehearse()
    assert "node2 to node1: TCP carries" in done.stdout
    lab.ping()


def test_the_inventory_has_the_groups_of_a_lab(lab: Lab) -> None:
    shown = yaml.safe_load(
        run("ansible-inventory", "-i", str(lab.inventory), "--list", "--yaml").stdout
    )
    assert set(shown["all"]["children"]) == {"testbed", "bare_metal"}
    listed = run("ansible", "-i", str(lab.inventory), "docker:&native:&bare_metal", "--list-hosts")
    assert listed.stdout.split()[-2:] == ["node1", "node2"]


def test_fewer_nodes_and_then_none(lab: Lab) -> None:
    """A disk that is in use is kept, and named, until it is not."""
    lab.rehearse("-erehearsal_nodes=1")
    found = run("docker", "ps", "-aq", f"--filter=label=strata.rehearsal={NAME}").stdout.split()
    assert len(found) == 1
    disk = lab.folder / "disks/node1"
    with subprocess.Popen(["sleep", "3600"], cwd=disk) as user:
        try:
            done = lab.rehearse("-estate=absent", check=False)
            assert done.returncode != 0
            assert f"umount {disk} failed" in done.stdout
            assert f"used by: {user.pid} sleep" in done.stdout
            assert disk.is_mount()
        finally:
            user.kill()
    began = time.monotonic()
    done = lab.rehearse("-estate=absent")
    took = time.monotonic() - began
    print(f"\nrehearsal down: {took:.1f} s")
    assert "nothing of the lab is left" in done.stdout
    assert not lab.folder.exists()
    assert not (lab.inventory / "nodes.yml").exists()
    assert not Path("/run/strata-rehearsal", NAME).exists()
    assert not list(Path("/sys/fs/cgroup").glob(f"*/strata-rehearsal/{NAME}"))
    for listing in (["ps", "-aq"], ["volume", "ls", "-q"], ["network", "ls", "-q"]):
        assert run("docker", *listing, f"--filter=label=strata.rehearsal={NAME}").stdout == ""
    assert f"rh-{NAME}" not in run("iptables-save").stdout
    assert changed(lab.rehearse("-estate=absent").stdout) == 0


def test_what_is_left_is_named(lab: Lab) -> None:
    """A process where the lab's nodes were, which no one but its owner may end."""
    tree = Path("/sys/fs/cgroup/memory")
    group = (tree if tree.is_dir() else tree.parent) / "strata-rehearsal" / NAME / "stray"
    group.mkdir(parents=True)
    with subprocess.Popen(["sleep", "3600"]) as stray:
        try:
            (group / "cgroup.procs").write_text(str(stray.pid))
            done = lab.rehearse("-estate=absent", check=False)
            assert done.returncode != 0
            assert "something of the rehearsal lab is left" in done.stdout
            assert f"control groups: {group.parent}" in done.stdout
            assert f"processes: {stray.pid} sleep 3600" in done.stdout
        finally:
            stray.kill()
    assert "nothing of the lab is left" in lab.rehearse("-estate=absent").stdout
