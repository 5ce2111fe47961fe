"""What carries packets between pods on this host: facts of the running system, as words to compare.

A network that cannot have what it was asked for often takes something else without an error:
another encapsulation, the kernel's routing where eBPF was asked for, an interface of another kind.
So nothing here is read from a configuration. The names of facts:

    route to HOST         the device by which packets to that host's pod leave
    gateway to HOST       to whom they go next
    protocol to HOST      who wrote that route: `kernel`, `bird`, ...
    DEVICE                its kind, and what makes it that tunnel: `vxlan id 1 port 8472`
    offloads of DEVICE    what it does in the CPU's stead, or lets the next device do
    programs of DEVICE    of eBPF, that see its packets: `cil_from_overlay ingress, ...`
    agent NAME            what Cilium's agent says that it does, as `host routing`

A network's role asks for some of them, by these names (roles/pod_network).
"""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import Refused
from . import devices as cards
from .facts import PROGRAMS

NONE = "none"
ANSWER_S = 5.0
TUNNEL = ("id", "port", "external")  # what of a tunnel makes it another one
# Of what the agent says (GET /v1/healthz), what carries packets; the path to it, and its name here.
AGENT = {
    "host routing": ("host-routing", "mode"),
    "kube-proxy replacement": ("kube-proxy-replacement", "mode"),
    "masquerading": ("masquerading", "mode"),
    "state": ("cilium", "state"),
}


def facts(peers: Mapping[str, str], devices: Sequence[str], agent: str = "") -> dict[str, str]:
    """All of them: of the routes to `peers` (address by host), of the devices, and of the agent.

    `agent` is the path of its socket, '' where the network has none. What cannot be read is `none`.
    """
    found = dict[str, str]()
    for host, address in peers.items():
        way, gateway = route(_json("ip", "route", "get", address))
        found |= {f"route to {host}": way, f"gateway to {host}": gateway}
        found[f"protocol to {host}"] = writer(_json("ip", "route", "get", "fibmatch", address))
    for name in devices:
        found[name] = device(_json("ip", "-details", "link", "show", "dev", name))
        found[f"offloads of {name}"] = " ".join(cards.offloads(name) or [NONE])
        found[f"programs of {name}"] = programs(
            {way: _json("tc", "filter", "show", "dev", name, way) for way in ("ingress", "egress")}
        )
    if agent:
        found |= of_agent(_asked(Path(agent)))
    return found


def devices_of(asked: Mapping[str, str]) -> set[str]:
    """The devices of which facts are asked for."""
    own = (name.rpartition(" of ")[2] for name in asked if not name.startswith("agent "))
    return {name for name in own if " " not in name}


def check(asked: Mapping[str, str], found: Mapping[str, str]) -> None:
    """Raises Refused with both values where one that is asked for is another."""
    other = [
        (name, value, found.get(name, NONE))
        for name, value in asked.items()
        if found.get(name, NONE) != value
    ]
    if other:
        raise Refused(
            "what is asked for is what carries the packets",
            given="; ".join(
                f"asked: {name} is {value}; running: {running}" for name, value, running in other
            ),
            then="look for what another network has left behind, and into the network's log"
            " (docs/networks.md)",
        )


def route(told: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Of `ip route get`: device and gateway."""
    first = told[0] if told else {}
    return str(first.get("dev", NONE)), str(first.get("gateway", NONE))


def writer(told: Sequence[Mapping[str, Any]]) -> str:
    """Of `ip route get fibmatch`: who wrote the route; where it says nobody, `boot`."""
    return str(told[0].get("protocol", "boot")) if told else NONE


def device(told: Sequence[Mapping[str, Any]]) -> str:
    """Of `ip -details link show`: its kind and what makes it that tunnel; `down` where it is."""
    if not told:
        return NONE
    info = told[0].get("linkinfo", {})
    data = info.get("info_data", {})
    words = [info.get("info_kind", "link")]
    words += [key if data[key] is True else f"{key} {data[key]}" for key in TUNNEL if key in data]
    return " ".join(words) if "UP" in told[0]["flags"] else f"{' '.join(words)} down"


def programs(told: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Of `tc filter show`, by direction: names of the programs, without file and device."""
    names = [
        f"{re.split('[:-]', str(each['options'].get('bpf_name', 'unnamed')))[0]} {way}"
        for way, filters in told.items()
        for each in filters
        if each.get("kind") == "bpf" and "options" in each
    ]
    return ", ".join(sorted(names)) or NONE


def of_agent(told: Mapping[str, Any]) -> dict[str, str]:
    """What the agent says that it does; of what it does not say, `none`."""
    found = {}
    for name, (part, key) in AGENT.items():
        found[f"agent {name}"] = str((told.get(part) or {}).get(key, NONE))
    return found


def _asked(path: Path) -> dict[str, Any]:
    """What the agent answers over its socket; {} where it does not."""
    connection = http.client.HTTPConnection("localhost", timeout=ANSWER_S)
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as own:
        try:
            own.settimeout(ANSWER_S)
            own.connect(str(path))
            connection.sock = own
            connection.request("GET", "/v1/healthz")
            found = json.loads(connection.getresponse().read())
        except (OSError, http.client.HTTPException, ValueError):
            return {}
    return found if isinstance(found, dict) else {}


def _json(program: str, *arguments: str) -> list[dict[str, Any]]:
    """What a tool of iproute2 says; [] where it fails."""
    path = shutil.which(program, path=PROGRAMS) or program
    done = subprocess.run([path, "-json", *arguments], capture_output=True, text=True, check=False)
    return [one for one in json.loads(done.stdout or "[]") if one] if done.returncode == 0 else []
