"""The rehearsal lab as tests use it: commands on its nodes, runs on it, what must not be left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from schema import lives
from tests.conftest import EXPERIMENTS, REPO, environment

# Machines of tests have their own engine and groups, and share the kernel's loop devices.
NAME = os.environ.get("STRATA_MACHINE", "tests")
SUBNET = "10.201.9.0/24"
PATIENCE_S = 900.0

# What a node has of Strata's at rest, a line each; nothing of it may be there after a run. Of the
# packet filter's rules, those of a trial's own bridge and of its published ports.
AUDIT = """
docker ps --all --quiet --filter label=strata.trial | sed 's/^/container /'
docker network ls --quiet --filter label=strata.trial | sed 's/^/network /'
pgrep --full --list-full -- '[-]m workloads' | sed 's/^/process /'
for base in $(cut -d: -f3 /proc/1/cgroup | sort -u); do
  find /sys/fs/cgroup/*"${base%/init.scope}"/strata -mindepth 1 -type d 2>/dev/null
done | sed 's/^/group /'
grep -o '/var/lib/strata/[^ ]*' /proc/mounts | sed 's/^/mount /'
ls /var/lib/strata/trials 2>/dev/null | sed 's/^/folder /'
cat /run/strata/lease.json 2>/dev/null | sed 's/^/lease /'
iptables-save | grep -e ' br-' -e 'dport 294' | sed 's/^/rule /'
"""


# Why trials fail that are then tried again.
CAUSES = ["host_lost", "runtime_lost", "start", "exit", "output", "peer"]
AGAIN = "-e" + json.dumps({"strata_retry": CAUSES})
# The steps of a trial are written each second.
MEASURED = "grep -ls measured /var/lib/strata/trials/*/out/steps.jsonl"


