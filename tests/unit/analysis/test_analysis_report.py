"""Whole runs with effects that are known, through the whole analysis to page and files.

Seeds are fixed: an interval of 95 % misses the truth in one of twenty runs, with any method.
"""

from __future__ import annotations

import base64
import hashlib
import html
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from synthetic import DOCKER, NATIVE, Effect, Synthetic, cells, dump, image

from analysis import export, headline, page, report, shown, tables, terminal, two_runs
from analysis.__main__ import main
from analysis.load import load

GOLDEN = Path(__file__).parents[2] / "golden"
REPO = Path(__file__).parents[3]
MODELS = ("alexnet", "resnet50")
PLOT = "20f8cf460d236dea3c2c395df535d3fa0c7732a274a5217d910310676b2c5043"
TRUTH = 0.92


def planted(**more: object) -> Synthetic:
    """Docker is 8 % slower and starts two seconds later."""
    effects = {"docker": Effect(slower=1 / TRUTH, startup=2.0)}
    return Synthetic(cells(NATIVE, DOCKER, models=MODELS), effects, **more)  # type: ignore[arg-type]


def equal(**more: object) -> Synthetic:
    """Two labels of one platform: nothing differs."""
    return Synthetic(cells(NATIVE, labels=("a", "b")), baseline={"label": "a"},
                     factors=["label"], **more)  # type: ignore[arg-type]  # fmt: skip


# Of a trace, per step: what Docker slows down, and what stays.
COPIED = {
    **{"h2d_time": (0.002, "s/step"), "h2d_bytes": (4.8e6, "bytes/step")},
    **{"h2d_copies": (3.0, "copies/step"), "d2h_time": (0.0001, "s/step")},
    **{"d2h_bytes": (4.0, "bytes/step"), "d2h_copies": (1.0, "copies/step")},
}


def telling(folder: Path, metrics: dict[str, tuple[float, str]]) -> Path:
    """A run whose trials told more; times are a quarter longer in a container."""
    for number, path in enumerate(sorted(folder.glob("trials/*/record.json"))):
        document = json.loads(path.read_text())
        docker = document["levels"]["runtime"] == "docker"
        for name, (value, unit) in metrics.items():
            longer = 1.25 if docker and unit == "s/step" else 1.0
            noise = 1 + number % 3 / 1000 if unit == "s/step" else 1.0
            document["metrics"][name] = {"value": value * longer * noise, "unit": unit}
        dump(path, document)
    return folder


def of(built: tables.Tables, name: str) -> pd.DataFrame:
    return built.comparisons[built.comparisons["metric"] == name]


def test_planted_effects_lie_inside_their_intervals(tmp_path: Path) -> None:
    built = tables.build(load(planted(repeats=8, seed=3).write(tmp_path / "run")))
    throughput, startup = of(built, "throughput"), of(built, "startup")
    assert list(throughput["case"]) == list(MODELS)
    assert (throughput["verdict"] == "degraded").all()
    assert ((throughput["ratio_low"] < TRUTH) & (throughput["ratio_high"] > TRUTH)).all()
    assert ((startup["difference_low"] < 2.0) & (startup["difference_high"] > 2.0)).all()
    overall = built.overall[built.overall["metric"] == "throughput"].iloc[0]
    assert overall["ratio_low"] < TRUTH < overall["ratio_high"]
    assert overall["cases"] == 2


def test_two_labels_of_one_platform_do_not_differ(tmp_path: Path) -> None:
    built = tables.build(load(equal(seed=3).write(tmp_path / "run")))
    assert list(of(built, "throughput")["verdict"]) == ["no credible change"]
    assert "label" not in " ".join(built.trials["case"])


def test_two_workloads_of_one_run_are_answered_for_apart(tmp_path: Path) -> None:
    """Both have a rate, one in hashes and one in steps; only of the second there is throughput."""
    mnist = [{**cell, "workload": "mnist_dnn"} for cell in cells(NATIVE, DOCKER)]
    spin = [{k: v for k, v in cell.items() if k not in ("model", "batch_size")} for cell in mnist]
    spin = [{**cell, "workload": "spin", "work": 5} for cell in spin]  # options of its own
    effects = {"docker": Effect(slower=1 / TRUTH)}
    run = Synthetic([*spin, *mnist], effects, factors=["runtime", "workload"])
    folder = run.write(tmp_path / "run")
    for path in folder.glob("trials/*/record.json"):
        document = json.loads(path.read_text())
        found = document["metrics"]
        if document["levels"]["workload"] == "spin":
            found["rate"] = {**found.pop("throughput"), "unit": "hashes/s"}
        else:
            found["rate"] = {"value": found["throughput"]["value"] / 100, "unit": "steps/s"}
        dump(path, document)
    built = tables.build(load(folder))
    assert list(of(built, "rate")["case"]) == ["spin"]
    assert list(of(built, "rate_mnist_dnn")["case"]) == ["mnist_dnn"]
    assert list(of(built, "elapsed")["case"]) == ["mnist_dnn", "spin"]
    said = headline.sentences(built)
    assert [line.split(": ")[1].split()[0] for line in said] == ["rate", "throughput"]
    report.make(folder)
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "Rate (mnist_dnn)" in page and "(steps/s" in page and "(hashes/s" in page


