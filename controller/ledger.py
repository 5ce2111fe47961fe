"""The ledger of a testbed: what its providers were about to make, and what came of it.

A line is synced before the call that it announces, so that whatever instant a run is killed, what
may be there is known. The last word about a host counts; of the moments in the life of an instance
the first does. The file goes with the last of the hosts.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from strata import files
from strata.errors import Refused
from strata.host import lease, locks, owned
from strata.identity import digest

from schema.lives import Life

from . import lives
from .results import now

FOLDER = "ledgers"
LOCK_S = 20.0


def testbed(inventories: Sequence[str] | None) -> str:
    """Names the testbed of these inventories, folders or files in them, and no other."""
    paths = [Path(given).resolve() for given in inventories or ["."]]
    folders = [path if path.is_dir() else path.parent for path in paths]
    name = re.sub(r"[^a-z0-9]+", "-", folders[0].name.lower()).strip("-")[:40]
    return f"{name}-{digest(list(map(str, folders)))[:8]}".lstrip("-")


@dataclass(frozen=True)
class Ledger:
    """That of one testbed, in the controller's cache."""

    cache: Path
    testbed: str

    @property
    def path(self) -> Path:
        return self.cache / FOLDER / f"{self.testbed}.jsonl"

    def hosts(self) -> dict[str, dict[str, Any]]:
        """What may be there, by host: `provider`, `what` it is there, and once it was made
        `instance` and `connection`. Raises Refused for a file that is no ledger.
        """
        found: dict[str, dict[str, Any]] = {}
        for line in self._lines():
            entry = found.setdefault(line["host"], {})
            entry |= {key: line[key] for key in ("provider", "what") if key in line}
            entry |= {key: line[key] for key in ("instance", "connection") if key in line}
        return found

    def making(self, hosts: Mapping[str, Mapping[str, Any]], by: dict[str, Any]) -> None:
        """Note what is about to be made, `provider` and `what` of each host, and by which process.

        Raises Refused while another process that lives is making hosts of this testbed.
        """
        owned.Folder(self.cache, "cache").claim()
        self.path.parent.mkdir(exist_ok=True)
        rule = "the ledger of this testbed is being written by another process"
        with locks.only_one(self.path, rule, LOCK_S):
            self._check_nobody_makes(by)
            for host, made in hosts.items():
                what = {key: made[key] for key in ("provider", "what")}
                self._note("making", host, **what, by=by)

    def made(self, hosts: Mapping[str, Mapping[str, Any]]) -> list[str]:
        """Note the `instance` and `connection` of hosts that are there now.

        The result has a line for each that is another instance than before.
        """
        before, lines = self.hosts(), []
        for host, made in hosts.items():
            known = before.get(host, {}).get("instance")
            if known and known != made["instance"]:
                lines.append(f"{host} is another instance: {made['instance']}, was {known}")
            what = {key: made[key] for key in ("instance", "connection")}
            told = {key: lives.moment(made[key]) for key in lives.TOLD if made.get(key)}
            self._note("made", host, **what, **told)
        return lines

    def reached(self, waited: Mapping[str, float]) -> list[str]:
        """Note that hosts have let us in, each after so many seconds, the slowest of them now.

        The result has a line for each instance that did so for the first time.
        """
        before = {life.instance for life in self.lives() if life.reached}
        end = datetime.now(UTC)
        for host, seconds in waited.items():
            at = end - timedelta(seconds=max(waited.values()) - seconds)
            self._note("reached", host, reached=lives.moment(at.isoformat()))
        new = [life for life in self.lives() if life.reached and life.instance not in before]
        return list(filter(None, (lives.line(life, "active", "reached") for life in new)))

    def leaving(self) -> None:
        """Note that all of its hosts are about to be taken away."""
        for host in self.hosts():
            self._note("leaving", host, leaving=now())

    def lives(self) -> list[Life]:
        """What is known of the life of each instance, in the order of their making."""
        providers = {host: entry["provider"] for host, entry in self.hosts().items()}
        last: dict[str, str] = {}
        found: dict[str, dict[str, str]] = {}
        for line in self._lines():
            host = line["host"]
            last[host] = line.get("instance", last.get(host, ""))
            if last[host]:
                life = found.setdefault(last[host], {"host": host, "provider": providers[host]})
                if line["event"] == "made":  # it was taken away in vain, if at all
                    life.pop("leaving", "")
                for name in Life.MOMENTS:
                    if line.get(name):
                        life.setdefault(name, line[name])
        return [Life(instance=instance, **life) for instance, life in found.items()]

    def gone(self, results: Path) -> list[str]:
        """Nothing of it is there any more: runs on its hosts are told when, and people.

        Raises Refused.
        """
        here = {entry.get("instance") for entry in self.hosts().values()}
        ended = [life.model_copy(update={"gone": now()}) for life in self.lives()]
        ended = [life for life in ended if life.instance in here]
        lives.end(results, ended)
        self._remove()
        return list(filter(None, (lives.line(life, "gone") for life in ended)))

    def _remove(self) -> None:
        self.path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another testbed has one, or there is none
            self.path.parent.rmdir()
        owned.Folder(self.cache, "cache").let_go()

    def _check_nobody_makes(self, by: dict[str, Any]) -> None:
        last = {line["host"]: line for line in self._lines()}
        for host, line in last.items():
            other = line.get("by") or by
            if not lease.same(other, by) and lease.is_here(other) and not lease.dead(other):
                raise Refused(
                    "the hosts of a testbed are made by one run at a time",
                    given=f"{host} is being made by process {other['pid']}",
                    then="wait for its end, or end that process",
                )

    def _note(self, event: str, host: str, **more: Any) -> None:
        line = {"event": event, "at": now(), "host": host, **more}
        files.append_line(self.path, json.dumps(line, allow_nan=False))

    def _lines(self) -> list[dict[str, Any]]:
        """All whole lines; one that a crash cut announced nothing that was begun."""
        try:
            text = self.path.read_text()
        except FileNotFoundError:
            return []
        found = []
        for line in text.splitlines():
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        if not all(isinstance(line, dict) and "host" in line for line in found):
            raise Refused(
                "a ledger has a line for each host that a provider was about to make",
                given=str(self.path),
                then="see what the provider still has, and remove the file",
            )
        return found
