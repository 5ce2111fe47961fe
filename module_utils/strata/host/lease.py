"""A host is held by one run at a time.

The lease is a JSON file on the host, changed under a lock, in a folder of the account that runs
the modules. Everybody can read it, and a host that any account holds is held: root's lease and
those of other accounts count alike. It names the ansible-playbook process that took it, so that
its end is seen where host and controller are one machine; elsewhere it expires some time after
the last trial.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import socket
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import Refused
from ..identity import digest
from . import locks

TTL = 3600
MEASURE, BUILD = "measure", "build"
LOCK_SECONDS = 20.0
# Where leases are: root's in a folder that a reboot empties, those of other accounts below a
# folder in which anybody may make one. The lease itself says of which boot it is.
ROOT = Path("/run/strata")
SHARED = Path("/tmp")  # noqa: S108 - whose each folder is, is looked at
PREFIX = "strata-"
FILE = "lease.json"
LARGEST = 4096  # bytes of a lease
FOREVER = 2**32  # seconds after 1970 that a date can be made of


def folder() -> Path:
    """Where this account's lease is."""
    return ROOT if os.geteuid() == 0 else SHARED / f"{PREFIX}{os.geteuid()}"


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


def process(pid: int) -> dict[str, Any]:
    """A process of this machine as the holder of a lease, named so that its end can be seen."""
    here = {"host": socket.gethostname(), "machine": _machine()}
    return {**here, "pid": pid, "start": start_time(pid)}


def dead(holder: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine and is no more.

    Its start time tells it from a later process with its number, and the machine's own id from
    one of another machine of the same name.
    """
    return is_here(holder) and start_time(int(holder["pid"])) != int(holder["start"])


def is_here(holder: dict[str, Any]) -> bool:
    """Whether the holder is, or was, a process of this machine."""
    named = bool(holder["host"] == socket.gethostname())
    return named and (holder.get("machine") or _machine()) == _machine()


def current() -> dict[str, Any] | None:
    """The lease in force on this machine, or None. An expired one, or of a dead holder, is none.

    That of another account has its name as `account`. Ours comes first.
    """
    return _ours() or next(_of_others(), None)


def local_holder() -> int | None:
    """The number of the process that holds this machine, where it is one of this machine."""
    found = current()
    return int(found["holder"]["pid"]) if found and is_here(found["holder"]) else None


def is_ours(run: str, holder: dict[str, Any]) -> bool:
    """Whether this holder has the lease of this account for this run."""
    return _is_of(_ours(), run, holder)


def would_change(run: str, holder: dict[str, Any], force: bool = False) -> bool:
    """Whether `acquire` would change who holds the host. Raises Refused when it would refuse."""
    found = current()
    ours = _is_of(found, run, holder)
    if found and not ours and not force:
        raise Held(found, run)
    return not ours


def acquire(
    run: str,
    holder: dict[str, Any],
    ttl_s: float = TTL,
    force: bool = False,
    use: str = MEASURE,
) -> bool:
    """Take the lease, or prolong ours, for `ttl_s` seconds; True when it was not ours.

    Raises Held when another holder has it, be it of the same run: two controllers would write
    one journal. `force` takes it all the same. `use` is MEASURE, or BUILD for a controller.
    """
    with _locked():
        changed = would_change(run, holder, force)
        found = _ours()
        since = _utc() if changed or found is None else found["since"]
        _write(run, holder, since, ttl_s, use)
        # Another account has another lock: of two that take it at once, both look once more.
        other = None if force else next(_of_others(), None)
        if other and not _is_of(other, run, holder):
            _file().unlink()
            raise Held(other, run)
        return changed


def refresh(run: str, holder: dict[str, Any], ttl_s: float = TTL) -> None:
    """Prolong our lease. Raises Refused when it is not ours, or gone."""
    with _locked():
        found = current()
        if found is None:
            raise Refused(
                "this host is not held by any run",
                given=f"run {run}",
                then="run site.yml: its provision stage takes the lease",
            )
        if not _is_of(found, run, holder):
            raise Held(found, run)
        _write(run, holder, found["since"], ttl_s, found.get("use", MEASURE))


def release(run: str, holder: dict[str, Any]) -> bool:
    """Give the lease back; False when it was not ours."""
    with _locked():
        if not is_ours(run, holder):
            return False
        _file().unlink()
        return True


class Held(Refused):
    """Another run holds the host, or another controller of this run; `lease` is its lease."""

    def __init__(self, lease: dict[str, Any], run: str = "", host: str = "this host") -> None:
        self.lease = lease
        other = "another controller of this run" if lease["run"] == run else "another run"
        super().__init__(
            f"{host} is held by {other}",
            given=describe(lease),
            then="wait for its end, or end that process; its lease then goes by itself, "
            "an hour after its last trial where host and controller are two machines",
        )


def describe(lease: dict[str, Any]) -> str:
    """Who holds a host, what for, and since when, in words."""
    holder = lease["holder"]
    account = f" of the account {lease['account']}" if "account" in lease else ""
    what = "builds" if lease.get("use") == BUILD else "measures"
    until = datetime.fromtimestamp(lease["expires"], UTC).isoformat(timespec="seconds")
    return (
        f"run {lease['run']}{account}, which {what}, controller {holder['host']} "
        f"process {holder['pid']}, since {lease['since']}, until {until}"
    )


def _is_of(lease: dict[str, Any] | None, run: str, holder: dict[str, Any]) -> bool:
    return lease is not None and lease["run"] == run and same(lease["holder"], holder)


def stale(name: str, facts: dict[str, Any], controller: dict[str, Any], wait: bool = False) -> bool:
    """Whether a host's lease may be broken: its controller was this machine, and is dead.

    Raises Refused when another run holds the host; but with `wait` not one that builds on it,
    which is waited for when the lease is taken.
    """
    held = facts.get("lease") or {}
    if not held or same(held["holder"], controller):
        return False
    if dead(held["holder"]):
        return True
    if wait and held.get("use") == BUILD:
        return False
    raise Held(held, host=name)


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two holders are one; a test's may have no machine."""
    return {"machine": "", **one} == {"machine": "", **other}


def _ours() -> dict[str, Any] | None:
    return _read(folder(), os.geteuid())


def _of_others() -> Iterator[dict[str, Any]]:
    """The leases in force of other accounts: root's, and what the others say of themselves."""
    places = [(ROOT, 0)]
    with contextlib.suppress(OSError), os.scandir(SHARED) as found:
        names = sorted(entry.name for entry in found if entry.name.startswith(PREFIX))
        uids = [name.removeprefix(PREFIX) for name in names]
        places += [(SHARED / f"{PREFIX}{uid}", int(uid)) for uid in uids if uid.isdecimal()]
    for place, uid in places:
        lease = _read(place, uid) if place != folder() else None
        if lease:
            yield {**_plain(lease), "account": locks.account(uid)}


def _read(place: Path, uid: int) -> dict[str, Any] | None:
    """The lease in force of an account, or None. A file that is no lease is none."""
    try:
        lease = json.loads(_text_of(place, uid))
        _plain(lease)
        over = lease["boot"] != _boot() or lease["expires"] < time.time()
        return None if over or dead(lease["holder"]) else lease
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ):
        return None