def test_three_trials_are_too_few(tmp_path: Path) -> None:
    built = tables.build(load(planted(repeats=3).write(tmp_path / "run")))
    assert set(built.comparisons["verdict"]) == {"too few trials"}


def test_a_cell_breaks_between_figures_and_stays_text() -> None:
    whole = page._whole("? +1.5 % (+1.0 … +2.0 %), <b>8 s")
    assert whole == "?&nbsp;+1.5&nbsp;% (+1.0&nbsp;…&nbsp;+2.0&nbsp;%), &lt;b&gt;8&nbsp;s"


def test_what_cannot_be_judged_for_one_reason_shares_a_sentence(tmp_path: Path) -> None:
    run = Synthetic(cells(NATIVE, DOCKER, {**DOCKER, "network": "host"}), repeats=3)
    (said,) = headline.asked(tables.build(load(run.write(tmp_path / "run"))))
    assert said.startswith("docker/bridge, docker/host: throughput: too few pairs: ")


def test_many_steps_do_not_narrow_the_interval(tmp_path: Path) -> None:
    """Noise between trials stays, however many steps there are within each."""
    widths = []
    for steps in (20, 400):
        run = planted(noise=0.05, steps=steps).write(tmp_path / str(steps))
        row = of(tables.build(load(run)), "throughput").iloc[0]
        widths.append(row["ratio_high"] - row["ratio_low"])
    assert widths[1] > 0.6 * widths[0]


def test_summary_text_is_the_golden_one(tmp_path: Path) -> None:
    run = planted(failed={5: "exited with 1: no space left"}, demonstration=True)
    lines = terminal.summary(tables.build(load(run.write(tmp_path / "golden-run"))))
    text = "\n".join(lines) + "\n"
    golden = GOLDEN / "analysis_summary.txt"
    if os.environ.get("STRATA_UPDATE_GOLDEN") == "1":
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert max(map(len, lines)) <= 100


def test_same_run_gives_same_bytes(tmp_path: Path) -> None:
    run = planted(repeats=4).write(tmp_path / "run")
    report.make(run)
    first = {path.name: path.read_bytes() for path in (run / "report").iterdir()}
    report.make(run)
    second = {path.name: path.read_bytes() for path in (run / "report").iterdir()}
    assert first == second
    assert len(first) == 13


def test_make_returns_summary_and_page(tmp_path: Path) -> None:
    run = planted(repeats=4).write(tmp_path / "run")
    lines = report.make(run)
    assert lines[-1] == f"report: {run / 'report' / 'index.html'}"
    assert "measured / wall: 312 s of 360 s (87 %), 3.0 s a trial outside of trials" in lines
    frame = pd.read_parquet(run / "report" / "comparisons.parquet")
    assert frame["metric"].eq("throughput").sum() == 2
    again = pd.read_csv(run / "report" / "comparisons.csv")
    assert again["ratio"].to_list() == pytest.approx(frame["ratio"].to_list())


