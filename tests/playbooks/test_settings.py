"""The run stage switches to a setting, proves it, and leaves it again, whatever happens.

The setting is a bridge of the tests: a role that really makes it on this machine, and a network
that needs it, in a copy of the tree. The role's faults are files that a test puts down.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import tree as trees
from tests.conftest import EXPERIMENTS, LOCAL, PATIENCE_S, REPO

pytestmark = pytest.mark.root
ROLE = REPO / "tests/data/roles/toy_bridge"
HOST = '        Network("host", EVERY, of_host=True),\n'
TOY = '        Network("toy", ("native",), setting="toy", role="toy_bridge"),\n'
NET = Path("/sys/class/net")


@dataclass
class Toy:
    """A copy of the tree with the network `toy`, the faults of its role, and a results folder."""

    tree: Path
    faults: Path
    results: Path

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """ansible-playbook of the copy, in a process group of its own."""
        given = [f"-estrata_results={self.results}", f"-etoy_bridge_faults={self.faults}"]
        return subprocess.Popen(
            ["ansible-playbook", *arguments, *given, f"-estrata_cache={REPO / '.cache'}"],
            cwd=self.tree,
            env=trees.environment(self.tree),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def python(self, *arguments: str) -> str:
        """What a script says that imports the copy."""
        command = [sys.executable, "-c", *arguments]
        return subprocess.check_output(
            command, cwd=self.tree, env=trees.environment(self.tree), text=True
        )

    def run(self, *arguments: str) -> tuple[int, str]:
        """The same, to its end: its exit status, and what it said."""
        process = self.start(*arguments)
        said = process.communicate()[0]
        return process.returncode, said

    def fault(self, name: str) -> Path:
        path = self.faults / name
        path.touch()
        return path

    def journal(self) -> list[dict[str, Any]]:
        (path,) = self.results.glob("*/journal.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]

    def switches(self) -> list[str]:
        """What the journal tells of settings, of slots only that there were some, in short."""
        told: list[str] = []
        for event in self.journal():
            name, _, what = event["event"].partition("_")
            short = f"{event['block']} {what}" if name == "setting" else event["event"]
            short += f" {event['stage']}" if what == "failed" else ""
            if name != "slot":
                told.append(short)
            elif told[-1] != "slots":
                told.append("slots")
        return told


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    tree, faults = tmp_path / "tree", tmp_path / "faults"
    faults.mkdir()
    trees.copy(tree)
    shutil.copytree(ROLE, tree / "roles/toy_bridge")
    descriptors = tree / "module_utils/strata/networks.py"
    text = descriptors.read_text()
    assert HOST in text
    descriptors.write_text(text.replace(HOST, HOST + TOY))
    yield Toy(tree, faults, tmp_path / "results")
    for path in NET.glob("toy-*"):
        subprocess.run(["ip", "link", "del", path.name], check=False)


def bridges() -> list[str]:
    """Those of this machine, and of the network that stands for another host's."""
    command = ["ip", "-n", NAMESPACE, "-o", "link", "show", "type", "bridge"]
    there = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    other = [line.split(": ")[1] for line in there.splitlines()]
    return sorted([*(path.name for path in NET.glob("toy-*")), *other])


@pytest.mark.image
def test_settings_are_switched_to_proven_and_left_whatever_happens(
    deployed: None, toy: Toy
) -> None:
    """One run, and all that can happen to it: a kill, failing switches, and what is left over."""
    command = ("site.yml", *LOCAL, f"-estrata_experiment={EXPERIMENTS}/settings.yml")
    hang = toy.fault("hang")
    process = toy.start(*command)
    wait_for(lambda: bridges() != [], process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert toy.switches() == ["opened", "b1 begun"]
    assert bridges() == ["toy-localhost"]

    hang.unlink()
    toy.fault("present-localhost")
    toy.fault("prove-localhost")
    status, said = toy.run(*command)
    assert status != 0
    assert toy.switches()[2:] == [
        *("resumed", "b1 left"),
        *("b1 begun", "b1 failed present", "b1 left"),
        *("b2 begun", "b2 failed prove", "b2 left"),
        *("b3 begun", "b3 proven", "slots", "b3 left"),
    ]
    assert bridges() == []
    assert "not measured: b1, b2" in said
    assert "block b1, setting toy: it could not be made: localhost: present-localhost" in said
    assert "b2, setting toy, prove: localhost: prove-localhost, a fault of a test" in said

    forget = toy.fault("absent")
    before = len(toy.switches())
    status, said = toy.run(*command)
    assert status != 0
    left = "b1 failed absent"
    assert toy.switches()[before:] == ["resumed", "b1 begun", "b1 proven", "slots", left, left]
    assert "the setting toy could not be left" in said
    assert "localhost: of toy, toy-localhost is not absent" in said
    assert bridges() == ["toy-localhost"]

    forget.unlink()
    before = len(toy.switches())
    status, said = toy.run(*command)
    assert status == 0, said
    assert toy.switches()[before:] == [
        *("resumed", "b1 left", "b2 begun", "b2 proven", "slots", "b2 left", "closed", "reported")
    ]
    assert bridges() == []
    paths = toy.results.glob("*/trials/*/record.json")
    found = [json.loads(path.read_text()) for path in paths]
    assert all(record["status"] == "ok" for record in found)
    assert sorted((record["block"], record["levels"]["network"]) for record in found) == [
        (block, network) for block in ("b1", "b2", "b3") for network in ("host", "toy")
    ]


@pytest.mark.image
def test_a_setting_that_breaks_under_a_trial_is_made_again(
    deployed: None, toy: Toy, tmp_path: Path
) -> None:
    """The trial is lost with its cause; the others are measured on a setting that is proven."""
    asked = yaml.safe_load((EXPERIMENTS / "settings.yml").read_text())
    longer = {"visits": 1, "options": {"steps": 200, "warmup_steps": 1, "work": 40_000}}
    (tmp_path / "longer.yml").write_text(yaml.safe_dump({**asked, **longer}))
    process = toy.start("site.yml", *LOCAL, f"-estrata_experiment={tmp_path / 'longer.yml'}")
    wait_for(lambda: trials() != [] and toy.switches()[-1] == "slots", process)
    subprocess.run(["ip", "link", "del", "toy-localhost"], check=True)
    for pid in trials():
        os.kill(pid, signal.SIGKILL)
    said = process.communicate()[0]
    assert process.returncode == 0, said
    assert toy.switches() == [
        *("opened", "b1 begun", "b1 proven", "slots"),
        *("b1 failed measured", "b1 left", "b1 begun", "b1 proven", "slots", "b1 left"),
        *("closed", "reported"),
    ]
    assert "it is not in place any more, and is made again" in said
    assert "localhost: of toy, toy-localhost is not present" in said
    found = [json.loads(path.read_text()) for path in toy.results.glob("*/trials/*/record.json")]
    (lost,) = [record for record in found if record["status"] != "ok"]
    # By how far it was when it was killed.
    assert len(found) == 6 and lost["reason"]["cause"] in ("start", "exit")


def trials() -> list[int]:
    """Programs of trials that run on this machine."""
    command = ["pgrep", "--full", "--", "-m workloads"]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in found.split()]


