"""What a module makes ends with its controller: each for real, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from strata import lease, told

# Works for ever, and says that it has cleaned up. That it works is said by its program: it is there
# when the module is told.
MODULE = """
import json, subprocess, sys
from strata import told
try:
    told.ends_with(json.loads(sys.argv[1]))
    works = "import time; print('works', flush=True); time.sleep(3600)"
    subprocess.run([sys.executable, "-c", works, sys.argv[2]])
finally:
    open(sys.argv[2], "w").write("cleaned up")
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
    monkeypatch.setattr(told, "LOOK_S", -1.0)
    monkeypatch.setattr(lease, "folder", lambda: tmp_path / "lease")


def test_the_controller_is_a_process_of_this_machine(controller: subprocess.Popen[bytes]) -> None:
    here = told.Controller(holder(controller))
    elsewhere = told.Controller(holder(controller, "other"))
    assert not here.gone() and not elsewhere.gone()
    controller.kill()
    controller.wait()
    assert here.gone() and not elsewhere.gone()


def test_the_controller_of_a_run_has_its_lease(controller: subprocess.Popen[bytes]) -> None:
    who = holder(controller, "other")
    lease.acquire("r", who)
    mine, another = told.Controller(who, "r"), told.Controller(who, "s")
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
    running = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
    assert str(trace) not in running


def test_a_pipe_tells_that_nobody_reads_it() -> None:
    read, write = os.pipe()
    assert not told.reader_gone(write)
    os.close(read)
    assert told.reader_gone(write)
    os.close(write)