@dataclass
class Lab:
    """A lab that is up. `inventory` is its folder, `nodes` the names of its hosts."""

    inventory: Path
    nodes: list[str]
    rules: dict[str, set[str]]

    def shell(self, node: str, script: str, check: bool = True) -> str:
        """Run a script on a node, as root, past SSH; its output."""
        command = ["docker", "exec", container(node), "/bin/sh", "-c", script]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, f"{script}: {done.stdout}{done.stderr}"
        return done.stdout

    def keep_bytecode(self) -> None:
        """Have the nodes keep what Python compiles, as this machine does (tests/bytecode)."""
        source = (REPO / "tests/bytecode/sitecustomize.py").read_text()
        for node in self.nodes:
            script = f"tee /usr/lib/python3.*/sitecustomize.py >/dev/null <<'X'\n{source}X\n"
            self.shell(node, script)

    def address(self, node: str) -> str:
        """Where its peers reach a node."""
        found = yaml.safe_load((self.inventory / "nodes.yml").read_text())
        return str(found["rehearsal"]["hosts"][node]["strata_address"])

    def left(self) -> dict[str, list[str]]:
        """What Strata has left on each node that answers; rules that were there before are none."""
        found = {}
        for node in self.nodes:
            lines = self.shell(node, AUDIT, check=False).splitlines()
            found[node] = [line for line in lines if line not in self.rules.get(node, set())]
        return {node: lines for node, lines in found.items() if lines}

    def note_rules(self) -> None:
        """Take the packet filter's rules for given: Docker's own."""
        for node in self.nodes:
            lines = self.shell(node, AUDIT, check=False).splitlines()
            self.rules[node] = {line for line in lines if line.startswith("rule ")}

    def command(self, experiment: str, results: Path, *more: str) -> list[str]:
        """site.yml with an experiment of the tests, or else one that is shipped."""
        own = EXPERIMENTS / f"{experiment}.yml"
        asked = f"-estrata_experiment={own if own.exists() else experiment}"
        given = [asked, f"-estrata_results={results}", *more]
        return ["ansible-playbook", "site.yml", "-i", str(self.inventory), *given]

    def site(
        self, experiment: str, results: Path, *more: str, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run site.yml on the lab to its end."""
        done = subprocess.run(
            self.command(experiment, results, *more),
            **{"cwd": REPO, "env": environment(), "capture_output": True, "text": True},
            check=False,
            timeout=900,
        )
        if check:
            assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
        return done

    def begin(self, experiment: str, results: Path, *more: str) -> Running:
        """Run site.yml on the lab in the background."""
        log = results.parent / f"{results.name}.{time.monotonic_ns()}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                self.command(experiment, results, *more),
                **{"cwd": REPO, "env": environment(), "stdout": out, "stderr": out},
                start_new_session=True,
            )
        return Running(self, process, log, results)


@dataclass
class Running:
    """A site.yml under way."""

    lab: Lab
    process: subprocess.Popen[bytes]
    log: Path
    results: Path

    def until(self, seen: Callable[[], Any], what: str, every_s: float = 0.1) -> None:
        """Wait until something is seen; fail when the run ends first."""
        deadline = time.monotonic() + PATIENCE_S
        while not seen():
            assert self.process.poll() is None, f"ended before {what}: {self.text()[-3000:]}"
            assert time.monotonic() < deadline, f"no {what}: {self.text()[-3000:]}"
            time.sleep(every_s)

    def until_said(self, words: str) -> Running:
        self.until(lambda: words in self.text(), words)
        return self

    def until_trial(self, on: str = "", runtime: str = "", count: int = 0) -> dict[str, Any]:
        """Wait until a trial has measured a step, on this host, in this runtime; its slot."""
        found: dict[str, Any] = {}

        def under_way() -> bool:
            events = journal(self.results)
            done = sum(event["event"] == "slot_finished" for event in events)
            if not events or events[-1]["event"] != "slot_started" or done < count:
                return False
            found.update(slot_of(self.results, events[-1]["slot"]))
            levels = found["trials"][0]["levels"]
            asked = (not on or on in found["hosts"]) and runtime in ("", levels["runtime"])
            return asked and any(self.lab.shell(host, MEASURED, False) for host in found["hosts"])

        self.until(under_way, "a trial under way")
        return found

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def pause(self) -> None:
        """It lives, and does nothing."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """kill -9 of the controller and all that it has started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> int:
        """Wait for its end; its exit status."""
        return self.process.wait(PATIENCE_S)


def container(node: str) -> str:
    return f"rehearsal-{NAME}-{node}"


def folder(results: Path) -> Path | None:
    found = sorted(path.parent for path in results.glob("*/run.json"))
    return found[-1] if found else None


def journal(results: Path) -> list[dict[str, Any]]:
    """The whole events of the newest run."""
    run = folder(results)
    path = run / "journal.jsonl" if run else None
    lines = path.read_text().splitlines() if path and path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def slot_of(results: Path, name: str) -> dict[str, Any]:
    run = folder(results)
    assert run
    slots = json.loads((run / "plan.json").read_text())["slots"]
    return next(slot for slot in slots if slot["slot"] == name)


def records(results: Path) -> dict[str, dict[str, Any]]:
    """Every record by the name of its folder."""
    paths = results.glob("*/trials/[!.]*/record.json")
    return {path.parent.name: json.loads(path.read_text()) for path in paths}


def lived_and_ended(run: Path, hosts: list[str]) -> None:
    """The run knows when these hosts were reached and when they were gone, in that order."""
    found = {life.host: life for life in lives.read_lives(run)}
    for life in map(found.__getitem__, hosts):
        told = [getattr(life, name) for name in life.MOMENTS if getattr(life, name)]
        assert life.reached and life.gone and told == sorted(told), life


def cells(results: Path) -> set[tuple[str, int]]:
    """Cells and repetitions that ended well."""
    good = [record for record in records(results).values() if record["status"] == "ok"]
    return {(record["cell"], record["repetition"]) for record in good}


def planned(results: Path) -> set[tuple[str, int]]:
    run = folder(results)
    assert run
    slots = json.loads((run / "plan.json").read_text())["slots"]
    return {(trial["cell"], trial["repetition"]) for slot in slots for trial in slot["trials"]}


def whole(results: Path) -> bool:
    """Every trial of the plan has ended well, and the run is reported."""
    return cells(results) == planned(results) and journal(results)[-1]["event"] == "reported"


def only(results: Path) -> dict[str, str]:
    """The causes of those that did not end well, by folder."""
    return {name: r["reason"]["cause"] for name, r in records(results).items() if r["reason"]}
