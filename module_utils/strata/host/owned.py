"""Which folders are Strata's, and how they go.

A folder becomes Strata's by a marker, which is written only where nothing was before. What is
removed from it are the names that Strata makes there; no link is followed, no other file system
is entered, and whatever else lies there stays. Each account keeps a list of the folders that it
has claimed, at a place that no setting moves, so that none is forgotten.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import files
from ..errors import Refused

MARKER = ".strata.json"
VERSION = 1
SETTINGS = {
    "state": "strata_state_dir",
    "cache": "strata_cache",
    "cloud": "rehearsal_cloud_folder",
    "guests": "libvirt_folder",
}
NOUNS = {
    "state": "state folder",
    "cache": "cache",
    "cloud": "rehearsal cloud",
    "guests": "folder of virtual machines",
}
# What Strata makes in a folder, and therefore removes; with it, locks and half-made ones beside it.
BESIDE = re.compile(r"[.](?P<name>.+?)([.]lock|([.]old)?[.]part)")
MADE = {
    "state": (
        "apptainer",
        "datasets",
        "images",
        "kubernetes",
        "network",
        "packet_filter",
        "trials",
    ),
    "cache": (
        "apptainer",
        "datasets",
        "guests",
        "images",
        "kubernetes",
        "ledgers",
        "libvirt",
        "openstack",
        "rehearsal",
        "wheels",
    ),
    "cloud": (
        *("agent", "bmc", "bmc.yaml", "bmc2.yaml", "clouds.yaml", "etc", "ipmi.yaml"),
        *("log", "secret", "simulated", "state"),
    ),
    "guests": ("testbeds",),
}
FEW = 5  # names that a message lists


@dataclass(frozen=True)
class Folder:
    """A folder that is, or is to become, Strata's; `kind` is a key of MADE."""

    path: Path
    kind: str

    def is_ours(self) -> bool:
        """Whether Strata has claimed it; False when it may. Raises Refused when it may not."""
        try:
            self._check_path()
            # Before the marker is read: another claim writes that first, and then its names.
            names = _names(self.path)
        except FileNotFoundError:
            self._check_writable(_existing(self.path))
            return False
        except OSError as error:
            raise self._refused(f"{self.path}: {error.strerror}") from error
        marker = self._marker()
        if marker:
            self._check_marker(marker)
        elif others := sorted(names - self._not_content(names)):
            shown = ", ".join(map(repr, others[:FEW])) + (" …" if len(others) > FEW else "")
            raise self._refused(f"{self.path} holds {shown} and no marker of Strata's ({MARKER})")
        self._check_owner()
        self._check_writable(self.path)
        return bool(marker)

    def describe(self) -> dict[str, Any]:
        """What a host says of it: `ours`, `refused` with its parts, and `elsewhere`."""
        said = {"ours": False, "refused": {}, "elsewhere": self.elsewhere()}
        try:
            return {**said, "ours": self.is_ours()}
        except Refused as refused:
            parts = ("rule", "example", "given", "then")
            return {**said, "refused": {name: getattr(refused, name) for name in parts}}

    def claim(self) -> bool:
        """Make it Strata's; True when it was not. Raises Refused."""
        ours = self.is_ours()
        try:
            self._note()
            if not ours:
                self._mark()
        except OSError as error:
            raise self._refused(f"{error.filename or self.path}: {error.strerror}") from error
        return not ours

    def parts(self) -> list[Path]:
        """What is there of the names that Strata makes. A link is none: Strata makes none."""
        try:
            there = sorted(self.path.iterdir())
        except OSError:
            return []
        return [path for path in there if self._makes(path.name) and not path.is_symlink()]

    def _makes(self, name: str) -> bool:
        beside = BESIDE.fullmatch(name)
        return (beside["name"] if beside else name) in MADE[self.kind]

    def found(self) -> list[str]:
        """Paths of all that is Strata's here, the folder first; none once it was given back."""
        marked = (self._marker() or {}).get("kind") == self.kind
        return [str(path) for path in (self.path, *self.parts())] if marked else []

    def foreign(self) -> list[str]:
        """Paths of what lies here and is not Strata's."""
        try:
            names = _names(self.path)
        except OSError:
            return []
        made = {path.name for path in self.parts()} if self._marker() else set()
        rest = names - made - {MARKER} - self._not_content(names)
        return [str(self.path / name) for name in sorted(rest)]

    def remove(self, keep: Collection[str] = ()) -> list[str]:
        """Remove what Strata made here, but for the names to keep; what could not go, and why.

        The marker goes with the last of it, and the folder where Strata made that and nothing else
        is in it. Raises Refused for a folder that is not Strata's; one that is not there is empty.
        """
        stuck = []
        for part in self.parts() if self.is_ours() else []:
            if part.name not in keep:
                try:
                    remove(part)
                except OSError as error:
                    stuck.append(f"{error.filename or part}: {error.strerror}")
        self.let_go()
        return stuck

    def let_go(self) -> None:
        """Give the folder back once nothing of Strata's is in it. Raises Refused."""
        if self.is_ours() and not self.parts():
            made = (self._marker() or {}).get("made")
            for name in _names(self.path):
                if name == MARKER or _is_aside(name):
                    (self.path / name).unlink(missing_ok=True)
            if made:
                with contextlib.suppress(OSError):  # something else is in it
                    self.path.rmdir()
        _forget()

    def elsewhere(self) -> list[str]:
        """Other folders of this kind that this account has claimed and not given back."""
        others = (folder for folder in _noted().values() if folder.kind == self.kind)
        return sorted(str(one.path) for one in others if one != self and one._marker())

    def _check_path(self) -> None:
        if not self.path.is_absolute() or ".." in self.path.parts:
            raise self._refused(
                repr(str(self.path)), "must be given by its whole path, without '..'"
            )
        if self.path.is_symlink():
            raise self._refused(
                f"{self.path} is a link to {str(self.path.readlink())!r}",
                "must be a folder, and no link",
            )

    def _check_marker(self, marker: dict[str, Any]) -> None:
        if marker["version"] > VERSION:
            raise self._refused(f"{self.path} was claimed by a newer Strata")
        if marker["kind"] != self.kind:
            raise self._refused(f"{self.path} is Strata's {NOUNS[marker['kind']]} already")

    def _check_owner(self) -> None:
        """Programs are started from the state folder. A cache is used with root and without."""
        owner = self.path.stat().st_uid
        if self.kind == "state" and owner != os.geteuid():
            raise self._refused(
                f"{self.path} belongs to user {owner}, the modules run as {os.geteuid()}",
                "must belong to the account that runs the modules",
            )

    def _check_writable(self, path: Path) -> None:
        if not path.is_dir() or not os.access(path, os.W_OK | os.X_OK):
            raise self._refused(f"{path} cannot be written by user {os.geteuid()}")

    def _refused(self, given: str, rule: str = "") -> Refused:
        setting = SETTINGS[self.kind]
        rule = rule or "must be a new folder, an empty one, or one that is Strata's already"
        return Refused(
            f"Strata's {NOUNS[self.kind]} {rule}",
            example=f"{setting}=/srv/bigdisk/strata",
            given=given,
            then=f"name a new folder: -e {setting}=FOLDER (docs/machine.md)",
        )

    def _not_content(self, names: Collection[str]) -> set[str]:
        """What does not make a folder anybody's: half a marker; what a new file system has."""
        own = {name for name in names if _is_aside(name)}
        return own | ({"lost+found"} if _real(self.path) in mounts() else set())

    def _marker(self) -> dict[str, Any] | None:
        """What the marker says; None where there is none that Strata can have written."""
        path = self.path / MARKER
        try:
            if path.is_symlink() or not path.is_file():
                return None
            found = json.loads(path.read_bytes()[:4096])
            return found if found["version"] >= 1 and found["kind"] in MADE else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _mark(self) -> None:
        said = {
            **{"version": VERSION, "kind": self.kind, "made": not self.path.is_dir()},
            "about": "This folder is Strata's: docs/machine.md says what is in it, how it goes.",
        }
        if not _put(self.path / MARKER, said):
            self.is_ours()  # Raises Refused where it became another kind of folder.

    def _note(self) -> None:
        name = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        entry = register() / f"{self.kind}-{name}.json"
        if not entry.exists():
            _put(entry, {"kind": self.kind, "path": str(self.path)})


