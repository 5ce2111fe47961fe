"""Real trials under each real runtime: success, every kind of failure, and nothing left behind."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import docker
import pytest
from strata.host import cgroup, processes
from strata.runtimes.docker.images import reference
from strata.trial import account
from strata.trial import slot as trial

from tests.burner import Burner
from tests.conftest import REPO, STATE, lone
from tests.data import pairs

pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]
RUNTIMES = ("native", "docker")
NETWORK = {"native": "host", "docker": "bridge", "apptainer": "host"}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each runtime that a module of tests names, where a test does not choose its own."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "runtime" in metafunc.fixturenames and not any("runtime" in names for names in chosen):
        metafunc.parametrize("runtime", metafunc.module.RUNTIMES)


@pytest.fixture
def image(deployed: None) -> dict[str, str]:
    (known,) = (STATE / "images").glob("python-*/known.json")
    content = json.loads(known.read_text())["digest"]
    names = {"family": "python", "kind": "rootfs", "digest": content}
    return {**names, "rootfs": str(known.parent / "rootfs")}


@pytest.fixture
def order(image: dict[str, str], tmp_path: Path) -> Callable[..., trial.Order]:
    def make(runtime: str, limit: float = 60, **levels: Any) -> trial.Order:
        cell = {
            **{"substrate": "vm", "runtime": runtime, "network": NETWORK[runtime]},
            **{"label": "", "workload": "spin"},
            **{"cpus": None, "memory": None, "numa": None, "gpus": None, "quota": None},
            **{"distribution": "none", "workers": 1, "servers": 0, "placement": "spread"},
            "beside": None,
            **{"steps": 5, "warmup_steps": 1, "work": 200},
            **levels,
        }
        asked = {
            **{"trial": f"abc-{runtime}", "cell": "abc", "repetition": 1, "role": "measured"},
            **{"family": "python", "levels": cell, "members": lone("localhost")},
        }
        slot = {"run": "t", "slot": "s0001", "hosts": ["localhost"], "trials": [asked]}
        state = tmp_path / "state"
        return trial.Order(
            *(slot, "localhost", {"python": image}, {}, {}, limit, state), judged=False
        )

    return make


def traces() -> dict[str, list[str]]:
    """Everything a trial could leave: control groups, containers, mounts, processes."""
    containers = docker.from_env().containers.list(all=True, filters={"label": "strata.trial"})
    mounts = Path("/proc/mounts").read_text().splitlines()
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            commands.append(path.read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return {
        "groups": [group.name for group in cgroup.existing()],
        "containers": [container.name for container in containers],
        "mounts": [line for line in mounts if "/rootfs" in line],
        "processes": [command for command in commands if "-m workloads spin" in command],
    }


@pytest.fixture(autouse=True)
def nothing_is_left(deployed: None, tmp_path: Path) -> Iterator[None]:
    yield
    assert traces() == {"groups": [], "containers": [], "mounts": [], "processes": []}
    spools = tmp_path / "state/trials"
    assert not spools.exists() or list(spools.iterdir()) == []


def present() -> bool:
    """A controller that stays."""
    return False


def test_a_trial_is_measured(order: Callable[..., trial.Order], runtime: str) -> None:
    (outcome,) = trial.run(order(runtime), present)
    record = outcome["record"]
    assert (record["status"], record["reason"]) == ("ok", None), outcome["stderr"]
    assert record["metrics"]["rate"]["value"] > 0
    assert record["metrics"]["cpu"]["value"] > 0
    assert record["metrics"]["memory_peak"]["value"] > 0
    span = record["clock"]["finished"] - record["clock"]["launched"]
    assert sum(record["phases"].values()) == pytest.approx(span, rel=1e-6)
    assert len(outcome["steps"].splitlines()) == 6


@pytest.fixture
def tenth_of_a_cpu(runtime: str) -> Iterator[None]:
    """A limit that somebody has put on the group above those of all trials of a runtime.

    In periods so short that it strikes on a busy machine, too, whose programs run for a millisecond
    at a time at least.
    """
    driver = docker.from_env().info()["CgroupDriver"]
    groups = {"native": cgroup.NAME, "docker": "system.slice" if driver == "systemd" else "docker"}
    folder = cgroup.above()["cpu"] / groups[runtime]
    folder.mkdir(exist_ok=True)

    def limit(period: int, quota: int | None) -> None:
        if cgroup.version() == 1:
            (folder / "cpu.cfs_quota_us").write_text("-1")
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(quota or -1))
        else:
            (folder / "cpu.max").write_text(f"{quota or 'max'} {period}")

    limit(10_000, 1_000)
    try:
        yield
    finally:
        limit(cgroup.QUOTA_PERIOD, None)


@pytest.mark.usefixtures("tenth_of_a_cpu")
def test_a_limit_above_its_own_group_is_told(
    order: Callable[..., trial.Order], runtime: str
) -> None:
    (outcome,) = trial.run(order(runtime, work=20_000), present)
    flags = {flag["name"]: flag["detail"] for flag in outcome["record"]["flags"]}
    assert "a CPU limit held it back in" in flags["throttled"]


def test_who_used_the_cpus_is_told_apart(order: Callable[..., trial.Order], runtime: str) -> None:
    asked = order(runtime, steps=8, work=300_000)
    measured = asked.slot["trials"][0]
    asked.slot["trials"].append({**measured, "trial": f"b-{runtime}", "role": "background"})
    with Burner() as burner:
        outcomes = trial.run(asked, present)
    neighbour, record = (outcome["record"] for outcome in outcomes)
    assert (neighbour["status"], record["status"]) == ("ok", "ok"), outcomes[1]["stderr"]
    used = {name: metric["value"] for name, metric in record["metrics"].items()}
    seen = {name: metric["value"] for name, metric in neighbour["metrics"].items()}
    begin, end = record["clock"].values()
    # A container's start takes a second, and lies before the span.
    first = min(json.loads(line)["mono"] for line in outcomes[1]["steps"].splitlines())
    assert used["cpu_others"] > 0.8 * burner.spent(first, end) > 0
    assert "disturbed" in [flag["name"] for flag in record["flags"]]
    begun = [json.loads(line)["mono"] for line in outcomes[0]["steps"].splitlines()]
    share = sum(begin < at < end for at in begun) / len(begun)
    assert seen["cpu"] >= used["cpu_beside"] > 0.5 * share * seen["cpu"] > 0
    assert used["cpu"] >= seen["cpu_beside"] > 0.5 * used["cpu"]
    assert seen["cpu_others"] == pytest.approx(used["cpu_others"])


def test_it_is_unprivileged_and_its_root_is_read_only(
    order: Callable[..., trial.Order], image: dict[str, str], runtime: str
) -> None:
    asked = order(runtime, fail="hang", limit=3)
    probe = {}

    def look() -> bool:
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                command = (path.parent / "cmdline").read_bytes()
                if b"python3\0-m\0workloads\0spin" in command:
                    lines = (line.split(":\t") for line in path.read_text().splitlines())
                    probe.update({line[0]: line[1] for line in lines if len(line) > 1})
                    probe["mounts"] = (path.parent / "mounts").read_text()
            except OSError:
                continue
        return False

    trial.run(asked, look)
    (number,) = {n for name in ("Uid", "Gid", "Groups") for n in probe[name].split()}
    assert int(number) not in account.COMMON
    with pytest.raises(KeyError):
        pwd.getpwuid(int(number))
    assert int(probe["CapEff"], 16) == 0
    first = next(line for line in probe["mounts"].splitlines() if line.split()[1].endswith("/"))
    root = [line for line in probe["mounts"].splitlines() if line.split()[1] == "/"][-1:] or [first]
    assert "ro" in root[0].split()[3].split(",")


def test_no_other_account_reads_what_a_trial_is_given(
    order: Callable[..., trial.Order], runtime: str
) -> None:
    """Not even the one that images commonly have for "nonroot": 65532."""
    nonroot = ["setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "cat"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        asked = replace(order(runtime, fail="hang", limit=3), state_dir=Path(folder))
        denied = []

        def look() -> bool:
            for config in Path(folder).glob("trials/*/in/config.json"):
                done = subprocess.run([*nonroot, config], capture_output=True, check=False)
                denied.append(b"Permission denied" in done.stderr)
            return False

        trial.run(asked, look)
    assert denied and all(denied)


def test_it_runs_on_the_cpus_it_is_given(order: Callable[..., trial.Order], runtime: str) -> None:
    asked = order(runtime, fail="hang", limit=3, cpus="1")
    seen: set[str] = set()

    def look() -> bool:
        for path in Path("/proc").glob("[0-9]*/status"):
            try:
                if b"python3\0-m\0workloads\0spin" in (path.parent / "cmdline").read_bytes():
                    allowed = [x for x in path.read_text().splitlines() if "Cpus_allowed_list" in x]
                    seen.update(line.split()[1] for line in allowed)
            except OSError:
                continue
        return False

    trial.run(asked, look)
    assert seen == {"1"}


@pytest.mark.parametrize(
    ("fault", "limit", "memory", "cause", "words"),
    [
        ("exit", 60, None, "exit", "status"),
        ("hang", 2, None, "timeout", "File"),
        ("memory", 60, 256 * 2**20, "memory", "268435456"),
    ],
)
def test_a_failure_is_a_record_with_its_cause(
    order: Callable[..., trial.Order],
    runtime: str,
    fault: str,
    limit: float,
    memory: int | None,
    cause: str,
    words: str,
) -> None:
    kills = processes.memory_kills()
    (outcome,) = trial.run(order(runtime, limit, fail=fault, memory=memory), present)
    record = outcome["record"]
    assert record["status"] == "failed"
    assert record["reason"]["cause"] == cause, record["reason"]
    assert cause != "memory" or processes.memory_kills() > kills, "the kernel counts, too"
    assert words in record["reason"]["message"]


def test_it_ends_with_its_controller(order: Callable[..., trial.Order], runtime: str) -> None:
    begun = time.monotonic()
    looks = iter([False] * 3)
    (outcome,) = trial.run(order(runtime, 60, fail="hang"), lambda: next(looks, True))
    assert outcome["record"]["reason"]["cause"] == "controller_lost"
    assert time.monotonic() - begun < 30


def test_an_image_that_is_not_there_is_a_failed_start(
    order: Callable[..., trial.Order], runtime: str
) -> None:
    asked = order(runtime)
    asked.images["python"].update(rootfs="/nowhere", digest="0" * 64)
    record = trial.run(asked, present)[0]["record"]
    assert record["reason"]["cause"] == "start"


def test_without_root_a_virtual_environment_takes_the_place_of_the_image(
    order: Callable[..., trial.Order], tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to(sys.executable)
    (environment / "strata").mkdir()
    (environment / "strata/workloads").symlink_to(REPO / "workloads")
    asked = order("native", cpus="0", network="host")
    asked.images["python"].update(kind="venv", rootfs=str(environment))
    (outcome,) = trial.run(asked, present)
    assert outcome["record"]["status"] == "ok", outcome["stderr"]
    assert outcome["record"]["image"]["kind"] == "venv"
    assert outcome["record"]["metrics"]["cpu"]["value"] > 0
    refused = order("native", memory=2**30)
    refused.images["python"].update(kind="venv", rootfs=str(environment))
    reason = trial.run(refused, present)[0]["record"]["reason"]
    assert reason == {"cause": "start", "message": reason["message"]}
    assert "'memory' needs root" in reason["message"]


def overlaid(image: dict[str, str], folder: Path) -> Iterator[Path]:
    """The image's root filesystem with the workload of the tests in it."""
    parts = {name: folder / name for name in ("upper", "work", "root")}
    for path in parts.values():
        path.mkdir()
    layers = f"lowerdir={image['rootfs']},upperdir={parts['upper']},workdir={parts['work']}"
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", layers, parts["root"]], check=True)
    try:
        shutil.copy(pairs.FILE, parts["root"] / "opt/strata/workloads")
        yield parts["root"]
    finally:
        subprocess.run(["umount", parts["root"]], check=True)


