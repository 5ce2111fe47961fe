"""Makes, in the cache, what several of the tests' machines need: each gets it by links.

python -m tests.kept
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from strata.image.build import Builder
from strata.providers.rehearsal.base import Base

from controller import families

REPO = Path(__file__).parent.parent
CACHE = REPO / ".cache"
# As the roles have them by default; another value would only be made again.
IMAGE = {"kind": "rootfs", "suite": "bookworm", "workloads": REPO / "workloads", "reference": ""}


def image(family: str) -> None:
    """The image of a family of workloads. Raises Refused."""
    Builder(families.source(families.load(family), IMAGE), CACHE).build()


def base() -> None:
    """The base image of a rehearsal lab's nodes. Raises Refused."""
    role = REPO / "roles/rehearsal"
    given = yaml.safe_load((role / "defaults/main.yml").read_text())
    made = {name: given[f"rehearsal_{name}"] for name in ("suite", "packages")}
    cached = given["rehearsal_cached_packages"]
    Base(**made, cached=cached, files=role / "files").keep(CACHE)


def main() -> None:
    with ThreadPoolExecutor() as makers:
        each = [makers.submit(image, "tensorflow"), makers.submit(base)]
        each += [makers.submit(image, name) for name in ("python", "tools")]
        for one in each:
            one.result()


if __name__ == "__main__":
    main()
