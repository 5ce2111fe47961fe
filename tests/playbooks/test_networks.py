"""The run stage switches to real networks, proves them, and leaves nothing of them behind.

Two hosts are network namespaces of this machine with a cable between them. Their trials hold no
lease, so that a run ends after its first block: what counts here is the switch.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from controller import experiment, plan
from tests.conftest import EXPERIMENTS, REPO, environment

pytestmark = pytest.mark.root
HOSTS = {"a": "10.77.0.1", "b": "10.77.0.2"}
SSH = """#!/bin/sh
for last; do :; done
exec ip netns exec strata-net-{host} /bin/sh -c "$last"
"""


def ip(*arguments: str) -> str:
    return subprocess.check_output(["ip", *arguments], text=True)


@dataclass
class Pair:
    """Two hosts, and the run stage on them."""

    folder: Path

    def run(self, *more: str, part: str = "vxlan") -> tuple[int, str]:
        """Measure the slice's first block; the exit status, and what was said."""
        asked = experiment.load(EXPERIMENTS / "overlays.yml", part)
        made = plan.make(asked, [plan.Host(name, "bare_metal", ("native",), 2) for name in HOSTS])
        planned = {
            **{**made.document(), "experiment": asked.model_dump(mode="json")},
            **{"factors": made.factors, "baseline": made.baseline, "run": "networks-1"},
            **{"digest": "p", "experiment_digest": "e", "time_limit": 60, "addresses": HOSTS},
            **{"hosts": {name: {"substrate": "bare_metal"} for name in HOSTS}, "left_out": []},
            **{"confounds": [], "families": ["tools"]},
        }
        (self.folder / "hosts.yml").write_text(yaml.safe_dump(self._inventory(planned)))
        given = ["playbooks/run.yml", "-i", str(self.folder / "hosts.yml")]
        done = subprocess.run(
            ["ansible-playbook", *given, f"-estrata_results={self.folder}/results", *more],
            **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
            check=False,
        )
        return done.returncode, done.stdout

    def _inventory(self, planned: dict[str, Any]) -> dict[str, Any]:
        variables = {
            "strata_planned": {
                "plan": planned,
                "offers": {},
                "controller": {"host": "h", "pid": 1},
            },
            "workload_image_built": {
                "images": [{"family": "tools", "kind": "venv", "digest": "d"}]
            },
            "workload_image_held": {"images": {}},
        }
        hosts = {
            name: {
                **{"ansible_connection": "ssh", "ansible_python_interpreter": sys.executable},
                "ansible_ssh_executable": str(self.folder / f"ssh-{name}"),
                "strata_state_dir": str(self.folder / f"state-{name}"),
            }
            for name in HOSTS
        }
        here = {"localhost": {"ansible_connection": "local", **variables}}
        return {"all": {"hosts": here}, "testbed": {"hosts": hosts}}

    def switches(self) -> list[str]:
        """What the journal tells of the setting, each with the message of what has failed."""
        (path,) = self.folder.glob("results/*/journal.jsonl")
        events = [json.loads(line) for line in path.read_text().splitlines()]
        told = [event for event in events if event["event"].startswith("setting_")]
        return [f"{event['event']} {event.get('message', '')}".strip() for event in told]

    def links(self) -> list[str]:
        told = [ip("-n", f"strata-net-{name}", "-o", "link").splitlines() for name in HOSTS]
        return sorted({line.split(": ")[1].split("@")[0] for lines in told for line in lines})


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    try:
        for name in HOSTS:
            ip("netns", "add", f"strata-net-{name}")
            (tmp_path / f"ssh-{name}").write_text(SSH.format(host=name))
            (tmp_path / f"ssh-{name}").chmod(0o755)
        other = ("peer", "name", "eth0", "netns", "strata-net-b")
        ip("-n", "strata-net-a", "link", "add", "eth0", "type", "veth", *other)
        for name, address in HOSTS.items():
            ip("-n", f"strata-net-{name}", "addr", "add", f"{address}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", f"strata-net-{name}", "link", "set", link, "up")
        yield Pair(tmp_path)
    finally:
        for name in HOSTS:
            subprocess.run(["ip", "netns", "del", f"strata-net-{name}"], check=False)


def test_vxlan_is_made_proven_and_left_without_a_trace(pair: Pair) -> None:
    _, said = pair.run()
    assert pair.switches() == ["setting_begun", "setting_proven", "setting_left"], said
    assert pair.links() == ["eth0", "lo"]
    assert not any((pair.folder / f"state-{name}/network").exists() for name in HOSTS)


def test_a_dirty_switch_is_refused_told_line_by_line_and_not_left(pair: Pair) -> None:
    """As flannel's host-gw left its routes under udp: every packet goes around the tunnel."""
    route = ("10.214.2.1/32", "via", HOSTS["b"], "dev", "eth0")
    script = (
        "until ip -n strata-net-a link show strata-vxbr; do sleep 0.2; done;"
        f"ip -n strata-net-a route add {' '.join(route)}"
    )
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(["/bin/sh", "-c", script], **quiet) as waiter:
        status, said = pair.run()
        planted = waiter.poll()
        waiter.kill()
    assert planted == 0, said
    begun, refused, unleft, *again = pair.switches()
    assert (status != 0, begun) == (True, "setting_begun"), said
    assert "asked: packets to b (10.214.2.1) leave by strata-vxbr; running: by eth0" in refused
    assert f"+ route: dst 10.214.2.1 gateway {HOSTS['b']} dev eth0" in unleft
    assert unleft.count("\n+ ") == 1, "the route, and nothing else"
    assert not list(pair.folder.glob("results/*/trials/*/record.json"))

    ip("-n", "strata-net-a", "route", "del", *route)
    pair.run()
    assert pair.switches()[len(again) + 3 :][0] == "setting_left", "first what was there"
    assert pair.links() == ["eth0", "lo"]
