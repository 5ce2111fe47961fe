"""What a user may set: the arguments of the roles. A setting that nobody reads is refused.

Runs on the controller only (PyYAML).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import yaml
from strata.errors import Refused, nearest

ROLES = Path(__file__).resolve().parents[1] / "roles"
# Names that begin as a role does are Strata's; but with these words many inventories have some.
ANYBODYS = ("dataset", "docker", "kubernetes", "lease")
# What is set for one host, in the inventory, and is no role's argument.
OF_A_HOST = ("strata_address", "strata_provider")


def known(roles: Path = ROLES) -> list[str]:
    """Every setting that there is."""
    found = set(OF_A_HOST)
    for path in roles.glob("*/meta/argument_specs.yml"):
        specs = yaml.safe_load(path.read_text())["argument_specs"]
        found |= {name for spec in specs.values() for name in spec["options"]}
    return sorted(found)


def prefixes(roles: Path = ROLES) -> tuple[str, ...]:
    """What the name of a variable begins with that is Strata's."""
    names = (path.name for path in roles.iterdir() if path.is_dir())
    return tuple(sorted(f"{name}_" for name in names if name not in ANYBODYS))


def check(given: Iterable[str]) -> None:
    """Raises Refused for the name of a variable that is Strata's and that nothing reads."""
    names, ours = known(), prefixes()
    unknown = sorted(name for name in given if name.startswith(ours) and name not in names)
    if unknown:
        raise Refused(
            f"there is no setting {unknown[0]!r}",
            example="-e strata_slice=smoke",
            given=", ".join(unknown),
            then=nearest(unknown[0], (name for name in names if name.startswith(ours))),
        )