def register() -> Path:
    """Where an account lists the folders that it has claimed; a reboot leaves it as it is."""
    if os.geteuid() == 0:
        return Path("/var/lib/strata.folders")
    return Path.home() / ".local/state/strata.folders"


def check_below(path: Path) -> None:
    """Raises Refused unless the path is not there, or below a name of Strata's in its cache."""
    if not os.path.lexists(path):
        return
    for folder in path.parents:
        if path.relative_to(folder).parts[0] in MADE["cache"]:
            with contextlib.suppress(Refused):
                if Folder(folder, "cache").is_ours():
                    return
    raise Refused(
        "only what is in Strata's own cache is removed",
        example="/srv/bigdisk/strata/rehearsal/strata, where /srv/bigdisk/strata is the cache",
        given=f"{path}, above which no folder has Strata's marker ({MARKER})",
        then="give the cache that was used: -e strata_cache=FOLDER",
    )


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it. Raises OSError.

    A link goes and not what it leads to; what has a file system mounted in it stays as it is.
    """
    real = _real(path)
    inside = [mount for mount in mounts() if mount == real or mount.startswith(f"{real}/")]
    if inside:
        raise OSError(errno.EBUSY, "something is mounted there", inside[0])
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def mounts() -> list[str]:
    """Where file systems are mounted. Path.is_mount misses a folder bound on its own disk."""
    lines = Path("/proc/self/mounts").read_bytes().splitlines()
    # White space in a path is written as its number in base eight.
    paths = (line.split()[1].decode("unicode_escape") for line in lines)
    return [os.fsdecode(path.encode("latin-1")) for path in paths]


def _put(path: Path, said: dict[str, Any]) -> bool:
    """Write a file that is not there, whole, and its folder; False when another was faster."""
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    while True:
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        try:
            files.write_json(aside, said)
            os.link(aside, path)
            files.sync_folder(path.parent)
        except FileExistsError:
            return False
        except FileNotFoundError:  # the folder was given back just now
            continue
        else:
            return True
        finally:
            aside.unlink(missing_ok=True)


def _noted() -> dict[Path, Folder]:
    """The folders that were claimed, by the file that says so."""
    found = {}
    for path in register().glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            said = json.loads(path.read_text())
            found[path] = Folder(Path(said["path"]), said["kind"])
    return found


def _forget() -> None:
    """Strike the folders off the list that are Strata's no more."""
    for path, folder in _noted().items():
        if not folder._marker():
            path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):  # others are listed, or none ever was
        register().rmdir()


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _is_aside(name: str) -> bool:
    return name.lstrip(".").startswith(MARKER.lstrip(".")) and name.endswith(".part")


def _real(path: Path) -> str:
    """Where it is, past the links that lead there, and not past itself."""
    return str(Path(os.path.realpath(path.parent)) / path.name)


def _existing(path: Path) -> Path:
    while not os.path.lexists(path):
        path = path.parent
    return path