# As ssh: what it is given runs here, with a network of its own, unless the host is to be gone once
# it has its bridge.
SSH = """#!/bin/sh
for last; do :; done
[ ! -e {faults}/gone ] || ! ip -n {namespace} link show toy-b >/dev/null 2>&1 || exit 255
exec ip netns exec {namespace} /bin/sh -c "$last"
"""
NAMESPACE = "strata-toy-b"


# A plan of both hosts, made by the copy, which alone knows the network.
PLAN = """
import json, sys
from pathlib import Path
from controller import experiment, plan
asked = experiment.load(Path(sys.argv[1]))
made = plan.make(asked, [plan.Host(name, "bare_metal", ("native",), 2) for name in "ab"])
more = {"experiment": asked.model_dump(mode="json"), "factors": made.factors}
print(json.dumps({**made.document(), **more, "baseline": made.baseline}))
"""


@pytest.fixture
def two(toy: Toy, tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """The command of the run stage alone, on two hosts, for a plan whose trials hold no lease."""
    planned = {
        **json.loads(toy.python(PLAN, str(EXPERIMENTS / "settings.yml"))),
        **{"run": "settings-1", "digest": "p", "experiment_digest": "e", "time_limit": 60},
        **{"hosts": {name: {"substrate": "bare_metal"} for name in "ab"}, "left_out": []},
        **{"addresses": dict.fromkeys("ab", "127.0.0.1"), "confounds": [], "families": ["tools"]},
    }
    ssh = tmp_path / "ssh"
    ssh.write_text(SSH.format(faults=toy.faults, namespace=NAMESPACE))
    ssh.chmod(0o755)
    here = {"ansible_python_interpreter": sys.executable}
    variables = {
        "strata_planned": {"plan": planned, "offers": {}, "controller": {"host": "h", "pid": 1}},
        "workload_image_built": {"images": [{"family": "tools", "kind": "venv", "digest": "d"}]},
        "workload_image_held": {"images": {}},
    }
    hosts = {
        "a": {"ansible_connection": "local"},
        "b": {"ansible_connection": "ssh", "ansible_ssh_executable": str(ssh)},
    }
    inventory = {
        "all": {"hosts": {"localhost": {"ansible_connection": "local", **variables}}},
        "testbed": {
            "hosts": {
                name: {**here, **more, "strata_state_dir": str(tmp_path / f"state-{name}")}
                for name, more in hosts.items()
            }
        },
    }
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    yield ("playbooks/run.yml", "-i", str(tmp_path / "hosts.yml"))
    subprocess.run(["ip", "netns", "del", NAMESPACE], check=True)


def test_a_setting_that_fails_on_one_host_is_left_on_all_of_them(
    toy: Toy, two: tuple[str, ...]
) -> None:
    toy.fault("present-b")
    toy.fault("prove-a")
    status, said = toy.run(*two)
    assert status != 0
    assert toy.switches() == [
        *("opened", "b1 begun", "b1 failed present", "b1 left"),
        *("b2 begun", "b2 failed prove", "b2 left"),
        # Without a lease no trial can run: the run stops, and the setting is left all the same.
        *("b3 begun", "b3 proven", "slots", "b3 left"),
    ], said
    assert "could not be made: b: present-b, a fault of a test" in said
    assert "is not proven: a: prove-a, a fault of a test" in said
    assert bridges() == []


def test_a_setting_is_not_taken_for_left_on_a_host_that_cannot_be_reached(
    toy: Toy, two: tuple[str, ...]
) -> None:
    gone = toy.fault("gone")
    status, said = toy.run(*two)
    assert status != 0
    assert toy.switches() == ["opened", "b1 begun", "b1 failed prove"], said
    assert "no answer from b" in said
    assert bridges() == ["toy-b"]
    gone.unlink()
    toy.run(*two)
    assert toy.switches()[3:5] == ["resumed", "b1 left"]
    assert bridges() == []


def wait_for(seen: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not seen():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline
        time.sleep(0.05)
