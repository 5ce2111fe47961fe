"""What a libvirt host would give, refused where it cannot. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Interface

from ...errors import Refused, nearest
from .domain import Asked, Domain, Place, name, noted
from .seen import Device, Network, Seen

ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
OWN_MIB = 512  # what the libvirt host needs itself


@dataclass(frozen=True)
class Offer:
    """What a testbed asks of a libvirt host that was looked at."""

    seen: Seen
    place: Place
    asked: Mapping[str, Asked]

    @property
    def there(self) -> dict[str, Domain]:
        """The machines that are there, by host."""
        found = {domain.name: domain for domain in self.seen.domains}
        names = {host: name(self.place.testbed, host) for host in self.asked}
        return {host: found[own] for host, own in names.items() if own in found}

    @property
    def others(self) -> list[Domain]:
        """Machines that run there and are not asked for."""
        mine = {domain.name for domain in self.there.values()}
        return [one for one in self.seen.domains if one.running and one.name not in mine]

    def check(self) -> None:
        """Raises Refused for what cannot be had, or is there and is something else."""
        for host, asked in self.asked.items():
            check_network(host, asked, self.place.network, self.seen.networks)
            check_pins(host, asked, self.seen.cpus)
            if asked.device:
                check_device(host, asked.device, self.seen.devices)
        for host, domain in self.there.items():
            check_same(host, domain, self.place, self.asked[host])
        self._check_size()
        self._check_pins_apart()
        self._check_devices_apart()

    def _check_size(self) -> None:
        """One CPU for each virtual one that runs: a machine that waits for another measures that.

        Memory is what those take that do not run yet.
        """
        have, others = len(self.seen.cpus), sum(one.vcpus for one in self.others)
        wanted = sum(asked.vcpus for asked in self.asked.values())
        if wanted + others > have:
            raise Refused(
                "the libvirt host has a CPU for each virtual one that runs there",
                given=f"{wanted} asked and {others} of other machines; it has {have}",
                then="set libvirt_vcpus lower, make fewer hosts, or shut other machines down",
            )
        running = {host for host, domain in self.there.items() if domain.running}
        memory = sum(one.memory for host, one in self.asked.items() if host not in running)
        if memory and memory + OWN_MIB > self.seen.memory:
            raise Refused(
                "the libvirt host has the memory of its machines, and some of its own",
                given=f"{memory} MiB asked and {OWN_MIB} for itself; {self.seen.memory} are left",
                then="set libvirt_memory lower, make fewer hosts, or shut other machines down",
            )

    def _check_pins_apart(self) -> None:
        taken = {cpu: one.name for one in self.others for cpu in one.cpus}
        for host, asked in self.asked.items():
            for cpu in asked.cpus:
                if cpu in taken:
                    raise Refused(
                        "a CPU of the libvirt host is given to one machine",
                        given=f"{host}: libvirt_cpus has {cpu}, which {taken[cpu]} has",
                        then="give it others",
                    )
                taken[cpu] = host

    def _check_devices_apart(self) -> None:
        taken = {device: one.name for one in self.others for device in one.devices}
        for host, asked in self.asked.items():
            if asked.device in taken:
                raise Refused(
                    "a device is passed through to one machine",
                    given=f"{host}: {asked.device}, which {taken[asked.device]} has",
                    then="give it another one, or shut that machine down",
                )
            if asked.device:
                taken[asked.device] = host


def choose(given: str, offered: Iterable[str]) -> str:
    """What runs the machines: what is given, or else KVM where libvirt has it. Raises Refused."""
    offered = sorted(offered)
    if not offered or (given and given not in offered):
        raise Refused(
            "libvirt on its host can run machines of x86_64, by KVM or by interpreting them",
            example="libvirt_accelerator: tcg",
            given=f"libvirt_accelerator: {given or 'nothing'}; it has {offered or 'none'}",
            then="install qemu-system-x86 there, load the kernel's module kvm_intel or kvm_amd, "
            "or ask for what it has",
        )
    return given or offered[0]


def check_network(host: str, asked: Asked, link: str, known: Mapping[str, Network]) -> None:
    """Raises Refused unless a host has a network, and an address there that is known."""
    if link not in known:
        raise Refused(
            "the libvirt host has the network of its machines: one of libvirt's, or a bridge",
            example="libvirt_network: default",
            given=f"libvirt_network: {link}",
            then=nearest(link, known) if known else "make one: virsh net-define",
        )
    if not known[link].active:
        raise Refused(
            "the network of the machines is up",
            given=f"libvirt_network: {link}, which is not active",
            then=f"start it: virsh net-start {link}",
        )
    if asked.address:
        _check_address(host, asked.address)
    elif not known[link].tells_addresses:
        raise Refused(
            "a machine is given its address where libvirt does not give it one",
            example="libvirt_address: 10.78.0.11/24",
            given=f"{host}: on {link}, which has no DHCP of libvirt's",
            then="set libvirt_address at the host, and libvirt_gateway where it needs one",
        )


def _check_address(host: str, address: str) -> None:
    try:
        IPv4Interface(address)
        good = "/" in address
    except ValueError:
        good = False
    if not good:
        raise Refused(
            "an address has its prefix",
            example="libvirt_address: 10.78.0.11/24",
            given=f"{host}: libvirt_address: {address}",
        )


def check_pins(host: str, asked: Asked, cpus: frozenset[int]) -> None:
    """Raises Refused unless each virtual CPU has one of the host's for its own, or none has."""
    wrong = asked.cpus and (len(set(asked.cpus)) != asked.vcpus or len(asked.cpus) != asked.vcpus)
    missing = sorted(set(asked.cpus) - cpus)
    if wrong or missing:
        has = f"the libvirt host has no {missing}" if missing else f"{asked.vcpus} virtual ones"
        raise Refused(
            "libvirt_cpus names one CPU of the libvirt host for each virtual one",
            example="libvirt_vcpus: 2, libvirt_cpus: [2, 3]",
            given=f"{host}: libvirt_cpus: {list(asked.cpus)}; {has}",
            then="lscpu --extended on the libvirt host shows its CPUs",
        )


