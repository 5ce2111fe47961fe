"""What the journal of a campaign says: time spent across crashes, and what is still to be done."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.errors import Refused

from campaign import __main__ as command
from campaign import boot, definition, status
from campaign.drive import Drive
from campaign.state import Journal

RUN = {"experiment": "quick", "slice": "smoke", "testbed": "inventories/local"}
NAME = "c-01-quick-smoke"


def write(folder: Path, **changes: Any) -> Path:
    path = folder / "c.yml"
    path.write_text(yaml.safe_dump({"name": "c", "runs": [RUN], **changes}))
    return path


def journal(folder: Path, *events: dict[str, Any]) -> Journal:
    """Of a campaign to which this happened."""
    made = Journal(folder / "campaigns" / "c")
    made.folder.mkdir(parents=True, exist_ok=True)
    made.path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return made


def run(state: str, at: float) -> dict[str, Any]:
    return {"event": "run", "run": NAME, "state": state, "at": at}


STARTED = {"event": "started", "at": 0.0, "alive": None}


def test_time_is_spent_while_a_run_is_under_way(tmp_path: Path) -> None:
    states = [run("running", 10), run("waiting", 20), run("running", 50), run("done", 55)]
    assert journal(tmp_path, STARTED, *states).spent(NAME) == 15


def test_a_crash_ends_the_time_spent_at_the_last_sign_of_life(tmp_path: Path) -> None:
    resumed = {"event": "started", "at": 9000.0, "alive": 110.0}
    states = [STARTED, run("running", 10), resumed, run("running", 9001), run("done", 9005)]
    assert journal(tmp_path, *states).spent(NAME) == 104


def test_after_a_crash_and_before_a_resumption_too(tmp_path: Path) -> None:
    made = journal(tmp_path, STARTED, run("running", 10))
    process = made.folder / "process.json"
    process.write_text(json.dumps({"host": os.uname().nodename, "pid": 1, "start": -1}))
    os.utime(process, (70, 70))
    assert made.spent(NAME) == 60
    with made.held() as alive:
        assert alive == 70
        made.beat()
        assert process.stat().st_mtime == pytest.approx(time.time(), abs=5)
    with made.held() as alive:
        assert alive is None, "it had ended in order"


def test_the_end_is_told_once(tmp_path: Path) -> None:
    touch = ["sh", "-c", f"echo told >> {tmp_path}/told"]
    campaign = definition.load(write(tmp_path, at_end=touch))
    journal(tmp_path, STARTED, run("running", 1), run("done", 2))
    for _ in range(2):
        assert Drive(campaign, tmp_path).run() == "done"
        assert (tmp_path / "told").read_text() == "told\n"


def test_when_the_campaigns_time_is_over_nothing_is_started(tmp_path: Path) -> None:
    campaign = definition.load(write(tmp_path, time_limit="1h"))
    made = journal(tmp_path, STARTED)
    assert Drive(campaign, tmp_path, say=lambda _: None).run() == "failed"
    assert made.state(NAME) == "out of time"
    assert not (made.folder / "runner").exists()


def test_a_command_may_be_one_line_and_must_be_there(tmp_path: Path) -> None:
    assert definition.load(write(tmp_path, at_end=["echo all done"])).command == [
        *("echo", "all", "done")
    ]
    with pytest.raises(Refused, match="at_end begins with a program"):
        definition.load(write(tmp_path, at_end=["no-such-program -s done"]))


def test_a_variable_of_the_campaign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="strata_run is not among"):
        definition.load(write(tmp_path, runs=[{**RUN, "variables": {"strata_run": "mine"}}]))


def test_the_status_is_told_whatever_became_of_the_experiment(tmp_path: Path, capsys: Any) -> None:
    path = str(write(tmp_path, runs=[{**RUN, "experiment": "gone"}]))
    assert command.main(["run", path, f"--results={tmp_path}"]) == 2
    for name in ("status", "stop"):
        assert command.main([name, path, f"--results={tmp_path}"]) == 0
    assert "c-01-gone-smoke" in capsys.readouterr().out


def raising(error: BaseException) -> Any:
    def do(*_: Any, **__: Any) -> None:
        raise error

    return do


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (
            ZeroDivisionError("oh"),
            command.BROKEN,
            "a fault of Strata itself: ZeroDivisionError: oh",
        ),
        (OSError(28, "No space left on device"), command.MACHINE, "next: see to rights and room"),
        (PermissionError(13, "no"), command.MACHINE, "given: [Errno 13] no"),
        (KeyboardInterrupt(), command.INTERRUPTED, ""),
    ],
)
def test_what_breaks_is_a_sentence_with_a_status_of_its_own(
    tmp_path: Path, monkeypatch: Any, capsys: Any, error: BaseException, code: int, said: str
) -> None:
    monkeypatch.setattr(status, "table", raising(error))
    assert command.main(["status", str(write(tmp_path)), f"--results={tmp_path}"]) == code
    told = capsys.readouterr().err
    assert said in told and "Traceback" not in told


@pytest.mark.parametrize("name", ["run", "status", "stop"])
def test_a_state_that_cannot_be_kept_is_refused(tmp_path: Path, capsys: Any, name: str) -> None:
    (tmp_path / "results").write_text("a file")
    code = command.main([name, str(write(tmp_path)), f"--results={tmp_path}/results"])
    assert code == command.MACHINE
    assert "Traceback" not in capsys.readouterr().err


def test_systemd_starts_nothing_for_ever() -> None:
    lines = boot.lines("c", Path("/c.yml"), Path("/"))
    never = {str(code) for code in (1, command.REFUSED, 129, command.INTERRUPTED, 141, 143)}
    (told,) = (line for line in lines if line.startswith("RestartPreventExitStatus="))
    assert set(told.partition("=")[2].split()) == never
    assert lines.index("StartLimitBurst=5") < lines.index("[Service]")
    with pytest.raises(Refused, match="has no control characters"):
        boot.lines("c", Path("/c\nUser=root"), Path("/"))


@pytest.mark.parametrize(
    "line", ["[]", "1", "{}", '{"event": "run", "at": NaN}', '{"event": 1, "at": 1}', "[" * 10**5]
)
def test_a_line_of_the_journal_that_is_no_event_is_passed_over(tmp_path: Path, line: str) -> None:
    made = journal(tmp_path, STARTED, run("running", 10))
    with made.path.open("ab") as file:
        file.write(line.encode() + b"\n\xff\x00\n")
    assert [event["event"] for event in made.events()] == ["started", "run"]
    assert not made.at_end_was_called()


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"host": "h", "pid": -1, "start": 1}', '{"host": 1, "pid": 2, "start": 1}'],
)
def test_nothing_is_signalled_that_is_no_process(
    tmp_path: Path, monkeypatch: Any, text: str
) -> None:
    monkeypatch.setattr(os, "kill", raising(AssertionError("signalled")))
    made = journal(tmp_path)
    (made.folder / "process.json").write_text(text)
    assert command.main(["stop", str(write(tmp_path)), f"--results={tmp_path}"]) == 0


def test_a_campaign_is_stopped_where_it_runs(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(os, "kill", raising(AssertionError("signalled")))
    found = {"host": "elsewhere", "pid": os.getpid(), "start": 1}
    (journal(tmp_path).folder / "process.json").write_text(json.dumps(found))
    assert command.main(["stop", str(write(tmp_path)), f"--results={tmp_path}"]) == 2
    assert "driven on elsewhere" in capsys.readouterr().err


def test_the_status_of_a_damaged_run_is_what_is_known(tmp_path: Path, capsys: Any) -> None:
    journal(tmp_path, STARTED, {**run("failed", 10), "why": "\x1b[2Jgone"})
    for text in ("{", "[]"):
        (tmp_path / NAME / "run.json").parent.mkdir(exist_ok=True)
        (tmp_path / NAME / "run.json").write_text(text)
        for flag in ([], ["--json"]):
            arguments = ["status", str(write(tmp_path)), f"--results={tmp_path}", *flag]
            assert command.main(arguments) == 0
    told = capsys.readouterr().out
    assert "failed" in told and "\x1b" not in told


def test_one_run_that_breaks_takes_no_other_with_it(tmp_path: Path, monkeypatch: Any) -> None:
    campaign = definition.load(write(tmp_path, runs=[RUN, RUN]))
    monkeypatch.setattr(Drive, "_drive", raising(ValueError("odd")))
    made = Drive(campaign, tmp_path, say=lambda _: None)
    assert made.run() == "failed"
    assert [made.journal.state(campaign.results(n)) for n in (0, 1)] == ["failed", "failed"]


def test_a_terminal_that_is_gone_changes_nothing(monkeypatch: Any) -> None:
    monkeypatch.setattr("builtins.print", raising(OSError(5, "Input/output error")))
    command._say("done")
