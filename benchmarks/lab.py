"""What Strata itself costs on several nodes, on a rehearsal lab of its own. Needs root and Docker.

    python benchmarks/lab.py noop [--nodes 1 3 6 10] [--rounds 5]
        a second run of preflight, provision and deploy, which changes nothing, beside the first,
        which begins with an empty cache, and beside other numbers of nodes in the same rounds
    python benchmarks/lab.py share [--repeats 10]
        the share of wall time spent in trials, for trials of 30 s on three nodes
    python benchmarks/lab.py cold
        from no lab to the first trial under way, with the base image and the workload image made

The lab is called `bench` and is taken away at the end.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

REPO = Path(__file__).parent.parent
PLAYBOOK = str(Path(sys.executable).with_name("ansible-playbook"))
SUBNET = "10.201.11.0/24"
DEPLOY = ("--tags", "provision,deploy")
# `spin` makes about 1.5 million hashes a second here; the first figure of the run tells.
SWEEP = {
    **{"name": "sweep", "title": "Trials of half a minute", "workload": "spin"},
    **{"factors": {"runtime": ["native", "docker"]}, "baseline": {"runtime": "native"}},
    "time_limit": "5m",
}


class Lab:
    """A rehearsal lab; `folder` holds its inventory, results and experiment."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.inventory = folder, folder / "inventory"

    def run(self, *command: str, stop_at: str = "") -> tuple[float, str]:
        """Wall time and output of a playbook; ends it at the first line that has `stop_at`."""
        begin, said = time.monotonic(), []
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "ANSIBLE_NOCOLOR": "1"}
        process = subprocess.Popen(
            [PLAYBOOK, *command],
            cwd=REPO,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout  # noqa: S101 - it was asked for
        for line in process.stdout:
            said.append(line)
            if stop_at and stop_at in line:
                seconds = time.monotonic() - begin
                process.terminate()
                process.communicate()
                return seconds, "".join(said)
        if process.wait() != 0:
            raise SystemExit("".join(said[-60:]))
        return time.monotonic() - begin, "".join(said)

    def rehearse(self, *more: str) -> float:
        given = ["-erehearsal_lab=bench", f"-erehearsal_subnet={SUBNET}"]
        given.append(f"-erehearsal_inventory={self.inventory}")
        return self.run("playbooks/rehearse.yml", "-i", "inventories/local", *given, *more)[0]

    def site(self, *more: str, stop_at: str = "", nodes: int = 0) -> tuple[float, str]:
        """Run site.yml on all nodes, or on the first `nodes` of them."""
        inventory = self.part(nodes) if nodes else self.inventory
        given = [f"-estrata_results={self.folder}/results"]
        return self.run("site.yml", "-i", str(inventory), *given, *more, stop_at=stop_at)

    def part(self, nodes: int) -> Path:
        """An inventory of the first nodes only."""
        found = yaml.safe_load((self.inventory / "nodes.yml").read_text())
        hosts = found["rehearsal"]["hosts"]
        found["rehearsal"]["hosts"] = dict(list(hosts.items())[:nodes])
        path = self.folder / f"first{nodes}.yml"
        path.write_text(yaml.safe_dump(found))
        return path

    def experiment(self, **changes: object) -> str:
        path = self.folder / "sweep.yml"
        path.write_text(yaml.safe_dump({**SWEEP, "options": {}, "repeats": 1, **changes}))
        return f"-estrata_experiment={path}"


def line(name: str, values: list[float], unit: str = "s", note: str = "") -> None:
    digits = 2 if unit else 3
    span = f"[{min(values):.{digits}f} .. {max(values):.{digits}f}]" if len(values) > 1 else ""
    middle = f"{statistics.median(values):8.{digits}f}"
    print(f"{name:34} {middle} {unit:2} {span} {note}".rstrip(), flush=True)


def changed(output: str) -> int:
    """The sum of `changed=` in a recap."""
    recap = output.split("PLAY RECAP")[1].splitlines()
    return sum(int(one.split("changed=")[1].split()[0]) for one in recap if "changed=" in one)


def noop(lab: Lab, nodes: list[int], rounds: int) -> None:
    """The lab has as many nodes as the largest number; for a smaller one the first are taken."""
    most = max(nodes)
    line(f"up, {most} nodes", [lab.rehearse(f"-erehearsal_nodes={most}")])
    given = (lab.experiment(), f"-estrata_cache={lab.folder}/cache", *DEPLOY)
    first, _ = lab.site(*given)
    line(f"first deploy, {most} nodes", [first])
    times: dict[int, list[float]] = {number: [] for number in nodes}
    for _ in range(rounds):
        for number in random.sample(nodes, len(nodes)):
            seconds, said = lab.site(*given, nodes=number)
            times[number].append(seconds)
            if changed(said):
                raise SystemExit(f"a second run changed something:\n{said[-3000:]}")
    for number in nodes:
        line(f"second deploy, {number} nodes", times[number], note="changed=0")
    ratios = [a / b for a, b in zip(times[most], times[min(nodes)], strict=True)]
    line(f"{most} nodes / {min(nodes)}", ratios, "", "at most 3 is the aim")
    line(f"second / first, {most} nodes", [t / first for t in times[most]], "", "at most 0.05")


def share(lab: Lab, repeats: int) -> None:
    lab.rehearse("-erehearsal_nodes=3")
    work = {"steps": 100, "warmup_steps": 1, "work": 100_000}
    quick = lab.experiment(options={**work, "steps": 10})
    lab.site(quick)
    record = next((lab.folder / "results").glob("*/trials/*/record.json"))
    rate = json.loads(record.read_text())["metrics"]["rate"]["value"]
    sweep = lab.experiment(options={**work, "work": int(rate * 0.3)}, repeats=repeats)
    _, said = lab.site(sweep)
    print(next(one for one in said.splitlines() if "measured / wall" in one))
    path = max((lab.folder / "results").glob("*/journal.jsonl"), key=lambda p: p.stat().st_mtime)
    events = [json.loads(one) for one in path.read_text().splitlines()]
    begun = {e["slot"]: e["mono"] for e in events if e["event"] == "slot_started"}
    slots = [(begun[e["slot"]], e["mono"]) for e in events if e["event"] == "slot_finished"]
    trials = []
    for record in path.parent.glob("trials/*/record.json"):
        clock = json.loads(record.read_text())["clock"]
        trials.append(clock["finished"] - clock["launched"])
    line("a trial", trials)
    line("a slot, less its trial", [b - a - statistics.mean(trials) for a, b in slots])
    gaps = [later[0] - earlier[1] for earlier, later in itertools.pairwise(slots)]
    line("between two slots", gaps)
    wall = next(e["wall_s"] for e in events if e["event"] == "closed")
    rest = wall - (slots[-1][1] - slots[0][0])
    line("before the first, after the last", [rest])
    line("share of wall time in trials", [sum(trials) / wall], "", "at least 0.90 is the aim")


def cold(lab: Lab) -> None:
    spin = lab.experiment(options={"steps": 50, "warmup_steps": 1, "work": 20_000})
    up = lab.rehearse("-erehearsal_nodes=3")
    line("up, 3 nodes", [up], note="at most 120 s is the aim")
    first, _ = lab.site(spin, stop_at="trial 1 of")
    line("deployed, and the first trial begins", [first])
    line("in all", [up + first], note="at most 360 s is the aim")
    line("down", [lab.rehearse("-estate=absent")], note="at most 15 s is the aim")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["noop", "share", "cold"])
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3, 6, 10])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=10)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder))
        try:
            if given.what == "noop":
                noop(lab, given.nodes, given.rounds)
            elif given.what == "share":
                share(lab, given.repeats)
            else:
                cold(lab)
        finally:
            lab.rehearse("-estate=absent")


if __name__ == "__main__":
    main()