@pytest.mark.parametrize(("style", "begin"), [("latex", r"\begin"), ("markdown", "| metric |")])
def test_the_main_table_is_there_for_a_paper(
    tmp_path: Path, style: str, begin: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planted().write(tmp_path / "run")
    for command in ("report", "show"):
        assert main([command, str(run), "--table", style]) == 0
        out = capsys.readouterr().out
        assert out.startswith(begin)
        assert all(out.count(model) == 3 for model in MODELS), "a row for each headline metric"


def test_a_confound_is_shown_where_the_answer_is(tmp_path: Path) -> None:
    folder = planted(repeats=4).write(tmp_path / "run")
    document = json.loads((folder / "run.json").read_text())
    confound = {"what": "docker against native", "why": "n2 against n1 <b>"}
    dump(folder / "run.json", document | {"confounds": [confound]})
    lines = report.make(folder)
    assert "Confounded with the hosts: docker against native; n2 against n1 <b>." in lines
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert "docker against native; n2 against n1 &lt;b&gt;." in page


def test_names_and_reasons_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    run = planted(failed={0: evil}, left_out=[{"what": evil, "why": evil}], repeats=4)
    run.name = evil
    folder = run.write(tmp_path / "run")
    document = json.loads((folder / "run.json").read_text())
    dump(folder / "run.json", document | {"experiment": {"title": evil, "description": evil}})
    report.make(folder)
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    assert evil not in page
    assert page.count("<script") == 3, "the data, the library, and what draws"
    assert page.count("&lt;script&gt;") >= 4


def test_only_scripts_of_ours_may_run(tmp_path: Path) -> None:
    """A text that got out of its place would still not be among what the policy names."""
    models = ("<script>x</script>", "resnet50")
    run = Synthetic(cells(NATIVE, DOCKER, models=models), repeats=4)
    report.make(run.write(tmp_path / "run"))
    page = (tmp_path / "run" / "report" / "index.html").read_text(encoding="utf-8")
    assert "<script>x" not in page
    policy = html.unescape(page.split('Content-Security-Policy" content="')[1].split('"')[0])
    allowed = re.search(r"script-src (.*)", policy)
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in scripts]
    assert allowed and allowed[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert len(digests) == 2 and "default-src 'none'" in policy
    assert not re.search(r'(src|href)="https?:', page)


def test_the_vendored_library_is_the_one_that_was_looked_at() -> None:
    """Whoever takes another version (`vendor/make`) changes this on purpose."""
    library = (REPO / "analysis/templates/vendor/plot.min.js").read_bytes()
    assert hashlib.sha256(library).hexdigest() == PLOT


def test_lost_trials_are_named_with_their_reason(tmp_path: Path) -> None:
    run = planted(failed={1: "the engine is gone"}).write(tmp_path / "run")
    built = tables.build(load(run))
    assert list(built.lost["message"]) == ["the engine is gone"]
    assert int(built.counts["failed"].sum()) == 1
    assert of(built, "throughput")["n"].to_list() == [5, 6]
    report.make(run)
    assert "the engine is gone" in (run / "report" / "index.html").read_text(encoding="utf-8")


def test_every_record_link_of_the_page_leads_to_a_record(tmp_path: Path) -> None:
    run = planted(repeats=4).write(tmp_path / "run")
    report.make(run)
    page = (run / "report" / "index.html").read_text(encoding="utf-8")
    links = {part.split('"')[0] for part in page.split('href="')[1:]}
    records = {link for link in links if link.endswith("record.json")}
    assert len(records) == 16
    assert all((run / "report" / link).is_file() for link in records)


def test_an_incomplete_run_is_reported_with_a_notice(tmp_path: Path) -> None:
    run = planted(repeats=5).write(tmp_path / "run")
    last = sorted((run / "trials").iterdir())[-1]
    (last / "record.json").unlink()
    with (run / "journal.jsonl").open("a") as journal:
        journal.write('{"event": "slot_star')
    lines = terminal.summary(tables.build(load(run)))
    assert any("19 of 20 slots" in line for line in lines)


def test_a_run_without_baseline_shows_its_figures(tmp_path: Path) -> None:
    run = Synthetic(cells(NATIVE), baseline={}, factors=[], repeats=4).write(tmp_path / "run")
    lines = report.make(run)
    assert any("Throughput" in line for line in lines)
    assert "Nothing is compared" in (run / "report" / "index.html").read_text(encoding="utf-8")


def test_an_a_a_comparison_says_so(tmp_path: Path) -> None:
    for made, said in ((equal(repeats=4), True), (planted(repeats=4), False)):
        run = made.write(tmp_path / str(said))
        report.make(run)
        text = (run / "report" / "index.html").read_text(encoding="utf-8")
        assert ("Any difference is chance" in text) == said


def test_trials_with_few_steps_are_counted_as_not_judged(tmp_path: Path) -> None:
    assert tables.build(load(equal(repeats=2, steps=10).write(tmp_path / "few"))).unjudged == 4
    assert tables.build(load(equal(repeats=2).write(tmp_path / "more"))).unjudged == 0


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    report.replace(path, b"old")
    with pytest.raises(TypeError):
        report.replace(path, "text")  # type: ignore[arg-type]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_bytes() == b"old"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 2, capsys.readouterr()
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return err


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "run.json" in refused(capsys, "report", str(tmp_path))


def test_a_newer_schema_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    record = next((run / "trials").glob("*/record.json"))
    dump(record, json.loads(record.read_text()) | {"schema": 99})
    message = refused(capsys, "report", str(run))
    assert "schema 99" in message
    assert record.parent.name in message
    assert not (run / "report").exists()


def test_an_unreadable_record_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    record = next((run / "trials").glob("*/record.json"))
    record.write_text("{")
    assert str(record) in refused(capsys, "show", str(run))


def test_a_run_without_a_good_trial_has_a_page_that_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=1, failed={0: "out of luck", 1: "out of luck"}).write(tmp_path / "run")
    said = "No measured trial has ended well: 2 ended otherwise, 2 times for the reason"
    for command in ("report", "show"):
        assert main([command, str(run)]) == 0
        assert said in capsys.readouterr().out
    assert said in (run / "report/index.html").read_text()
    (tmp_path / "empty").mkdir()
    for name in ("run.json", "plan.json"):
        (tmp_path / "empty" / name).write_bytes((run / name).read_bytes())
    assert "no finished trial" in refused(capsys, "show", str(tmp_path / "empty"))


