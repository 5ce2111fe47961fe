"""A host is held by one run at a time.

The lease is a JSON file on the host, changed under a lock. It names the ansible-playbook
process that took it, so that its end is seen where host and controller are one machine;
elsewhere it expires some time after the last trial.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .errors import Refused

TTL = 3600


def folder() -> Path:
    """Where leases are: a folder that a reboot empties."""
    if os.geteuid() == 0:
        return Path("/run/strata")
    private = os.environ.get("XDG_RUNTIME_DIR")
    # Anyone may make a name in /tmp, so `_locked` looks at whose folder it is.
    return Path(private) / "strata" if private else Path(f"/tmp/strata-{os.geteuid()}")  # noqa: S108


def start_time(pid: int) -> int | None:
    """Clock ticks from boot to the start of a process; None when there is none, or it has ended.

    A process that has ended but whose parent has not asked for its status yet is a zombie (Z).
    """
    try:
        # The second field is the program's name and may hold spaces and brackets.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in {"Z", "X"} else int(fields[19])


def dead(holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine and is no more.

    Its start time tells it from a later process with its number.
    """
    here = holder["host"] == socket.gethostname()
    return here and start_time(int(holder["pid"])) != int(holder["start"])


def current(at: Path | None = None) -> dict[str, Any] | None:
    """The lease in force, or None. An expired one, or one of a dead holder, is none.

    Raises PermissionError where the folder is closed to this account.
    """
    try:
        lease: dict[str, Any] = json.loads(_file(at).read_text())
        ended = lease["boot"] != _boot() or lease["expires"] < time.time()
        return None if ended or dead(lease["holder"]) else lease
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        # It is replaced as a whole, so a file that is no lease was never written by Strata.
        return None


def is_ours(run: str, holder: dict[str, Any], at: Path | None = None) -> bool:
    """Whether this holder has the lease for this run."""
    return _is_of(current(at), run, holder)


def would_change(
    run: str, holder: dict[str, Any], force: bool = False, at: Path | None = None
) -> bool:
    """Whether `acquire` would change who holds the host. Raises Refused when it would refuse."""
    found = current(at)
    ours = _is_of(found, run, holder)
    if found and not ours and not force:
        raise _held(found, run)
    return not ours


def acquire(
    run: str,
    holder: dict[str, Any],
    ttl_s: float = TTL,
    force: bool = False,
    at: Path | None = None,
) -> bool:
    """Take the lease, or prolong ours, for `ttl_s` seconds; True when it was not ours.

    Raises Refused when another holder has it, be it of the same run: two controllers would
    write one journal. `force` takes it all the same.
    """
    with _locked(at):
        found = current(at)
        changed = would_change(run, holder, force, at)
        since = _utc() if changed or found is None else found["since"]
        _write(run, holder, since, ttl_s, at)
        return changed


def refresh(run: str, holder: dict[str, Any], ttl_s: float = TTL, at: Path | None = None) -> None:
    """Prolong our lease. Raises Refused when it is not ours, or gone."""
    with _locked(at):
        found = current(at)
        if found is None:
            raise Refused(
                "this host is not held by any run",
                given=f"run {run}",
                then="run site.yml: its provision stage takes the lease",
            )
        if not _is_of(found, run, holder):
            raise _held(found, run)
        _write(run, holder, found["since"], ttl_s, at)


def release(run: str, holder: dict[str, Any], at: Path | None = None) -> bool:
    """Give the lease back; False when it was not ours."""
    with _locked(at):
        if not is_ours(run, holder, at):
            return False
        _file(at).unlink()
        return True


def _is_of(lease: dict[str, Any] | None, run: str, holder: dict[str, Any]) -> bool:
    return lease is not None and lease["run"] == run and lease["holder"] == holder


def _held(lease: dict[str, Any], run: str) -> Refused:
    holder = lease["holder"]
    until = datetime.fromtimestamp(lease["expires"], UTC).isoformat(timespec="seconds")
    who = "another controller of this run" if lease["run"] == run else "another run"
    return Refused(
        f"this host is held by {who}",
        given=f"run {lease['run']}, controller {holder['host']} process {holder['pid']}, "
        f"since {lease['since']}, until {until}",
        then="wait for its end, or end that process; when it is known to be dead, "
        "strata_lease with force: true takes the host",
    )


def _file(at: Path | None) -> Path:
    return (at or folder()) / "lease.json"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(run: str, holder: dict[str, Any], since: str, ttl_s: float, at: Path | None) -> None:
    lease = {
        "run": run,
        "holder": holder,
        "boot": _boot(),
        "since": since,
        "expires": time.time() + ttl_s,
    }
    aside = _file(at).with_suffix(".part")
    aside.write_text(json.dumps(lease))
    aside.replace(_file(at))


@contextlib.contextmanager
def _locked(at: Path | None) -> Iterator[None]:
    where = at or folder()
    where.mkdir(parents=True, exist_ok=True, mode=0o755)
    if where.lstat().st_uid != os.geteuid():
        raise Refused(
            "the folder of the lease belongs to the account that runs the modules",
            given=f"{where} belongs to uid {where.lstat().st_uid}",
            then="remove it, or set XDG_RUNTIME_DIR for this account",
        )
    with (where / "lease.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
