"""The runtimes: ways to start a program on a host, each a module or package of this folder.

All that is special to a runtime stands in its own: how it runs a program, what it tells of a host,
what of it can be left over, how it holds the image, and its keys of a host's fingerprint. To add
one is to write what `Package` lists, and to name it in `known`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol, cast

from ..errors import Refused, nearest
from ..fields import Field
from . import apptainer, docker, kubernetes, native
from .base import Runtime, Spec


class Store(Protocol):
    """How a runtime holds the image of one family on a host.

    One that takes no archive has `carries = False`; all others leave it out.
    """

    def holds(self) -> bool:
        """Whether it has the image, proven by its digest."""

    def load(self, tar: Path) -> None:
        """Take the image from its archive, and prove it. Raises Refused."""

    def uses(self) -> list[str]:
        """What must be kept for a run that uses the image."""

    def others(self) -> list[str]:
        """Other images of the family that it has."""

    def remove(self, other: str) -> None:
        """Remove one of them."""


class Package(Protocol):
    """What the module or package of a runtime gives; nothing of it needs the runtime installed."""

    FIELDS: dict[str, Field]  # its keys of a fingerprint
    DAEMONS: tuple[str, ...]  # names of the processes that it runs on a host beside programs
    # PINS: False where the host chooses the CPUs that a program has of its own; all others leave it
    # out

    def make(self, spec: Spec) -> Runtime:
        """The runtime for one program."""

    def store(self, state_dir: Path, family: str, content: str) -> Store:
        """Where it holds the image of a family with that digest; '' and '' stand for all images."""

    def facts(self) -> dict[str, Any]:
        """What it tells of this host before anything is touched."""

    def why_not(self, facts: dict[str, Any], image_kind: str) -> str:
        """Why it cannot be had on the host that told these facts, or ''. For the controller."""

    def fingerprint(self) -> dict[str, Any]:
        """Those of `FIELDS` that this host has."""

    def leftovers(self) -> list[str]:
        """Remove what killed trials have left, and name it. Only under the host's lease."""

    def found(self) -> dict[str, list[str]]:
        """Everything of Strata's that it has on this host, by kind."""

    def remove(self) -> None:
        """Remove all of that."""


def known() -> dict[str, Package]:
    """Every runtime by its name, which is that of its role and its inventory group, too."""
    return {
        "native": cast(Package, native),
        "docker": cast(Package, docker),
        "apptainer": cast(Package, apptainer),
        "kubernetes": cast(Package, kubernetes),
    }


def get(name: str) -> Package:
    """The runtime of that name. Raises Refused when there is none."""
    if name not in known():
        raise Refused(
            "a runtime must be one that Strata knows",
            example=next(iter(known())),
            given=name,
            then=nearest(name, list(known())),
        )
    return known()[name]


def make(name: str, spec: Spec) -> Runtime:
    """The runtime `name` for one program. Raises Refused when there is none of that name."""
    return get(name).make(spec)


def leftovers() -> list[str]:
    """Remove what killed trials have left, and name it. Only under the host's lease."""
    return [what for package in known().values() for what in package.leftovers()]


def facts() -> dict[str, dict[str, Any]]:
    """What each runtime tells of this host, by its name."""
    return {name: package.facts() for name, package in known().items()}


def fingerprint() -> dict[str, Any]:
    """What the runtimes add to the fingerprint of this host."""
    parts = (package.fingerprint() for package in known().values())
    return {key: value for part in parts for key, value in part.items()}


def found() -> dict[str, list[str]]:
    """Everything of Strata's that the runtimes have on this host, by kind."""
    parts = (package.found() for package in known().values())
    return {kind: names for part in parts for kind, names in part.items()}


def remove() -> None:
    """Remove all of that."""
    for package in known().values():
        package.remove()


def fields() -> dict[str, Field]:
    """What those keys mean."""
    parts = (package.FIELDS for package in known().values())
    return {key: field for part in parts for key, field in part.items()}


def pins(name: str) -> bool:
    """Whether the runtime of that name holds a program to the CPUs that it is given.

    Where not, they are as many, and which is the host's to say. Raises Refused.
    """
    return bool(getattr(get(name), "PINS", True))


def daemons() -> set[str]:
    """The names of the processes that any runtime runs on a host beside programs."""
    return {name for package in known().values() for name in package.DAEMONS}
