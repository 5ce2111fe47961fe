"""A testbed that is built again: its lock, what of it can be had, and what then differs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from strata import files
from strata.errors import Refused
from strata.identity import digest

from schema import documents
from schema import lock as schema
from schema.fingerprint import is_hardware, unobserved

from .results import Run, now, refusing
from .version import version

REQUIREMENTS = Path(__file__).resolve().parents[1] / "requirements"
# Of what a cluster is made, and of what its networks of pods.
BUNDLES = ("kubernetes", "calico", "cilium")
PACKAGE = "package."
ABSENT = "none"
MOST_LINES = 20


@dataclass(frozen=True)
class Seen:
    """What is known of a testbed now; of a host that is not there `hosts` says nothing."""

    images: Sequence[Mapping[str, Any]]
    runtimes: Sequence[str]
    offers: Mapping[str, Mapping[str, Any]]  # of providers, by host
    hosts: Mapping[str, Mapping[str, Any]]  # what each is and was built of, by flat keys
    names: Sequence[str]  # of all hosts
    unavailable: Mapping[str, Sequence[str]] = field(default_factory=dict)  # packages, by host


def lock(testbed: str, seen: Seen) -> dict[str, Any]:
    """The lock of a testbed, as it is written. Raises Refused."""
    document = {
        "schema": documents.SCHEMA,
        "testbed": testbed,
        "made": now(),
        "strata": version(),
        "images": [{k: i[k] for k in ("family", "kind", "digest")} for i in seen.images],
        "components": components(seen.runtimes),
        "hosts": {name: _host(seen, name) for name in sorted(seen.names)},
        "digest": "",
    }
    with refusing():
        return document | {"digest": schema.validate_lock(document).identity()}


def components(runtimes: Sequence[str], folder: Path = REQUIREMENTS) -> dict[str, str]:
    """The version of each part of a cluster and of its networks, where the testbed has one."""
    found: dict[str, str] = {}
    for bundle in BUNDLES if "kubernetes" in runtimes else ():
        text = (folder / f"{bundle}.yml").read_text()
        manifest = yaml.safe_load(text)
        found[f"{bundle}.yml"] = digest(text)[:12]
        parts = manifest.get("modules") or {}
        found |= {f"{bundle}.{name}": str(part["version"]) for name, part in parts.items()}
    return dict(sorted(found.items()))


def of(run: Run) -> schema.Lock:
    """The lock of the testbed that a run was opened on. Raises Refused."""
    path = run.folder / schema.FILE
    if not path.exists():
        raise Refused(
            "a testbed is built again from the lock of a run on it",
            example="-e strata_run=quick-20260101T000000Z",
            given=f"{run.folder.name}, which has no {schema.FILE}",
            then="name a run that has one: those of earlier versions have none",
        )
    with refusing():
        return schema.read_lock(path)


def check(locked: schema.Lock, seen: Seen) -> None:
    """Raises Refused with each line of the lock that cannot be had, as far as is known by now."""
    lines = [*_of_all(locked, seen), *_of_hosts(locked, seen)]
    if lines:
        more = len(lines) - MOST_LINES
        told = [*lines[:MOST_LINES], *([f"and {more} more"] if more > 0 else [])]
        raise Refused(
            "a testbed is built again only where all that its lock says can be had",
            given="".join(f"\n  {line}" for line in told),
            then="bring back what the lock says, or build another testbed by a new run",
        )


def _of_all(locked: schema.Lock, seen: Seen) -> list[str]:
    """What all hosts share: their names, images, and the parts of clusters."""
    there = {image["family"]: image["digest"] for image in seen.images}
    known = components(seen.runtimes)
    lines = []
    if sorted(seen.names) != sorted(locked.hosts):
        sides = (", ".join(sorted(side)) or ABSENT for side in (locked.hosts, seen.names))
        lines.append("hosts: {} locked, {} in the inventory".format(*sides))
    for image in locked.images:
        found = there.get(image.family)
        if found != image.digest:
            said = found or "none; --tags deploy builds it"
            lines.append(f"image of {image.family}: {image.digest} locked, in the cache {said}")
    for name in sorted({*locked.components, *known}):
        ours, theirs = (side.get(name, ABSENT) for side in (locked.components, known))
        if ours != theirs:
            lines.append(f"{name}: {ours} locked, {theirs} in requirements/")
    return lines


def _of_hosts(locked: schema.Lock, seen: Seen) -> list[str]:
    lines = []
    for name, host in locked.hosts.items():
        offer = seen.offers.get(name, {})
        asked = {"provider": str(offer.get("provider", "")), **_placement(offer)}
        ours = {"provider": host.provider, **host.placement}
        lines += _unlike(name, ours, asked)
        if name in seen.hosts:
            lines += _unlike(name, host.hardware, seen.hosts[name])
        lines += [
            f"{name}: package {one} locked, and no source of packages has it"
            for one in seen.unavailable.get(name, ())
        ]
    return lines


def _unlike(host: str, locked: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    return [
        f"{host}: {key}: {value} locked, {there.get(key, ABSENT)} there"
        for key, value in locked.items()
        if there.get(key) != value or unobserved(value)
    ]


def packages(locked: schema.Lock) -> dict[str, dict[str, str]]:
    """The version of each package, by host."""
    return {
        name: {
            key.removeprefix(PACKAGE): str(value)
            for key, value in host.software.items()
            if key.startswith(PACKAGE)
        }
        for name, host in locked.hosts.items()
    }


def keep(
    run: Run, seen: Seen, began: str, seconds: Mapping[str, float], instances: Mapping[str, str]
) -> schema.Rebuild:
    """Compare the testbed that was built again with its lock, and keep what came of it."""
    locked = of(run)
    with refusing():
        found = schema.validate_lock(lock(locked.testbed, seen))
        number = len(schema.read_rebuilds(run.folder)) + 1
        rebuilt = schema.Rebuild(
            schema=documents.SCHEMA,
            number=number,
            began=began,
            seconds=dict(seconds),
            locked=locked.digest,
            digest=found.digest,
            differences=schema.differences(locked, found),
            instances=dict(instances),
        )
    folder = run.folder / schema.FOLDER
    folder.mkdir(exist_ok=True)
    document = rebuilt.model_dump(mode="json", by_alias=True)
    files.write_json(folder / f"{number}.json", document)
    return rebuilt


def told(rebuilt: schema.Rebuild) -> list[str]:
    """The difference in lines for people: none, or each with its class."""
    took = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in rebuilt.seconds.items())
    head = f"rebuild {rebuilt.number} ({took}): "
    if not rebuilt.differences:
        return [f"{head}no difference: {rebuilt.digest[:12]}, as locked"]
    return [
        f"{head}{len(rebuilt.differences)} differences",
        *(
            f"{row.kind}: {row.host or 'all'}: {row.label}: {_said(row.locked)} locked, "
            f"{_said(row.found)} found"
            for row in rebuilt.differences
        ),
    ]


def _said(value: Any) -> str:
    return ABSENT if value is None else str(value)


def _host(seen: Seen, name: str) -> dict[str, Any]:
    values, offer = seen.hosts.get(name, {}), seen.offers.get(name, {})
    return {
        "provider": str(offer.get("provider", "")),
        "placement": _placement(offer),
        "hardware": {k: v for k, v in sorted(values.items()) if is_hardware(k)},
        "software": {k: v for k, v in sorted(values.items()) if not is_hardware(k)},
    }


def _placement(offer: Mapping[str, Any]) -> dict[str, Any]:
    """What the provider says that it was asked for, or else what it offers."""
    known = {"cpus": len(offer.get("cpu_ids", ())), "memory": offer.get("memory_total")}
    placed = offer.get("placement") or {key: value for key, value in known.items() if value}
    return dict(sorted(placed.items()))