def check_device(host: str, address: str, known: Mapping[str, Device]) -> None:
    """Raises Refused unless a device can be taken from the libvirt host."""
    what = known.get(address)
    if not ADDRESS.fullmatch(address) or what is None:
        raise Refused(
            "a device that is passed through is named by its address on the libvirt host",
            example='libvirt_device: "0000:3b:00.0"',
            given=f"{host}: libvirt_device: {address}, which is not there",
            then="lspci -D on the libvirt host shows the addresses",
        )
    reasons = {
        "it leads to other devices": what.bridge,
        "the IOMMU of the libvirt host is off: it has no group": not what.group,
        f"the host uses {', '.join(what.beside)} of its IOMMU group": what.beside,
    }
    why = next((reason for reason, holds in reasons.items() if holds), "")
    if why:
        raise Refused(
            "a device that is passed through can be taken from the libvirt host",
            given=f"{host}: libvirt_device: {address} ({what.ids}): {why}",
            then="name another device; intel_iommu=on or amd_iommu=on on the kernel's command line "
            "switches the IOMMU on; what is in one group goes together: bind the rest to vfio-pci",
        )


def check_same(host: str, there: Domain, place: Place, asked: Asked) -> None:
    """Raises Refused where a machine that is there is not what is asked."""
    wanted, found = noted(place, asked), there.asked
    if there.testbed != place.testbed or found != wanted:
        differ = [key for key in wanted if wanted[key] != found.get(key)]
        said = "; ".join(f"{key} {wanted[key]!r}, it has {found.get(key)!r}" for key in differ)
        raise Refused(
            "a machine that is there is what the inventory asks, as none is changed",
            given=f"{host}: {said or f'{there.name} was not made by Strata'}",
            then="take the testbed down first (playbooks/teardown.yml), or ask for what is there",
        )
