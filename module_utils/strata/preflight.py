"""What the run stage will need of settings, data and hosts, checked before anything is touched."""

from __future__ import annotations

import ipaddress
import os
import re
from pathlib import Path
from typing import Any

from . import dataset, lease, units
from .errors import Refused
from .experiment import Experiment

# The image unpacked and in Docker's store, its archive, its base, and room to work.
IMAGE_DISK = 8 * 2**30
SPARE_DISK = 1 * 2**30
HOST_NAME = r"[A-Za-z0-9_:][A-Za-z0-9.:%_-]{0,199}"


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
            then="free some, or set strata_state_dir to a larger file system",
        )


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


def stale_lease(name: str, facts: dict[str, Any], controller: dict[str, Any]) -> bool:
    """Whether a host's lease may be broken: its controller was this machine, and is dead.

    Raises Refused when another run holds the host.
    """
    held = facts.get("lease") or {}
    if not held or held["holder"] == controller:
        return False
    holder = held["holder"]
    if lease.dead(holder):
        return True
    raise Refused(
        f"{name} is held by another run",
        given=f"run {held['run']}, controller {holder['host']} process {holder['pid']}, "
        f"since {held['since']}",
        then="wait for its end, or end it; its lease then goes by itself",
    )


def check_host(name: str, address: Any) -> None:
    """A host's name becomes a file's; its strata_address is one. Raises Refused."""
    if not re.fullmatch(HOST_NAME, name):
        raise Refused(
            "a host's name is at most 200 letters, digits and .:%_-",
            example="node1.example.org",
            given=repr(name[:220]),
            then="give the host another name in the inventory, and its address as ansible_host",
        )
    if address is not None and not _is_address(str(address)):
        raise Refused(
            f"{name}: strata_address is the IPv4 address at which its peers reach it",
            example="strata_address: 10.0.0.11",
            given=f"strata_address: {address!r}"[:200],
        )


def _is_address(text: str) -> bool:
    try:
        found = ipaddress.IPv4Address(text)
    except ValueError:
        return False
    return not (found.is_multicast or found.is_unspecified)


def check_results(folder: Path) -> None:
    """Raises Refused unless the folder of all results is there, or can be made, and written to."""
    why = _why_not_writable(folder.absolute())
    if why:
        raise Refused(
            "the folder of all results can be made, and written to",
            example="-e strata_results=~/results",
            given=f"{folder}: {why}",
            then="give another folder with -e strata_results=FOLDER",
        )


def _why_not_writable(folder: Path) -> str:
    """Why files cannot be put there, or ''; asked of the nearest parent that is there."""
    for there in (folder, *folder.parents):
        try:
            there.lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"{there}: {error.strerror}"
        if not there.is_dir():
            return f"{there} is no folder"
        may = os.access(there, os.W_OK | os.X_OK, effective_ids=True)
        return "" if may else f"this account may not write to {there}"
    return ""


def check_image(image: dict[str, Any]) -> None:
    """Raises Refused where what the image is made from is not said."""
    if image["kind"] == "oci" and not str(image["reference"]).strip():
        raise Refused(
            "an image of the kind oci is taken from a reference",
            example="-e strata_image_reference=docker.io/library/python:3.11-slim-bookworm",
            given="strata_image_kind: oci, and no strata_image_reference",
        )


def check_attempts(attempts: int) -> None:
    """Raises Refused unless a trial is tried at least once."""
    if attempts < 1:
        raise Refused(
            "a trial is tried at least once",
            example="-e strata_attempts=2",
            given=f"strata_attempts: {attempts}",
        )


def dataset_of(experiment: Experiment, given: str) -> dict[str, Any] | None:
    """The dataset to use: the folder given by the user, or the experiment's. Raises Refused."""
    if given:
        name = re.sub(r"[^a-z0-9._-]+", "-", Path(given).name.lower())[:64].strip("-.") or "given"
        dataset.listing(Path(given))
        return {"name": name, "path": given, "generate": None}
    asked = experiment.dataset
    if asked is None:
        return None
    if asked.path is not None:
        dataset.listing(Path(asked.path))
    elif asked.generate is None:
        raise Refused(
            "a dataset has a path, or is to be generated",
            example="dataset: {name: made, generate: {images: 1024}}",
            given=f"dataset: {{name: {asked.name}}}",
        )
    return asked.model_dump()
