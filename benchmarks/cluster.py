"""What a cluster and its overlay cost in time, on a rehearsal lab. Needs root and Docker.

    python -m benchmarks.cluster [--nodes 3] [--rounds 3] [--setting flannel_vxlan]

    ready     from hosts that run to nodes that are Ready with the network, from the filled offline
              folder; the first round installs packages, the others do not
    switched  made and proven, left and proven clean; of each visit of a run
    started   from the making of a Job to the first step of its program, less the same under Docker,
              in the same round

The lab is called `bench` and is taken away at the end. The load of the machine is printed: these
are times on a clock, and other work there makes them longer.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.lab import REPO, Lab, line
from tools import kubernetes_offline

GROUPS = {
    "testbed": {"children": {"docker": None}},
    **{name: {"children": {"rehearsal": None}} for name in ("bare_metal", "docker", "kubernetes")},
    "rehearsal": None,
}
# Seconds that are the aim; `started` beyond Docker's.
READY, SWITCHED, LATER = 90, 30, 5


def call(lab: Lab, role: str, entry: str, *more: str) -> float:
    """An entry point of a role on all nodes; seconds."""
    given = [f"-estrata_root={REPO}", f"-erole={role}", f"-eentry={entry}", *more]
    playbook = "tests/data/playbooks/cluster.yml"
    return lab.run(playbook, "-i", str(lab.inventory), *given)[0]


def ready(lab: Lab, nodes: int, rounds: int, setting: str) -> None:
    role, name = setting.partition("_")[0], f"-esetting_name={setting}"
    clusters, networks = [], []
    for number in range(rounds):
        if number:
            call(lab, role, "absent", name)
            call(lab, "kubernetes", "absent")
        clusters.append(call(lab, "kubernetes", "main"))
        networks.append(call(lab, role, "present", name))
    both = [a + b for a, b in zip(clusters, networks, strict=True)]
    line(f"a cluster of {nodes} nodes", clusters)
    line(f"{setting} on it", networks)
    line("ready", both, note=f"at most {READY} is the aim; the first: {both[0]:.1f}")
    call(lab, role, "absent", name)


def experiment(lab: Lab, rounds: int, setting: str) -> str:
    """One trial of each kind in each visit."""
    path = lab.folder / "cluster.yml"
    said = {
        **{"name": "cluster", "title": "A pod beside a container", "workload": "request_response"},
        "factors": {"runtime": ["docker", "kubernetes"], "network": ["host", setting]},
        "options": {"warmup": 0, "duration": 1},
        "baseline": {"runtime": "docker", "network": "host"},
        **{"control": False, "disturbed": False, "repeats": rounds, "visits": rounds},
    }
    path.write_text(yaml.safe_dump(said))
    return f"-estrata_experiment={path}"


def switched(events: list[dict[str, Any]]) -> None:
    """From the journal of a run with one setting."""
    made, left, last, begun = [], [], 0.0, 0.0
    for event in events:
        match event["event"]:
            case "setting_begun":
                begun = event["mono"]
            case "setting_proven":
                made.append(event["mono"] - begun)
            case "slot_finished":
                last = event["mono"]
            case "setting_left":
                left.append(event["mono"] - last)
    both = [a + b for a, b in zip(made, left, strict=True)]
    line("made and proven", made)
    line("left and proven clean", left)
    line("switched", both, note=f"at most {SWITCHED} is the aim")


def started(records: list[dict[str, Any]]) -> None:
    took: dict[str, dict[tuple[str, int], float]] = {}
    for record in records:
        when = (record["block"], record["round"])
        took.setdefault(record["platform"], {})[when] = record["phases"]["startup"]
    for platform, found in took.items():
        line(f"first step, {platform}", list(found.values()))
    docker = next(found for platform, found in took.items() if "/docker/" in platform)
    for platform, found in took.items():
        if "/kubernetes/" in platform:
            later = [found[n] - docker[n] for n in sorted(found.keys() & docker.keys())]
            line(f"started, {platform.split('/')[2]}", later, note=f"at most {LATER} is the aim")
            line("the same, as a ratio", [found[n] / docker[n] for n in sorted(docker)], "")


def measured(lab: Lab, rounds: int, setting: str) -> None:
    lab.site(experiment(lab, rounds, setting), f"-estrata_cache={REPO}/.cache")
    (folder,) = (lab.folder / "results").iterdir()
    lines = (folder / "journal.jsonl").read_text().splitlines()
    switched([json.loads(one) for one in lines])
    started([json.loads(path.read_text()) for path in folder.glob("trials/*/record.json")])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--setting", default="flannel_vxlan")
    given = parser.parse_args()
    kubernetes_offline.fill("kubernetes", REPO / ".cache")
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        lab.inventory.mkdir()
        (lab.inventory / "hosts.yml").write_text(yaml.safe_dump(GROUPS))
        try:
            lab.rehearse(f"-erehearsal_nodes={given.nodes}", "-erehearsal_rate=none")
            print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
            ready(lab, given.nodes, given.rounds, given.setting)
            measured(lab, given.rounds, given.setting)
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            lab.rehearse("-estate=absent")


if __name__ == "__main__":
    main()
