"""The documents of a run: what is read, what is upgraded, what is refused and in which words."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import synthetic

from schema import documents as schema


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return synthetic.Synthetic(cells=synthetic.cells(synthetic.NATIVE), repeats=2).write(
        tmp_path / "run"
    )


def a_record(run: Path) -> Path:
    return sorted(run.glob("trials/*/record.json"))[0]


def document(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


def test_every_document_of_a_run_is_read(run: Path) -> None:
    assert schema.read_run(run).hosts["node1"].substrate == "bare_metal"
    assert len(schema.read_plan(run).slots) == 2
    assert schema.read_host(run / "hosts" / "node1.json").values["kernel.release"] == "6.1.0"
    assert schema.read_record(a_record(run)).status == "ok"
    assert schema.read_journal(run / "journal.jsonl")[-1].event == "closed"


def test_what_is_written_validates_as_it_is_read(run: Path) -> None:
    record = document(a_record(run))
    assert schema.validate_record(record).model_dump(mode="json", by_alias=True) == record
    schema.validate_run(document(run / "run.json"))
    schema.validate_plan(document(run / "plan.json"))
    schema.validate_host(document(run / "hosts" / "node1.json"))
    schema.validate_event({"event": "opened", "wall": "2025-01-01T00:00:00Z", "mono": 1.5})


def test_a_plan_of_members_with_one_port_each_is_read(run: Path) -> None:
    plan = document(run / "plan.json")
    member = {"role": "worker", "index": 0, "host": "node1", "port": 29400}
    plan["slots"][0]["trials"][0]["members"] = [member]
    (found,) = schema.validate_plan(plan).slots[0].trials[0].members
    assert found.model_dump() == {"role": "worker", "index": 0, "host": "node1", "ports": []}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize(
    ("place", "keys"),
    [
        ("metrics.elapsed.value", ("metrics", "elapsed", "value")),
        ("workload.scalars.loss", ("workload", "scalars", "loss")),
        ("drift.0.now", ("drift", 0, "now")),
    ],
)
def test_a_number_that_is_not_finite_is_refused_however_deep(
    run: Path, value: float, place: str, keys: tuple[Any, ...]
) -> None:
    record = document(a_record(run))
    record["workload"] = {"scalars": {}}
    record["drift"] = [{"key": "cpu.mhz", "reference": 1, "now": 2}]
    inner = record
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    with pytest.raises(schema.SchemaError, match=f"{place} is .*numbers are finite"):
        schema.validate_record(record)


def test_a_newer_schema_is_refused_by_name_with_what_to_do(run: Path) -> None:
    path = a_record(run)
    synthetic.dump(path, {**document(path), "schema": schema.SCHEMA + 1})
    with pytest.raises(schema.SchemaError) as caught:
        schema.read_record(path)
    assert str(path) in str(caught.value)
    assert "made by a newer Strata; update this checkout" in str(caught.value)


def test_an_older_document_is_upgraded_step_by_step(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two upgrades in a row: `state` became `status`, then `place` became `hosts`."""
    record = document(a_record(run))
    old = {k: v for k, v in record.items() if k not in ("status", "hosts")}
    old |= {"schema": schema.SCHEMA - 2, "state": "ok", "place": "node1"}

    def rename(document: dict[str, Any]) -> dict[str, Any]:
        rest = {k: v for k, v in document.items() if k != "state"}
        return {**rest, "status": document["state"]}

    def several_hosts(document: dict[str, Any]) -> dict[str, Any]:
        rest = {k: v for k, v in document.items() if k != "place"}
        return {**rest, "hosts": [document["place"]]}

    steps = {schema.SCHEMA - 2: rename, schema.SCHEMA - 1: several_hosts}
    monkeypatch.setattr(schema, "UPGRADES", steps)
    read = schema.validate_record(old)
    assert (read.schema_number, read.status, read.hosts) == (schema.SCHEMA, "ok", ["node1"])
    assert "state" in old, "the given document stays as it was"
    with pytest.raises(schema.SchemaError, match="not a document of Strata"):
        schema.validate_record({**old, "schema": schema.SCHEMA - 3})


def test_a_record_of_schema_1_did_not_say_what_its_data_was_asked_to_be(run: Path) -> None:
    record = document(a_record(run)) | {"schema": 1}
    del record["dataset"]["asked"]
    read = schema.validate_record(record)
    assert read.dataset is not None and read.dataset.asked is None
    assert schema.validate_record({**record, "dataset": None}).dataset is None


@pytest.mark.parametrize("given", [None, "1", 1.0, True])
def test_a_document_without_a_schema_number_is_no_document(given: Any) -> None:
    with pytest.raises(schema.SchemaError, match=f"its schema is {given!r}"):
        schema.validate_record({"trial": "x", "schema": given})


def test_a_damaged_document_is_named_with_the_place_and_what_was_given(run: Path) -> None:
    path = a_record(run)
    synthetic.dump(path, {**document(path), "status": "perhaps"})
    with pytest.raises(schema.SchemaError) as caught:
        schema.read_record(path)
    assert str(path) in str(caught.value)
    assert "status" in str(caught.value)
    assert "perhaps" in str(caught.value)


def test_a_key_that_nobody_knows_is_refused(run: Path) -> None:
    with pytest.raises(schema.SchemaError, match="flagz"):
        schema.validate_record({**document(a_record(run)), "flagz": []})


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "cannot be read"), (b"\xff\xfe", "cannot be read"), (b"[]", "not a document")],
)
def test_an_unreadable_file_is_named(run: Path, content: bytes, message: str) -> None:
    path = a_record(run)
    path.write_bytes(content)
    with pytest.raises(schema.SchemaError, match=message) as caught:
        schema.read_record(path)
    assert str(path) in str(caught.value)


def test_a_folder_that_is_no_run_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(schema.SchemaError, match=r"not the folder of a run: it has no run\.json"):
        schema.read_run(tmp_path)


def test_a_line_that_a_kill_cut_is_passed_over(run: Path) -> None:
    path = run / "journal.jsonl"
    whole = schema.read_journal(path)
    with path.open("a") as journal:
        journal.write('{"event": "slot_sta')
    assert schema.read_journal(path) == whole
    with path.open("a") as journal:  # as a resumed run continues behind it
        journal.write('\n{"event": "resumed", "wall": "2025-01-01T00:00:00Z", "mono": 2.0}\n')
    assert [event.event for event in schema.read_journal(path)[-2:]] == ["closed", "resumed"]


def test_a_whole_line_that_is_no_event_is_damage(run: Path) -> None:
    path = run / "journal.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], '{"event": "celebrated"}', *lines[1:]]))
    with pytest.raises(schema.SchemaError, match="line 2, is no event"):
        schema.read_journal(path)


def test_the_schema_imports_without_pandas() -> None:
    """The plugins validate each record they write, and must not wait for the analysis."""
    code = "import sys; import schema.documents; print({'pandas', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