def committed(image: dict[str, str]) -> Iterator[str]:
    """The digest of an image of Docker's with the workload of the tests in it."""
    digest = secrets.token_hex(32)
    with contextlib.closing(docker.from_env()) as engine:
        base = engine.containers.create(reference("python", image["digest"]), ["none"])
        name, tag = reference("python", digest).split(":")
        try:
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(pairs.FILE, "pair.py")
            base.put_archive("/opt/strata/workloads", packed.getvalue())
            base.commit(name, tag)
            yield digest
        finally:
            base.remove()
            engine.images.remove(reference("python", digest))


@pytest.fixture
def with_pair(image: dict[str, str]) -> Iterator[dict[str, str]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.contextmanager(overlaid)(image, Path(folder)) as root,
        contextlib.contextmanager(committed)(image) as digest,
    ):
        yield {**image, "rootfs": str(root), "digest": digest}


@pytest.mark.parametrize(
    ("runtime", "network"), [("native", "host"), ("docker", "bridge"), ("docker", "host")]
)
def test_a_client_and_a_server_of_one_trial_meet_and_write_to_scratch(
    order: Callable[..., trial.Order],
    with_pair: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runtime: str,
    network: str,
) -> None:
    pairs.register(monkeypatch)
    slot, where = pairs.slot(tmp_path, runtime, network), {"localhost": "127.0.0.1"}
    images, key = {"python": with_pair}, secrets.token_hex(32)
    asked = replace(order(runtime), slot=slot, images=images, addresses=where, key=key)
    pairs.check(trial.run(asked, present), slot)


KILLED = """
import json, sys
from pathlib import Path
from strata.trial import slot as trial
given = json.loads(sys.argv[1])
state_dir = Path(given["state_dir"])
order = trial.Order(
    *(given["slot"], "localhost", given["images"], {}, {}, 60.0, state_dir), judged=False
)
trial.run(order, lambda: False)
"""


def test_what_a_killed_trial_left_is_removed_by_the_next(
    order: Callable[..., trial.Order], runtime: str
) -> None:
    asked = order(runtime, fail="hang")
    given = {"slot": asked.slot, "images": asked.images, "state_dir": str(asked.state_dir)}
    process = subprocess.Popen([sys.executable, "-c", KILLED, json.dumps(given)])
    deadline = time.monotonic() + 30
    # What sets the root filesystem up names the program as well, and may end with the module.
    while time.monotonic() < deadline:
        if any(command.startswith("/usr/bin/python3") for command in traces()["processes"]):
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert traces()["processes"]
    record = trial.run(order(runtime), present)[0]["record"]
    assert record["status"] == "ok"
    assert "leftovers" in [flag["name"] for flag in record["flags"]]
