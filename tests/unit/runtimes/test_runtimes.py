"""Runtimes without an image and without an engine: the end, what was used, what is refused."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from docker.errors import APIError, ImageNotFound
from requests.exceptions import ConnectionError as Refusal
from strata import runtimes
from strata.cell import Resources
from strata.errors import Refused
from strata.host import cgroup, processes
from strata.host.counters import Counters
from strata.members import Port
from strata.runtimes import base, native
from strata.runtimes.base import Ended, RuntimeLostError, Spec, StartError
from strata.runtimes.docker import container as containers
from strata.runtimes.native import Native
from strata.trial import program, slot

from tests.conftest import PATIENCE_S

# A program in place of the workload: it is what `python -m workloads NAME` runs.
PROGRAM = """
import json, os, pathlib, subprocess, sys, time
options = json.loads(pathlib.Path(sys.argv[sys.argv.index("--config") + 1]).read_text())
exec(options["do"])
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Native]]:
    """A native program from a virtual environment, as on a host without root."""
    venv, spool = tmp_path / "venv", tmp_path / "spool"
    (venv / "bin").mkdir(parents=True)
    (venv / "bin/python").symlink_to(sys.executable)
    (venv / "strata/workloads").mkdir(parents=True)
    (venv / "strata/workloads/__main__.py").write_text(PROGRAM)
    for name in ("in", "out"):
        (spool / name).mkdir(parents=True)
    made: list[Native] = []

    def begin(do: str, **given: Any) -> Native:
        (spool / "in/config.json").write_text(json.dumps({"do": do}))
        image = {"family": "tools", "kind": "venv", "digest": "d", "rootfs": str(venv)}
        environment = {**base.ENVIRONMENT, "PATH": os.environ["PATH"]}
        spec = Spec(
            "t-r1",
            "run",
            "any",
            spool,
            image,
            account=os.geteuid(),
            environment=environment,
            resources=Resources(**given),
        )
        made.append(Native(spec))
        made[-1].prepare()
        made[-1].launch()
        return made[-1]

    yield begin
    for runtime in made:
        runtime.remove()


def end_of(runtime: Native) -> Ended:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        ended = runtime.wait(0.1)
        if ended is not None:
            return ended
    raise AssertionError("it did not end")


def test_the_end_is_seen_as_it_happens(start: Callable[..., Native]) -> None:
    """Not at the next of many looks: whoever waits for a second gives way once or twice."""
    runtime = start(
        "time.sleep(1); pathlib.Path(sys.argv[-1], 'end').write_text(repr(time.monotonic()))"
        "; os._exit(0)"
    )
    before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    ended = runtime.wait(PATIENCE_S)
    assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before < 10
    assert ended
    said = next(Path(runtime._spec.spool).glob("out/end")).read_text()
    assert ended.at > float(said)


def test_exit_status_and_signal(start: Callable[..., Native]) -> None:
    assert end_of(start("sys.exit(255)")).code == 255
    assert end_of(start("os.kill(os.getpid(), 11)")).code == -11


def test_what_children_use_counts_to_the_end(start: Callable[..., Native]) -> None:
    busy = "import time\\nend = time.process_time() + 0.5\\nwhile time.process_time() < end: pass"
    runtime = start(f"subprocess.run([sys.executable, '-c', '''{busy}'''])")
    end_of(runtime)
    used = runtime.usage()
    assert used.cpu is not None and 0.5 <= used.cpu < 5
    assert used.memory_peak


def test_a_child_that_stays_is_ended_with_the_program(start: Callable[..., Native]) -> None:
    runtime = start("subprocess.Popen(['sleep', '300']); time.sleep(0.2)")
    end_of(runtime)
    assert runtime._process
    left = processes.session(runtime._process.pid)
    assert any(stat.state != "Z" for stat in left.values())
    runtime.remove()
    still = processes.session(runtime._process.pid).values()
    assert [stat for stat in still if stat.state not in "ZX"] == []


