"""Runtime `docker`: a program runs in a container of the image's import.

The SDK is imported only where containers, networks and images are made or removed: a host that
lacks it has none of them, and a deploy that changes nothing need not wait for the import.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..base import Runtime, Spec, Unavailable
from .engine import DAEMONS, FIELDS, facts, fingerprint
from .images import DockerImage

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


def make(spec: Spec) -> Runtime:
    """The container for one program."""
    try:
        from .container import Docker  # noqa: PLC0415 - see above
    except ImportError as error:
        return Unavailable(f"the modules' Python on this host lacks Docker's SDK: {error}")
    return Docker(spec)


def store(state_dir: Path, family: str, content: str) -> DockerImage:
    """The image in the engine, which has a folder of its own."""
    del state_dir
    return DockerImage(family, content)


def why_not(facts: dict[str, Any], image_kind: str) -> str:
    """Why there can be no engine on the host that told these facts, or ''."""
    if image_kind == "venv":
        return "the workload image is a virtual environment, as Strata runs without root"
    return str(facts["why_not"])


def leftovers() -> list[str]:
    """Remove the containers and networks of killed trials, and name them."""
    try:
        from .container import leftovers as removed  # noqa: PLC0415 - see above
    except ImportError:
        return []
    return removed()


def found() -> dict[str, list[str]]:
    """Containers of trials and workload images in the engine."""
    try:
        from .container import everything  # noqa: PLC0415 - see above
    except ImportError:
        return {}
    return everything()


def remove() -> None:
    """Remove all of that. The engine itself stays: others may use it."""
    leftovers()
    for tag in found().get("images", []):
        DockerImage("", "").remove(tag)
