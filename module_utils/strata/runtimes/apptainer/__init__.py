"""Runtime `apptainer`: an account without rights starts the program from the image's SIF.

As on sites where nobody but the administrator is root: Apptainer makes a user namespace, mounts the
SIF through FUSE in it, and becomes the program. Where there is no FUSE it starts the program from
the unpacked image, which it calls a sandbox.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...host import owned
from ...image.rootfs import Rootfs
from ..base import Runtime, Spec, Unavailable
from . import installation
from .container import Apptainer
from .images import Sif
from .installation import FIELDS, facts, fingerprint

__all__ = [
    "DAEMONS",
    "FIELDS",
    "facts",
    "fingerprint",
    "found",
    "leftovers",
    "make",
    "remove",
    "store",
    "why_not",
]

# All that it runs is in the control group of the trial.
DAEMONS: tuple[str, ...] = ()


def make(spec: Spec) -> Runtime:
    """The container for one program."""
    program = installation.program()
    if program is None:
        return Unavailable("Apptainer is not installed on this host")
    return Apptainer(spec, program)


def store(state_dir: Path, family: str, content: str) -> Rootfs:
    """The SIF below the state folder; without FUSE the unpacked image, where `native` has it."""
    if installation.mounts_images():
        return Sif(state_dir / "apptainer", family, content)
    return Rootfs(state_dir / "images", family, content)


def why_not(facts: dict[str, Any], image_kind: str) -> str:
    """Why it cannot be had on the host that told these facts, or ''."""
    if image_kind == "venv":
        return "the workload image is a virtual environment, as Strata runs without root"
    return str(facts["why_not"])


def leftovers() -> list[str]:
    """Nothing: its mounts go with its processes, and these with the control group of the trial."""
    return []


def found() -> dict[str, list[str]]:
    """What the role has put here where the distribution had no Apptainer."""
    built = installation.BUILT
    return {"Apptainer": [str(built)] if built.is_dir() else []}


def remove() -> None:
    """Remove that. A package of the distribution stays: others may use it."""
    owned.remove(installation.BUILT)
