"""What a cloud says of a server that it did not make, and what to do about it. Pure."""

from __future__ import annotations

import re

from ...errors import Refused

# A pattern in Nova's words, the rule in ours, and the next step.
CAUSES = (
    # Nova says both sentences where Placement knew hosts, and a filter has left none of them.
    (
        r"No valid host was found\. There are not enough hosts available",
        "a filter of the scheduler leaves a host of the cloud to the server",
        "{filters}; the log of nova-scheduler says which one returned 0 hosts",
    ),
    (
        r"No valid host was found",
        "Placement knows a host with the CPUs, memory and disk that the server asks",
        "compare what it asks with what is free: openstack hypervisor list --long",
    ),
    (
        r"Exhausted all hosts|Exceeded maximum number of retries",
        "a host of the cloud begins the server that was put on it",
        "look at the log of nova-compute there for this server",
    ),
    (
        r"PCI alias (?P<word>\S+) is not defined",
        "the cloud has a PCI alias of that name, in [pci]alias of nova.conf",
        "ask its operator which aliases there are, and set openstack_device to one of them",
    ),
    (
        r"[Qq]uota exceeded|exceeded for (?P<word>\w+)|exceeds allowed",
        "what the testbed asks is within the project's quota",
        "ask for less, delete what is not needed (servers that failed count), or have it raised",
    ),
    (
        r"Image (?P<word>\S+) (could not be found|is not active|is unacceptable)",
        "the image is there and active",
        "leave openstack_image empty to have one made, or name one that openstack image list shows",
    ),
    (
        r"Flavor's (disk|memory) is (too small|smaller)",
        "the flavor is as large as the image needs",
        "raise openstack_disk or openstack_memory, or name a larger flavor",
    ),
    (
        r"no available nodes|[Cc]andidate nodes|none of the requested nodes",
        "the cloud has a bare-metal node of that class that is available and in no use",
        "openstack baremetal node list --resource-class CLASS shows their states; ask for fewer, "
        "or give one back",
    ),
    (
        r"maintenance",
        "a bare-metal node that is to be used is not in maintenance",
        "openstack baremetal node show says why; then openstack baremetal node maintenance unset",
    ),
    (
        r"[Uu]nauthorized|AccessError|[Aa]uthentication|HTTP 401|code 401|Incorrect credentials",
        "the BMC of the node accepts the name and password that the inventory has for it",
        "set both in driver_info of openstack_node; the same command tells them to the cloud",
    ),
    (
        r"Unable to connect|Connection refused|Failed to (get|establish|connect)|No route to host",
        "the cloud reaches the BMC of the node at the address that the inventory has for it",
        "look whether the BMC is on and can be reached from where ironic-conductor runs, and at "
        "driver_info of openstack_node",
    ),
    (
        r"'deploy_(kernel|ramdisk)'|Unable to find kernel, ramdisk for building ISO",
        "a node is cleaned, and its disk written, by a deploy ramdisk that the inventory or the "
        "cloud names",
        "name deploy_kernel and deploy_ramdisk in driver_info of openstack_node; or leave the "
        "disks as they are: openstack_clean: off, openstack_deploy: ramdisk",
    ),
    (
        r"Failed to create config drive on disk|overlapping partitions",
        "the disk of a node is larger than the image that is written to it, by what the host is "
        "told: 64 MiB",
        "lower openstack_disk, or name another disk of the node: root_device in its properties",
    ),
    (
        r"[Tt]imeout reached|timed out|did not finish",
        "a deploy ends within the time that the cloud gives it",
        "look at the node's console, and whether it can reach the cloud's network of deploys",
    ),
    (
        r"redfish|Redfish|BMC|IPMI|ipmi|power state",
        "the cloud reaches the BMC of the node",
        "check the address and the credentials of the BMC, then openstack baremetal node manage",
    ),
)
UNKNOWN = "look at the cloud's own logs for this request"
DEVICE = (
    "it asks {device}, so that is most likely PciPassthroughFilter: ask for fewer devices, or end "
    "the servers that have them"
)
PLAIN = "compare the flavor's extra_specs and the image's properties with the cloud's hosts"


def refused(what: str, said: str, device: str = "") -> Refused:
    """The refusal for `what` was asked and what the cloud said to it.

    `device` is the alias of the devices that were asked for, with their count.
    """
    words = " ".join(said.split())[:400]
    filters = DEVICE.format(device=device) if device else PLAIN
    for pattern, rule, then in CAUSES:
        if re.search(pattern, said):
            return Refused(rule, given=f"{what}: {words}", then=then.format(filters=filters))
    return Refused("the cloud makes what it is asked", given=f"{what}: {words}", then=UNKNOWN)