def test_no_core_file_and_the_stack_on_request(start: Callable[..., Native]) -> None:
    limit = "import resource; print(resource.getrlimit(resource.RLIMIT_CORE)[0], flush=True)"
    runtime = start(f"{limit}; time.sleep(300)")
    deadline = time.monotonic() + PATIENCE_S
    while not runtime.logs()[0] and time.monotonic() < deadline:
        time.sleep(0.02)
    runtime.signal(signal.SIGABRT)
    assert end_of(runtime).code == -signal.SIGABRT
    assert runtime.logs()[0] == "0\n"
    assert "most recent call first" in runtime.logs()[1]


def test_a_memory_limit_without_root_is_refused(start: Callable[..., Native]) -> None:
    with pytest.raises(StartError, match="'memory' needs root"):
        start("pass", memory=2**30)


def test_memory_as_a_place_for_files_needs_root(tmp_path: Path) -> None:
    image = {"family": "python", "kind": "venv", "digest": "d", "rootfs": "/x"}
    asked = Spec("t", "r", "dd", tmp_path, image, account=1, scratch=True, storage="tmpfs")
    with pytest.raises(StartError, match="storage: tmpfs needs root"):
        Native(asked).prepare()


def test_processes_of_a_killed_trial_are_ended_and_named(tmp_path: Path) -> None:
    spool = tmp_path / "trials" / "old-r1"
    spool.mkdir(parents=True)
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as left:
        processes.note(left.pid, spool / processes.FILE)
        assert slot._clear(tmp_path / "trials") == [
            "processes of trial old-r1",
            "folder of trial old-r1",
        ]
        assert left.wait(10) == -signal.SIGKILL


def test_a_later_process_with_the_same_number_is_left_alone(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "300"], start_new_session=True) as other:
        (tmp_path / "process").write_text(f"{other.pid} 1")
        assert not processes.end_noted(tmp_path / "process")
        (tmp_path / "process").write_text("")
        assert not processes.end_noted(tmp_path / "process")
        assert other.poll() is None
        other.kill()


def test_a_name_with_brackets_and_spaces_is_parsed() -> None:
    text = "42 (a (b) c) S 1 42 41 0 -1 4194560 1 2 3 4 150 50 25 25 20 0 1 0 9 1 1\n"
    found = processes.parse(text)
    assert (found.state, found.session) == ("S", 41)
    assert found.cpu == 250 / processes.TICK
    assert processes.sizes("Name:\tx\nVmHWM:\t  20 kB\nVmRSS:\t  10 kB\n") == (10240, 20480)
    assert processes.sizes("Name:\tx\n") == (None, None)


def test_an_unknown_runtime_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="did you mean 'docker'"):
        runtimes.make("dokcer", spec_of(tmp_path))


def test_without_the_sdk_a_container_is_a_failed_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "strata.runtimes.docker.container", None)
    monkeypatch.delattr("strata.runtimes.docker.container", raising=False)
    monkeypatch.setattr("strata.runtimes.native.leftovers", list)
    runtime = runtimes.make("docker", spec_of(tmp_path))
    with pytest.raises(StartError, match="lacks Docker's SDK"):
        runtime.prepare()
    assert runtimes.leftovers() == []


# Docker, with an engine that only notes what is asked of it.


ACCOUNT = 2_000_000_000


def spec_of(spool: Path, **more: Any) -> Spec:
    image = {"family": "tools", "kind": "rootfs", "digest": "d", "rootfs": "/x"}
    return Spec("t-r1", "run", "spin", spool, image, account=ACCOUNT, network="bridge", **more)


