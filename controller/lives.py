"""What the ledger knows of the lives of hosts, in the folders of the runs that were on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from strata import files

from schema import documents
from schema import lives as schema
from schema.lives import Life

from .results import refusing

# What a provider may tell of a host that it made, beside how it is reached.
TOLD = ("asked", "active")


def moment(text: str) -> str:
    """A moment as documents have it; a provider that names no zone means UTC."""
    at = datetime.fromisoformat(text)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def keep(run: Path, told: Iterable[dict[str, Any]], instances: Collection[str]) -> None:
    """Have what is told of these instances in the folder of a run. Raises Refused."""
    mine = [Life.model_validate(life) for life in told if life["instance"] in instances]
    if mine:
        with refusing():
            _write(run, {life.instance: life for life in (*schema.read_lives(run), *mine)})


def end(results: Path, lives: Iterable[Life]) -> None:
    """The lives have ended: all runs that were on them are told so. Raises Refused."""
    ended = {life.instance: life for life in lives}
    for path in sorted(results.glob(f"*/{schema.FILE}")):
        with refusing():
            there = {life.instance: life for life in schema.read_lives(path.parent)}
            if there.keys() & ended.keys():
                _write(path.parent, there | {k: ended[k] for k in there if k in ended})


def _write(run: Path, lives: dict[str, Life]) -> None:
    told = [life.model_dump(mode="json") for life in lives.values()]
    document: dict[str, Any] = {"schema": documents.SCHEMA, "lives": told}
    schema.validate_lives(document)
    files.write_json(run / schema.FILE, document)


def line(life: Life, *moments: str) -> str:
    """For people: how long the host took to each of the moments that is known."""
    took = [
        f"{name} after {seconds:.1f} s"
        for name in moments
        if (seconds := life.seconds(name)) is not None
    ]
    return f"{life.host} ({life.provider}): {', '.join(took)}" if took else ""