def test_a_report_is_whole_or_the_one_of_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    report.make(run)
    before = {path.name: path.read_bytes() for path in (run / "report").iterdir()}
    (run / "report/index.html").write_text("of before")
    (run / "report/against-other.html").write_text("another page")
    (run / "report/notes.txt").write_text("a person's own")

    def full(_: Path, __: bytes) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(report, "replace", full)
        with pytest.raises(OSError, match="no space"):
            report.make(run)
    assert (run / "report/index.html").read_text() == "of before"
    # Killed between the two renames.
    (run / "report").rename(run / ".report.old")
    report.make(run)
    after = {path.name: path.read_bytes() for path in (run / "report").iterdir()}
    mine = {"against-other.html": b"another page", "notes.txt": b"a person's own"}
    assert after == before | mine
    assert not list(run.glob(".report*"))


def test_a_report_is_not_written_through_a_link(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (run / "report").symlink_to(tmp_path / "mine")
    assert "no folder that the analysis made; move it away" in refused(capsys, "report", str(run))
    assert list((tmp_path / "mine").iterdir()) == []


EVIL = "\x1b]0;owned\x07\x9b31m\u202eright\u2066\u200f\x00"


def test_nothing_in_a_text_reaches_the_terminal_or_the_page_as_a_control(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = (EVIL, "alexnet")
    left_out = [{"what": EVIL, "why": EVIL}]
    made = Synthetic(cells(NATIVE, DOCKER, models=models), repeats=4, failed={0: EVIL, 1: EVIL},
                     left_out=left_out, host={"cpu.model": EVIL})  # fmt: skip
    run = made.write(tmp_path / "run")
    document = json.loads((run / "run.json").read_text())
    document |= {"name": EVIL, "testbed": EVIL, "created": EVIL}
    dump(run / "run.json", document | {"experiment": {"title": EVIL, "description": EVIL}})
    other = Synthetic(made.cells, repeats=4).write(tmp_path / "other")
    assert main(["report", str(run)]) == 0
    assert main(["show", str(run)]) == 0
    assert main(["compare", str(other), str(run)]) == 0
    assert main(["show", str(tmp_path / EVIL.replace("\x00", ""))]) == 2
    told = "".join(capsys.readouterr())
    assert r"\x1b]0;owned\x07\x9b31m\u202eright" in told
    pages = [path.read_text() for path in (run / "report").glob("*.html")]
    tables = [path.read_text() for path in (run / "report").glob("*.csv")]
    for text in (told, *pages, *tables):
        assert not {c for c in text if c not in "\n\t" and shown.shown(c) != c}
    assert all(r"\x1b]0;owned" in text for text in pages)


def test_a_text_is_no_formula_in_a_spreadsheet() -> None:
    begins = ["=1+1", "+1", "-1", "@x", "\t=1", "fine", "a-b"]
    frame = pd.DataFrame({"=h": begins, "n": [-1.5] * 7})
    told = pd.read_csv(io.BytesIO(export.csv(frame)))
    assert list(told.columns) == ["'=h", "n"]
    assert list(told["'=h"]) == ["'=1+1", "'+1", "'-1", "'@x", "'\t=1", "fine", "a-b"]
    assert list(told["n"]) == [-1.5] * 7


def test_whoever_stops_reading_sees_no_traceback(tmp_path: Path) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "analysis", "show", str(run)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with os.fdopen(write, "wb") as pipe:
        done = subprocess.run(
            command, cwd=REPO, stdout=pipe, stderr=subprocess.PIPE, check=False, env=environment
        )
    assert (done.returncode, done.stderr) == (141, b"")
    done = subprocess.run(command, cwd=REPO, capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii(), "what a terminal has no letters for is escaped"


def test_a_fault_of_our_own_is_a_sentence_and_has_a_status_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = equal(repeats=1).write(tmp_path / "run")
    monkeypatch.setattr(tables, "build", lambda *_, **__: 1 / 0)
    assert main(["show", str(run)]) == 70
    assert "a fault of Strata itself: ZeroDivisionError" in capsys.readouterr().err


def record_of(run: Path) -> Path:
    return sorted(run.glob("trials/*/record.json"))[0]


def change(path: Path, **values: object) -> None:
    dump(path, json.loads(path.read_text()) | values)


def metric(name: str, value: object) -> Callable[[Path], None]:
    """The first record with a metric more."""

    def do(run: Path) -> None:
        found = json.loads(record_of(run).read_text())["metrics"]
        change(record_of(run), metrics=found | {name: {"value": value, "unit": "1"}})

    return do


DAMAGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a file": (lambda run: (run.rename(f"{run}2"), run.write_text("")), "it has no run.json"),
    "a pipe": (lambda run: (run.rename(f"{run}2"), os.mkfifo(run)), "it has no run.json"),
    "nothing": (lambda run: run.rename(f"{run}2"), "it has no run.json"),
    "no runs in it": (lambda run: (run.rename(f"{run}2"), run.mkdir()), "it has no run.json"),
    "a link loop": (lambda run: (run.rename(f"{run}2"), run.symlink_to(run)), "symbolic links"),
    "a record that is empty": (lambda run: record_of(run).write_text(""), "cannot be read"),
    "a record that is deep": (lambda run: record_of(run).write_text("[" * 10**5), "cannot be read"),
    "a record with NaN": (metric("elapsed", float("nan")), "numbers are finite"),
    "400 digits": (metric("elapsed", 10**400), "numbers are finite"),
    "deep": (
        lambda run: change(record_of(run), workload=json.loads('{"a":' * 99 + "1" + "}" * 99)),
        "nested deeper",
    ),
    "of another run": (lambda run: change(record_of(run), run="y"), "belongs to another run"),
    "out of its folder": (
        lambda run: change(record_of(run), trial="../../../x"),
        "a name is made of letters",
    ),
    "of another trial": (lambda run: change(record_of(run), trial="y"), "not where it belongs"),
    "of another attempt": (lambda run: change(record_of(run), attempt=2), "not where it belongs"),
    "twice": (
        lambda run: shutil.copytree(record_of(run).parent, run / "trials/copy"),
        "not where it belongs",
    ),
    "a record that is a pipe": (
        lambda run: (record_of(run).unlink(), os.mkfifo(record_of_none(run))),
        "not an ordinary file",
    ),
    "of a host of another name": (
        lambda run: change(run / "hosts/node1.json", host="../../x"),
        "not where it belongs",
    ),
    "no plan": (lambda run: (run / "plan.json").unlink(), "there is no"),
    "not planned": (
        lambda run: change(run / "plan.json", slots=[]),
        "since the plan has no such trial",
    ),
    "a journal that is a folder": (
        lambda run: ((run / "journal.jsonl").unlink(), (run / "journal.jsonl").mkdir()),
        "not an ordinary file",
    ),
    "a journal of something else": (
        lambda run: (run / "journal.jsonl").write_text("1\n"),
        "is no event",
    ),
    "images that are unequal": (
        lambda run: change(record_of(run), image=image("b")),
        "unequal workload images",
    ),
}


def record_of_none(run: Path) -> Path:
    """Where the record of a trial is missing."""
    return next(p / "record.json" for p in run.glob("trials/*") if not (p / "record.json").exists())


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_cannot_be_analysed_is_refused_in_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    run = equal(repeats=4).write(tmp_path / "run")
    whole = equal(repeats=4).write(tmp_path / "whole")
    do, words = DAMAGES[damage]
    do(run)
    commands = [["show", run], ["report", run], ["compare", whole, run]]
    for command in commands:
        message = refused(capsys, *map(str, command))
        assert words in message
        assert message.startswith("analysis: ") and len(message) < 600
    assert not (run / "report").exists()


def test_a_report_that_cannot_be_written_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    (run / "report").write_text("a file of a person's own")
    assert "move it away" in refused(capsys, "report", str(run))
    assert "a file of" in (run / "report").read_text()


def test_what_an_earlier_strata_wrote_is_read_beside_what_this_one_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    for path in [run / "run.json", record_of(run), run / "hosts/node1.json"]:
        change(path, schema=1)
    assert main(["report", str(run)]) == 0


def test_half_a_surrogate_pair_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2, failed={0: "half \ud800 of a pair"}).write(tmp_path / "run")
    assert main(["report", str(run)]) == 0
    assert "half ? of a pair" in (run / "report/index.html").read_text()


def test_what_lies_among_the_trials_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = equal(repeats=2).write(tmp_path / "run")
    (run / "trials/notes.txt").write_text("")
    (run / "trials/half").mkdir()
    (run / "trials/loop").symlink_to("loop")
    run.rename(tmp_path / "renamed")
    assert main(["show", str(tmp_path / "renamed")]) == 0
    told = capsys.readouterr().out
    assert "Left out, since they hold no record: half, loop, notes.txt." in told
    assert "The folder renamed holds the run run." in told


def test_unequal_images_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = equal(repeats=4).write(tmp_path / "run")
    record = next((run / "trials").glob("*/record.json"))
    other = {"image": image("sha256:" + "b" * 64)}
    dump(record, json.loads(record.read_text()) | other)
    assert "unequal workload images" in refused(capsys, "report", str(run))


def test_copies_of_a_trace_are_on_the_page_by_their_way(tmp_path: Path) -> None:
    """As the workload tells them: per step, each way its time, its bytes and its number."""
    folder = telling(planted(repeats=6).write(tmp_path / "run"), COPIED)
    report.make(folder)
    page = (folder / "report" / "index.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))
    for words in ("to the device", "from the device"):
        for what in ("Time of copies", "Bytes copied", "Copies"):
            assert f"{what} {words}" in text, what
    assert "(ms/step, lower is better)" in text and "4.578" in text and "(MiB/step)" in text
    built = tables.build(load(folder))
    compared = of(built, "h2d_time")
    assert list(compared["verdict"]) == ["degraded"] * len(MODELS), "a container copies longer"
    assert "on devices" not in text, "what no trial told is no table"


def test_compare_classes_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = planted().write(tmp_path / "before")
    host = {"cpu.model": "Example CPU 4000", "python": "3.12.1"}
    after = planted(seed=2, host=host)
    after.effects["native"] = Effect(slower=1.2)
    after.write(tmp_path / "after")
    assert main(["compare", str(before), str(tmp_path / "after")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:-1])) <= 100  # the last line is the path of the page
    assert any("confound" in line and "Example CPU 4000" in line for line in lines)
    assert any("allowed" in line and "3.12.1" in line for line in lines)
    found = two_runs.compare([load(before)], [load(tmp_path / "after")])
    rows = found[found["metric"] == "throughput"].groupby("compared")["verdict"].agg(set)
    assert rows[two_runs.ALONE] == {"too few trials"}, "one run a side says nothing of runs"
    assert rows[two_runs.RATIOS] == {"improved"}, "the ratio to a baseline that is slower now"


def test_compare_refuses_other_bits_and_other_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = planted(repeats=4).write(tmp_path / "run")
    other = planted(repeats=4, image="sha256:" + "b" * 64).write(tmp_path / "other")
    cell = Synthetic(cells(NATIVE, models=("vgg16",)), repeats=4).write(tmp_path / "cell")
    assert "unequal" in refused(capsys, "compare", str(run), str(other))
    assert "in common" in refused(capsys, "compare", str(run), str(cell))


def test_compare_lets_the_factor_under_test_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    native = Synthetic(cells(NATIVE, models=MODELS)).write(tmp_path / "native")
    slow = {"docker": Effect(slower=1 / TRUTH)}
    docker = Synthetic(cells(DOCKER, models=MODELS), slow, seed=2).write(tmp_path / "docker")
    assert main(["compare", str(native), str(docker)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert not any(line.endswith("degraded") for line in lines)
    assert "too few runs" in " ".join(lines)
    tested = [line for line in lines if line.startswith("factor under test")]
    assert ["runtime" in " ".join(tested), "network" in " ".join(tested)] == [True, True]