class Engine:
    """The few calls of Docker's SDK that a trial makes."""

    def __init__(self, status: Any = 0, oom: bool = False) -> None:
        self.status, self.oom, self.down = status, oom, False
        self.created: dict[str, Any] = {}
        self.removed: list[str] = []
        self.images = self.containers = self.api = self
        self.id = "c1"
        self.attrs = {"State": {"Pid": 0, "OOMKilled": oom}}

    def get(self, reference: str) -> None:
        if reference != "strata/workload:tools-d":
            raise ImageNotFound(reference)

    def create(self, **arguments: Any) -> Engine:
        self.created = arguments
        return self

    def start(self) -> None:
        if self.down:
            raise APIError("no such runtime")

    def wait(self, _: str, **__: float) -> dict[str, Any]:
        if isinstance(self.status, Exception):
            raise self.status
        return {"StatusCode": self.status}

    def reload(self) -> None:
        """Nothing is new."""

    def close(self) -> None:
        """Nothing is open."""

    def __call__(self, **arguments: Any) -> list[dict[str, Any]]:
        """`api.containers(...)`, which is this object too."""
        if self.down:
            raise Refusal("engine is down")
        return [{"Id": "c1", "Names": ["/quick_hopper"]}] if arguments["all"] else []

    def networks(self, filters: dict[str, str]) -> list[dict[str, Any]]:
        """There is one network of the label, and it is in use."""
        del filters
        return [{"Id": "n1", "Name": "strata-t-r1"}]

    def remove_network(self, identity: str) -> None:
        raise APIError(f"network {identity} has active endpoints")

    def remove_container(self, identity: str, **_: bool) -> None:
        self.removed.append(identity)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    made = Engine()
    monkeypatch.setattr(containers.docker, "from_env", lambda **_: made)
    return made


def begun(tmp_path: Path, **more: Any) -> containers.Docker:
    runtime = containers.Docker(spec_of(tmp_path, **more))
    runtime.prepare()
    runtime.launch()
    return runtime


def test_a_container_gets_the_least_it_needs(engine: Engine, tmp_path: Path) -> None:
    given = Resources(cpus="0-1", memory=2**30, numa=1, gpus=["0"])
    begun(tmp_path, data=Path("/d"), resources=given)
    given = engine.created
    assert given["cap_drop"] == ["ALL"]
    assert given["security_opt"] == ["no-new-privileges"]
    assert given["read_only"] and given["user"] == f"{ACCOUNT}:{ACCOUNT}"
    assert given["volumes"] == {
        f"{tmp_path}/in": {"bind": "/in", "mode": "ro"},
        f"{tmp_path}/out": {"bind": "/out", "mode": "rw"},
        "/d": {"bind": "/data", "mode": "ro"},
    }
    assert (given["cpuset_cpus"], given["cpuset_mems"]) == ("0-1", "1")
    assert given["mem_limit"] == given["memswap_limit"] == 2**30
    assert given["labels"] == {"strata.trial": "t-r1", "strata.run": "run"}
    assert given["device_requests"][0]["DeviceIDs"] == ["0"]
    assert given["log_config"]["Type"] == "json-file"
    assert given["command"][-4:] == ["--config", "/in/config.json", "--out", "/out"]
    assert not {"privileged", "cap_add", "pid_mode", "auto_remove"} & set(given)


def test_a_member_is_reached_at_its_ports_and_has_its_scratch_space(
    engine: Engine, tmp_path: Path
) -> None:
    begun(tmp_path, ports=[Port("control", "tcp", 29400), Port("data", "udp", 29401)], scratch=True)
    assert engine.created["ports"] == {"29400/tcp": 29400, "29401/udp": 29401}
    scratch = engine.created["volumes"][f"{tmp_path}/scratch"]
    assert scratch == {"bind": base.SCRATCH, "mode": "rw"}


@pytest.mark.parametrize(
    ("status", "code"), [(0, 0), (1, 1), (125, 125), (137, -9), (134, -6), (255, 255), (200, 200)]
)
def test_the_status_of_a_container(engine: Engine, tmp_path: Path, status: int, code: int) -> None:
    engine.status = status
    runtime = begun(tmp_path)
    ended = runtime.wait(5)
    assert ended is not None and ended.code == code
    why = program.why_failed(ended, Resources())
    assert (why is None) == (code == 0)


OOM = {
    "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",  # version 1
    "memory.events": "low 0\nhigh 0\nmax 7\noom 1\noom_kill {}\noom_group_kill 0\n",
}


