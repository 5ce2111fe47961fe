"""What the run stage will need of settings, data and hosts, checked before anything is touched."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from strata import units
from strata.errors import Refused
from strata.image import dataset

from . import families
from .experiment import Experiment, resolve_options
from .families import Family
from .placing import Host

SPARE_DISK = 1 * 2**30  # beside the images: room to work
HOST_NAME = r"[A-Za-z0-9_:][A-Za-z0-9.:%_-]{0,199}"


def check_disk(name: str, facts: dict[str, Any], needed: Iterable[Family]) -> None:
    """Raises Refused when the host has no room for the images that it does not have yet."""
    if facts.get("networks"):
        return  # its cluster pulls them, to where it has room
    held = {image.rpartition("-")[0] for image in facts["images"]}
    needs = SPARE_DISK + sum(family.disk for family in needed if family.name not in held)
    if facts["disk_free"] < needs:
        raise Refused(
            f"{name} has too little disk space for the images of the workloads",
            given=f"{units.bytes_text(facts['disk_free'])} free, {units.bytes_text(needs)} needed",
            then="free some, or name a new folder on a larger file system: "
            "-e strata_state_dir=/srv/bigdisk/strata",
        )


def check_cpu(name: str, facts: dict[str, Any], needed: Iterable[Family], image_kind: str) -> None:
    """Raises Refused when the host's CPU lacks what a family's programs are built for."""
    if image_kind == "oci":
        return  # the user's own image, whose programs may be built for another
    cpu = facts["cpu"]
    for family in needed:
        missing = [flag for flag in family.cpu.get(cpu["machine"], []) if flag not in cpu["flags"]]
        if missing:
            raise Refused(
                f"{name} has no CPU for the programs of the image family {family.name}",
                example=f"flags: … {' '.join(family.cpu[cpu['machine']])} … in its /proc/cpuinfo",
                given=f"a CPU without {', '.join(missing)}",
                then="let its virtual machine have what the CPU below can do "
                "(libvirt: host-passthrough), or leave the host out",
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


def check_data(needed: bool, hosts: Iterable[Host]) -> None:
    """Raises Refused where real data is read on hosts of which programs see no disk."""
    cut_off = [host.name for host in hosts if host.networks is not None]
    if needed and cut_off:
        raise Refused(
            "pods of a cluster that exists see nothing of a host's disk, and so no real data",
            example="data: synthetic",
            given=f"data: real, on {', '.join(cut_off)}",
            then="leave these hosts out, or the level real",
        )


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
    if image_kind != "venv" and not (facts["root"] or facts.get("networks")):
        raise Refused(
            f"on {name} Strata needs root: to unpack the workload image, and to change into it",
            example="ansible_become: true",
            given=f"an ordinary account there, and strata_image_kind: {image_kind}",
            then="set ansible_become in the inventory's group_vars/all.yml, with sudo on the host",
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


def check_attempts(attempts: int) -> None:
    """Raises Refused unless a trial is tried at least once."""
    if attempts < 1:
        raise Refused(
            "a trial is tried at least once",
            example="-e strata_attempts=2",
            given=f"strata_attempts: {attempts}",
        )


def dataset_of(experiment: Experiment, given: str, beside: Path) -> dict[str, Any] | None:
    """The dataset to use: the folder given by the user, or the experiment's. Raises Refused.

    A relative folder of the user's begins where the command was given; the experiment's, at
    `beside`, the folder of its file. `generate` has all options of its workload, `family`
    says whose image makes it, and `key` names the dataset's folder.
    """
    if given:
        folder = Path(given).expanduser().absolute()
        name = re.sub(r"[^a-z0-9._-]+", "-", folder.name.lower())[:64].strip("-.") or "given"
        return _given(name, folder)
    asked = experiment.dataset
    if asked is None:
        return None
    if asked.path is not None and asked.generate is None:
        return _given(asked.name, beside.absolute() / Path(asked.path).expanduser())
    if asked.path is None and asked.generate is not None:
        options = resolve_options(asked.generate.workload, asked.generate.options)
        made = {"workload": asked.generate.workload, "options": options}
        key, family = dataset.key(asked.name, made), families.of(asked.generate.workload, options)
        return {
            **{"name": asked.name, "path": None, "generate": made, "key": key},
            "family": family,
        }
    raise Refused(
        "a dataset has a path, or is to be generated",
        example="dataset: {name: made, generate: {images: 1024}}",
        given=f"dataset {asked.name}, with {'neither' if asked.path is None else 'both'}",
    )


def _given(name: str, folder: Path) -> dict[str, Any]:
    dataset.listing(folder)
    key = dataset.key(name, None)
    return {"name": name, "path": str(folder), "generate": None, "key": key, "family": None}
