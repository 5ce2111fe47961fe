"""How a program is started on a host. Each runtime is a class in a file of its own.

The interface is six methods. Whatever happens, `remove` is called last and leaves nothing.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from ..errors import Refused, nearest
from ..host.counters import Counters
from ..networks import NETWORKS
from .base import Runtime, Spec, Unavailable


def make(name: str, spec: Spec) -> Runtime:
    """The runtime called `name` for one program. Raises Refused when there is none of that name."""
    if name == "native":
        from .native import Native  # noqa: PLC0415 - a host needs only what it runs

        return Native(spec)
    if name == "docker":
        try:
            from .docker.container import Docker  # noqa: PLC0415
        except ImportError as error:
            return Unavailable(f"the modules' Python on this host lacks Docker's SDK: {error}")
        return Docker(spec)
    raise Refused(
        "a runtime must be one that Strata knows",
        example=next(iter(NETWORKS)),
        given=name,
        then=nearest(name, list(NETWORKS)),
    )


def leftovers() -> list[str]:
    """Remove what a killed trial left behind, and name it. Only under the host's lease."""
    from . import native  # noqa: PLC0415 - see above

    found = native.leftovers()
    # A host without the SDK has started no container.
    with contextlib.suppress(ImportError):
        from .docker import container  # noqa: PLC0415

        found += container.leftovers()
    return found