def _text_of(place: Path, uid: int) -> str:
    """What an account has written as its lease. Raises OSError where it is not its own.

    No link is followed, no pipe waited for, and no more is read than a lease has.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    at = os.open(place, flags | os.O_DIRECTORY)
    try:
        with os.fdopen(os.open(FILE, flags, dir_fd=at), "rb") as file:
            found = [os.fstat(at), os.fstat(file.fileno())]
            if any(one.st_uid != uid for one in found) or not stat.S_ISREG(found[1].st_mode):
                raise PermissionError(place)
            return file.read(LARGEST).decode()
    finally:
        os.close(at)


def _plain(lease: dict[str, Any]) -> dict[str, Any]:
    """A lease that another account wrote, fit to be shown. Raises what a wrong one causes."""
    holder = lease["holder"]
    expires = float(lease["expires"])
    if not math.isfinite(expires):
        raise ValueError(expires)
    return {
        "run": _word(lease["run"]),
        "holder": {
            **{name: _word(holder[name]) for name in ("host", "machine") if name in holder},
            **{name: int(holder[name]) for name in ("pid", "start")},
        },
        "boot": _word(lease["boot"]),
        "since": _word(lease["since"]),
        "expires": max(0.0, min(expires, FOREVER)),
        "use": BUILD if lease.get("use") == BUILD else MEASURE,
    }


def _word(text: str) -> str:
    return re.sub(r"[^\w.:+-]", "?", text)[:100]


def _file() -> Path:
    return folder() / FILE


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _machine() -> str:
    """Names this installation, whatever its host name is; '' where it has no id."""
    try:
        return digest(Path("/etc/machine-id").read_text())[:12]
    except OSError:
        return ""


def _utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _write(run: str, holder: dict[str, Any], since: str, ttl_s: float, use: str) -> None:
    lease = {
        "run": run,
        "holder": holder,
        "boot": _boot(),
        "since": since,
        "expires": time.time() + ttl_s,
        "use": use,
    }
    aside = _file().with_suffix(".part")
    aside.write_text(json.dumps(lease))
    aside.chmod(0o644)
    aside.replace(_file())


@contextlib.contextmanager
def _locked() -> Iterator[None]:
    locks.own_folder(folder())
    rule = "the lease of this host is being changed by another process"
    with locks.only_one(folder() / "lease.lock", rule, LOCK_SECONDS):
        yield
