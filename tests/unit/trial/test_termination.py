"""What a module makes ends with its controller: each for real, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata.host import lease
from strata.trial import termination

# Says that it works, makes something for ever, and says that it has cleaned up.
MODULE = """
import json, sys
from pathlib import Path
from strata.host import making
from strata.trial import termination
trace = Path(sys.argv[2])
termination.ends_with(json.loads(sys.argv[1]))
try:
    with making.making(trace.with_name("made"), "work") as aside:
        print("works", flush=True)
        aside.run([sys.executable, "-c", "import time; time.sleep(3600)", str(trace)])
finally:
    trace.write_text("cleaned up")
"""


@pytest.fixture
def controller() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may be ended, in the place of ansible-playbook."""
    with subprocess.Popen(["sleep", "3600"]) as process:
        yield process
        process.kill()


def holder(process: subprocess.Popen[bytes], host: str = "") -> dict[str, Any]:
    return {
        "host": host or socket.gethostname(),
        "pid": process.pid,
        "start": lease.start_time(process.pid),
    }


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(termination, "LOOK_S", -1.0)
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "lease")
    monkeypatch.setattr(lease, "ROOT", tmp_path / "lease")
    monkeypatch.setattr(lease, "SHARED", tmp_path / "shared")


def test_the_controller_is_a_process_of_this_machine(controller: subprocess.Popen[bytes]) -> None:
    here = termination.Controller(holder(controller))
    elsewhere = termination.Controller(holder(controller, "other"))
    assert not here.gone() and not elsewhere.gone()
    controller.kill()
    controller.wait()
    assert here.gone() and not elsewhere.gone()


def test_the_controller_of_a_run_has_its_lease(controller: subprocess.Popen[bytes]) -> None:
    who = holder(controller, "other")
    lease.acquire("r", who)
    mine, another = termination.Controller(who, "r"), termination.Controller(who, "s")
    assert not mine.gone() and another.gone()
    lease.acquire("t", holder(controller), force=True)
    assert mine.gone()


@pytest.mark.parametrize("how", ["controller", "signal", "pipe"])
def test_a_module_ends_with_its_controller_and_cleans_up(
    controller: subprocess.Popen[bytes], tmp_path: Path, how: str
) -> None:
    trace = tmp_path / "trace"
    module = subprocess.Popen(
        [sys.executable, "-c", MODULE, json.dumps(holder(controller)), str(trace)],
        stdout=subprocess.PIPE,
    )
    with module:
        assert module.stdout and module.stdout.readline() == b"works\n"
        if how == "controller":
            controller.kill()
            controller.wait()
        elif how == "signal":
            module.send_signal(signal.SIGTERM)
        else:
            module.stdout.close()
        assert module.wait(60) == -signal.SIGINT
    assert trace.read_text() == "cleaned up"
    deadline = time.monotonic() + 60
    while str(trace) in running():  # the kernel ends them with it, one after the other
        assert time.monotonic() < deadline, running()
        time.sleep(0.05)


def test_only_the_main_thread_takes_signals() -> None:
    # One that the watching thread took would not wake the main one out of what it waits for.
    told = """
import os, threading
from pathlib import Path
from strata.trial import termination
termination.ends_with({})
(thread,) = (one for one in threading.enumerate() if one is not threading.main_thread())
for number in (os.getpid(), thread.native_id):
    status = Path(f"/proc/self/task/{number}/status").read_text()
    print(status.partition("SigBlk:")[2].split()[0])
"""
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    main, watching = (int(mask, 16) for mask in done.stdout.split())
    wanted = sum(1 << (number - 1) for number in termination.Signals.NUMBERS)
    assert main & wanted == 0 and watching & wanted == wanted


def running() -> str:
    return subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout


def test_a_pipe_tells_that_nobody_reads_it() -> None:
    read, write = os.pipe()
    assert not termination.reader_gone(write)
    os.close(read)
    assert termination.reader_gone(write)
    os.close(write)
