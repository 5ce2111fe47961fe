"""The image families: which workloads share one root filesystem, and what is in it.

A workload names its family, or has several, and its option `framework` says which. A family is a
file, `requirements/images/NAME.yml`, and where it has packages of Python their lock beside it,
`NAME.txt`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError
from strata import units
from strata.cell import Levels
from strata.errors import Refused
from strata.image.build import Source

import workloads

from . import strict_yaml

FRAMEWORK = "framework"  # the option whose level is a family
FOLDER = Path(__file__).resolve().parents[1] / "requirements/images"


class Declared(BaseModel):
    """The file of a family."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    disk: str  # what a host needs for it: unpacked, in a runtime's store, and its archive
    packages: list[str] = []  # of the distribution, beside Python
    without: list[str] = []  # paths below the packages of Python that are left out
    cpu: dict[str, list[str]] = {}  # flags that its programs are built for, by machine


@dataclass(frozen=True)
class Family:
    """A family as it was declared; `lock` pins its packages of Python, and is None without any."""

    name: str
    disk: int  # bytes
    packages: list[str]
    without: list[str]
    lock: Path | None
    cpu: dict[str, list[str]] = field(default_factory=dict)  # what a host's must be able to do

    def document(self) -> dict[str, Any]:
        """As the module strata_image_build takes it."""
        lock = str(self.lock) if self.lock else None
        return {
            **{"name": self.name, "packages": self.packages},
            **{"without": self.without, "lock": lock},
        }


def of(workload: str, options: Levels) -> str:
    """The name of the family that a workload with these options is in."""
    return str(options.get(FRAMEWORK, workloads.workload(workload).FAMILY))


def load(name: str, folder: Path = FOLDER) -> Family:
    """The family of that name. Raises Refused where it is not declared, or not soundly."""
    path, lock = folder / f"{name}.yml", folder / f"{name}.txt"
    if not path.is_file():
        known = ", ".join(sorted(one.stem for one in folder.glob("*.yml")))
        raise Refused(
            "an image family is declared in a file of its name",
            example=f"disk: 1G in {path}",
            given=f"the family {name!r}; declared are {known}",
            then="write the file, or let the workload name one of these as its FAMILY",
        )
    try:
        found = Declared.model_validate(strict_yaml.read(path, "image family"))
    except ValidationError as error:
        first = error.errors()[0]
        raise Refused(
            f"{path.name}: {'.'.join(map(str, first['loc']))}: {first['msg']}",
            example="disk: 1G and packages: [iperf3]",
            given=repr(first["input"])[:200],
        ) from error
    size = units.size(found.disk)
    pinned = lock if lock.is_file() else None
    return Family(name, size, found.packages, found.without, pinned, found.cpu)


def source(family: Family, image: dict[str, Any]) -> Source:
    """All that decides what is in the image of a family; `image` has the user's settings.

    Raises Refused where these are not enough for it.
    """
    return Source(
        family=family.name,
        kind=image["kind"],
        suite=image["suite"],
        packages=family.packages,
        without=family.without,
        lock=family.lock,
        workloads=Path(image["workloads"]),
        reference=image["reference"],
    )


def check(names: Iterable[str], image: dict[str, Any]) -> None:
    """Raises Refused where an image that the user gives would stand for several families."""
    several = sorted(names)
    if image["kind"] == "oci" and len(several) > 1:
        raise Refused(
            "an OCI image takes the place of one image family",
            example="-e strata_image_kind=rootfs, which makes an image for each",
            given=f"{image['reference']}, for workloads of {', '.join(several)}",
            then="leave strata_image_kind out, or run an experiment whose workloads share a family",
        )
