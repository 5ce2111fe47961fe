"""A root filesystem of the distribution, as its own tool makes it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol


class Run(Protocol):
    def __call__(self, command: list[str], **environment: str) -> None:
        """Run a program to its end. Raises Refused with what it said if it fails."""


def bootstrap(
    run: Run,
    suite: str,
    packages: Iterable[str],
    archive: Path,
    *options: str,
    sources: Iterable[str] = (),
    **environment: str,
) -> None:
    """Make a small system of that release with the packages, as a tar. Raises Refused.

    `sources` are a mirror or lines of sources.list, none for the usual mirrors.
    """
    include = f"--include={','.join(packages)}"
    command = ["mmdebstrap", "--variant=minbase", include, *options, suite, str(archive)]
    run([*command, *sources], **environment)