@pytest.mark.parametrize("file", OOM)
@pytest.mark.parametrize(
    ("status", "group", "machine", "told"),
    [
        (137, 1, 1, True),
        (1, 1, 1, True),  # a part of it was killed, and the rest gave up
        (137, 0, 1, False),  # killed by somebody, while the kernel killed another's process
        (137, None, 1, True),  # the group had gone before it could be read
        (137, None, 0, False),
        (1, None, 1, False),
    ],
)
def test_the_kernel_tells_of_death_for_want_of_memory_and_not_the_engine(
    engine: Engine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    status: int,
    group: int | None,
    machine: int,
    told: bool,
) -> None:
    engine.status, engine.attrs = status, {"State": {"Pid": 0, "OOMKilled": not told}}
    counts = iter([5, 5 + machine])
    monkeypatch.setattr(processes, "memory_kills", lambda: next(counts))
    runtime = begun(tmp_path)
    runtime._folders = dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path)
    if group is not None:
        (tmp_path / file).write_text(OOM[file].format(group))
    ended = runtime.wait(5)
    assert ended is not None and ended.memory == told


def test_death_for_want_of_memory_says_whose() -> None:
    ended = Ended(-9, memory=True)
    limited, free = (program.why_failed(ended, Resources(memory=size)) for size in (2**30, None))
    assert limited == ("memory", "it needed more than its memory limit of 1073741824 bytes")
    assert free == ("memory", "the kernel killed it because the host had no memory left")


def test_an_engine_that_goes_away_is_told(engine: Engine, tmp_path: Path) -> None:
    engine.status = Refusal("connection lost")
    runtime = begun(tmp_path)
    with pytest.raises(RuntimeLostError, match="connection lost"):
        runtime.wait(5)


def test_without_the_engine_its_processes_are_ended_all_the_same(
    engine: Engine, tmp_path: Path
) -> None:
    runtime = begun(tmp_path)
    with subprocess.Popen(["sleep", "300"]) as left:
        (tmp_path / "cgroup.procs").write_text(f"{left.pid}\n")
        runtime._folders = {"memory": tmp_path}
        engine.down = True
        runtime.remove()
        assert left.wait(10) == -signal.SIGKILL


def test_an_image_that_is_not_there_is_a_failed_start(engine: Engine, tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    spec.image["digest"] = "other"
    with pytest.raises(StartError):
        containers.Docker(spec).prepare()


def test_a_container_whose_start_failed_is_removed(engine: Engine, tmp_path: Path) -> None:
    runtime = containers.Docker(spec_of(tmp_path))
    runtime.prepare()
    engine.down = True
    with pytest.raises(StartError, match="no such runtime"):
        runtime.launch()
    engine.down = False
    runtime.remove()
    assert engine.removed == ["c1"]


def test_leftovers_are_named_and_removed(engine: Engine) -> None:
    assert containers.leftovers() == ["container quick_hopper"]
    assert engine.removed == ["c1"]
    engine.down = True
    assert containers.leftovers() == []


def test_the_last_counters_stay_when_the_group_has_gone(engine: Engine, tmp_path: Path) -> None:
    runtime = begun(tmp_path)
    (tmp_path / "cpu.stat").write_text("usage_usec 1500000\n")
    runtime._meter = cgroup.Meter(dict.fromkeys(cgroup.V1_CONTROLLERS, tmp_path))
    assert runtime.usage().cpu == 1.5
    (tmp_path / "cpu.stat").unlink()
    assert runtime.usage() == Counters(1.5)


def test_what_a_living_maker_runs_is_no_leftover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dataset that is generated for another run, beside what a killed trial and maker left."""
    monkeypatch.setattr(cgroup, "ROOT", tmp_path)
    own, dead = processes.own_name(), f"making.{os.getpid()}.1"
    for name in (own, dead, "s001-a-r1"):
        for folder in set(cgroup.Group(name).paths().values()):
            folder.mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert native.leftovers() == [f"control group {dead}", "control group s001-a-r1"]
    assert [group.name for group in cgroup.existing()] == [own]
