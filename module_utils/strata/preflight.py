"""What is checked of hosts and data once hosts have answered, before anything is touched."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from . import dataset, lease, units
from .errors import Refused
from .experiment import Experiment, Generate, resolve_options

# The image unpacked and in Docker's store, its archive, its base, and room to work.
IMAGE_DISK = 8 * 2**30
SPARE_DISK = 1 * 2**30


def why_no_docker(facts: dict[str, Any], image_kind: str) -> str:
    """Why Docker cannot be had on a host, or ''. `facts` are of strata_host."""
    if image_kind == "venv":
        return "the workload image is a virtual environment, as Strata runs without root"
    return str(facts["docker"]["why_not"])


def check_disk(name: str, facts: dict[str, Any]) -> None:
    """Raises Refused when the host has no room for the image."""
    needed = SPARE_DISK if facts["images"] else IMAGE_DISK
    if facts["disk_free"] < needed:
        raise Refused(
            f"{name} has too little disk space for the workload image",
            given=f"{units.bytes_text(facts['disk_free'])} free, {units.bytes_text(needed)} needed",
            then="free some, or name a new folder on a larger file system: "
            "-e strata_state_dir=/srv/bigdisk/strata",
        )


def check_state(name: str, facts: dict[str, Any]) -> None:
    """Raises Refused when the state folder on the host is neither Strata's nor free."""
    said = facts["state_dir"]["refused"]
    if said:
        parts = {part: said[part] for part in ("example", "given", "then")}
        raise Refused(f"{name}: {said['rule']}", **parts)


def check_addresses(slots: list[list[str]], addresses: dict[str, str]) -> None:
    """Raises Refused unless the hosts of each slot can be told apart and reached by their peers."""
    for hosts in slots:
        known = [addresses[host] for host in hosts]
        if len(hosts) > 1 and (not all(known) or len(set(known)) < len(known)):
            raise Refused(
                "hosts that train together need an address each, at which they reach each other",
                example="strata_address: 10.0.0.11",
                given=", ".join(f"{host}: {addresses[host] or 'none'}" for host in hosts),
                then="set strata_address for each of them in the inventory",
            )


def stale_lease(
    name: str, facts: dict[str, Any], controller: dict[str, Any], wait: bool = False
) -> bool:
    """Whether a host's lease may be broken: its controller was this machine, and is dead.

    Raises Refused when another run holds the host; but with `wait` not one that builds on it,
    which is waited for when the lease is taken.
    """
    held = facts.get("lease") or {}
    if not held or lease.same(held["holder"], controller):
        return False
    if lease.dead(held["holder"]):
        return True
    if wait and held.get("use") == lease.BUILD:
        return False
    raise lease.Held(held, host=name)


def check_one_name(facts: dict[str, dict[str, Any]]) -> None:
    """Raises Refused where two names of the inventory lead to one machine."""
    names: dict[str, str] = {}
    for name, answers in facts.items():
        other = names.setdefault(answers["machine"], name)
        if other != name:
            raise Refused(
                "each host has one name in the inventory",
                given=f"{other} and {name} are one machine, {answers['address']}",
                then=f"leave one of them out, or -i … --limit '!{name}'",
            )


def check_root(name: str, facts: dict[str, Any], image_kind: str) -> None:
    """Raises Refused where the modules need root on a host and do not have it."""
    if image_kind != "venv" and not facts["root"]:
        raise Refused(
            f"on {name} Strata needs root: to unpack the workload image, and to change into it",
            example="ansible_become: true",
            given=f"an ordinary account there, and strata_image_kind: {image_kind}",
            then="set ansible_become in the inventory's group_vars/all.yml, with sudo on the host",
        )


def dataset_of(experiment: Experiment, given: str) -> dict[str, Any] | None:
    """The dataset to use: the folder given by the user, or the experiment's. Raises Refused.

    `generate` has all options of its workload, and `key` names its folder.
    """
    if given:
        name = re.sub(r"[^a-z0-9._-]+", "-", Path(given).name.lower()).strip("-.") or "given"
        return _dataset(name, given, None)
    asked = experiment.dataset
    if asked is None:
        return None
    if (asked.path is None) == (asked.generate is None):
        raise Refused(
            "a dataset has a path, or is to be generated",
            example="dataset: {name: made, generate: {images: 1024}}",
            given=f"dataset {asked.name}, with {'neither' if asked.path is None else 'both'}",
        )
    return _dataset(asked.name, asked.path, asked.generate)


def _dataset(name: str, path: str | None, generate: Generate | None) -> dict[str, Any]:
    asked = None
    if path is not None:
        if not Path(path).is_absolute():
            raise Refused(
                "a dataset's folder is named from the root of the file system",
                example="-e strata_dataset=/data/flowers",
                given=path,
                then=f"did you mean {Path(path).expanduser().absolute()}?",
            )
        dataset.listing(Path(path))
    elif generate is not None:
        options = resolve_options(generate.workload, generate.options)
        asked = {"workload": generate.workload, "options": options}
    return {"name": name, "path": path, "generate": asked, "key": dataset.key(name, asked)}
