"""What a cluster or a network leaves on a host: looked for by name, and removed.

What is asked for is a mapping with some of these lists:

    links    names of interfaces; one that ends in * is a beginning
    routes   ranges; every route to an address in one of them
    chains   beginnings of chains of the packet filter, with every rule that leads to them
    rules    words; every rule of the packet filter that has one of them
    sets     beginnings of sets of addresses (ipset)
    hooks    beginnings of names of eBPF programs; the queue of each interface that calls them
    tables   numbers of routing tables; every rule of routing that leads to them, and their routes
    paths    files and folders; a name may hold *

and of what goes by itself a moment later (`settle`):

    programs  names of programs that are under way, and may write what was removed; the calls of a
              plugin of the container network interface that give something back end, or are ended
    targets   ranges; every rule of the packet filter that sends packets to one of them
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ..errors import Refused
from . import network_state, owned
from .facts import read_text
from .processes import NAME

KINDS = ("links", "routes", "chains", "rules", "sets", "hooks", "tables", "paths")
PASSING = ("programs", "targets")
PATIENCE_S, LOOK_S = 60.0, 0.5
GIVES_BACK_S = 5.0  # a call of a plugin that has what it needs takes a tenth of it
FILTERS = ("iptables", "ip6tables")
GROUPS = Path("/sys/fs/cgroup")
Asked = Mapping[str, Sequence[str]]


def found(asked: Asked) -> dict[str, list[str]]:
    """What is there, by kind; kinds of which there is nothing are left out."""
    seen = {
        "links": [name for name in _links() if _matches(name, asked.get("links", ()))],
        "routes": [each["dst"] for each in _routes(asked.get("routes", ()))],
        "sets": [name for name in _sets() if name.startswith(tuple(asked.get("sets", ())))],
        "hooks": [f"at {name}" for name in _hooked(asked.get("hooks", ()))],
        "tables": [
            f"{rule['priority']} to {rule['table']}" for rule in _ways(asked.get("tables", ()))
        ],
        "paths": _paths(asked.get("paths", ())),
        "chains": [],
        "rules": [],
    }
    for program in FILTERS:
        for table, lines in saved(_output([f"{program}-save"])).items():
            chains, rules = of_filter(lines, asked.get("chains", ()), asked.get("rules", ()))
            seen["chains"] += [f"{program} {table} {name}" for name in chains]
            seen["rules"] += [f"{program} {table} {rule}" for rule in rules]
    return {kind: sorted(names) for kind, names in seen.items() if names}


def remove(asked: Asked) -> None:
    """Remove all of it. Raises Refused where something does not go."""
    for route in _routes(asked.get("routes", ())):
        # A route goes with its interface, which may just have gone; one into nothing has none.
        device = ["dev", route["dev"]] if "dev" in route else []
        _output(["ip", "-4", "route", "del", route.get("type", "unicast"), route["dst"], *device])
    for rule in _ways(asked.get("tables", ())):
        _output(["ip", "-4", "rule", "del", "priority", str(rule["priority"])])
        _output(["ip", "-4", "route", "flush", "table", str(rule["table"])])
    for name in _links():
        if _matches(name, asked.get("links", ())):
            _output(["ip", "link", "del", name])
            # One that the kernel made with a module stays, unused.
            _output(["ip", "address", "flush", "dev", name])
            _output(["ip", "link", "set", name, "down"])
    for name in _hooked(asked.get("hooks", ())):
        _output(["tc", "qdisc", "del", "dev", name, "clsact"])
    for program in FILTERS:
        for table, lines in saved(_output([f"{program}-save"])).items():
            orders = _orders(*of_filter(lines, asked.get("chains", ()), asked.get("rules", ())))
            if orders:
                _restore(program, table, orders)
    for name in _sets():  # no rule names them any more
        if name.startswith(tuple(asked.get("sets", ()))):
            _output(["ipset", "destroy", name])
    for path in map(Path, _paths(asked.get("paths", ()))):
        _remove(path)


def clear(asked: Asked) -> None:
    """Remove all of it, and what a program that was under way has written meanwhile.

    Raises Refused where something does not go.
    """
    with contextlib.suppress(Refused):  # a folder into which somebody writes just now
        remove(asked)  # with what tells the engine of a plugin, which it calls no more from here
    settle(asked)
    remove(asked)


def settle(asked: Asked) -> None:
    """Wait for what goes by itself. Raises Refused where it does not go.

    A plugin waits for the agent of its network, which has gone, whenever the engine removes what it
    keeps of a pod that is long gone (the kubelet asks for that each minute). Such a call is ended.
    """
    began = time.monotonic()
    while going := _passing(asked):
        if time.monotonic() > began + PATIENCE_S:
            raise Refused(
                f"what a network has left goes within {PATIENCE_S:.0f} s", given="\n".join(going)
            )
        if time.monotonic() > began + GIVES_BACK_S:
            _end_calls(asked.get("programs", ()))
        time.sleep(LOOK_S)


def _passing(asked: Asked) -> list[str]:
    wanted = [ipaddress.IPv4Network(each) for each in asked.get("targets", ())]
    lines = _output(["iptables-save", "-t", "nat"]).splitlines() if wanted else []
    programs = sorted(map(_named, _under_way(asked.get("programs", ()))))
    return [*programs, *(line for line in lines if leads(line, wanted))]


def _under_way(programs: Sequence[str]) -> list[Path]:
    """Those that run, as folders of /proc."""
    names = {name[:NAME] for name in programs}
    running = (path.parent for path in Path("/proc").glob("[0-9]*/comm"))
    return [folder for folder in running if read_text(folder / "comm") in names]


def _named(process: Path) -> str:
    """A program, and what it was called for."""
    call, pod = _called_for(process)
    return f"{read_text(process / 'comm')} {call} of {pod}" if pod else read_text(process / "comm")


def _called_for(process: Path) -> tuple[str, str]:
    """What the engine told a plugin to do, and for which pod; '' of another program."""
    told = dict(each.partition("=")[::2] for each in read_text(process / "environ").split("\0"))
    given = dict(each.partition("=")[::2] for each in told.get("CNI_ARGS", "").split(";"))
    return told.get("CNI_COMMAND", ""), given.get("K8S_POD_NAME", "")


def _end_calls(programs: Sequence[str]) -> None:
    """Of a plugin, those by which something is given back: all of it is removed here anyway."""
    for process in _under_way(programs):
        if _called_for(process)[0] == "DEL":
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(process.name), signal.SIGKILL)


def leads(rule: str, ranges: Sequence[ipaddress.IPv4Network]) -> bool:
    """Whether a rule sends packets to an address in one of the ranges."""
    to = re.search(r" --to-destination ([\d.]+)", rule)
    return to is not None and any(ipaddress.IPv4Address(to[1]) in each for each in ranges)


def saved(text: str) -> dict[str, list[str]]:
    """The lines of each table, as `iptables-save` prints them."""
    tables: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line.startswith("*"):
            lines = tables[line[1:].strip()] = []
        elif line.startswith((":", "-A ")):
            lines.append(line)
    return tables


def of_filter(
    lines: Sequence[str], chains: Sequence[str], words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Of a table: the chains, and the rules of other chains, that are asked for."""
    begins = tuple(chains)
    names = [line[1:].split()[0] for line in lines if line.startswith(":")]
    ours = [name for name in names if begins and name.startswith(begins)]
    rules = []
    for line in lines:
        match = re.match(r"-A (\S+) ", line)
        if match and match[1] not in ours:
            to = re.search(r" -[jg] (\S+)", line)
            leads = bool(begins and to and to[1].startswith(begins))
            if leads or any(word in line for word in words):
                rules.append(line)
    return ours, rules


def _orders(chains: Sequence[str], rules: Sequence[str]) -> list[str]:
    """Lines for iptables-restore: rules first, then what they led to."""
    deleted = [f"-D{rule[2:]}" for rule in rules]
    return [*deleted, *(f"-F {name}" for name in chains), *(f"-X {name}" for name in chains)]


def _restore(program: str, table: str, orders: Sequence[str]) -> None:
    text = "\n".join([f"*{table}", *orders, "COMMIT", ""])
    done = subprocess.run(
        [f"{program}-restore", "--noflush", "--wait"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(f"rules of the packet filter do not go from {table}", given=done.stderr)


def _routes(ranges: Sequence[str]) -> list[dict[str, Any]]:
    """The IPv4 routes to addresses within the ranges, as `ip` says them."""
    wanted = [ipaddress.IPv4Network(each) for each in ranges]
    seen = []
    for route in json.loads(_output(["ip", "-j", "-4", "route"]) or "[]"):
        if route["dst"] != "default":
            net = ipaddress.IPv4Network(route["dst"], strict=False)
            if any(net.subnet_of(each) for each in wanted):
                seen.append(route)
    return seen


def _ways(tables: Sequence[str]) -> list[dict[str, Any]]:
    """The IPv4 rules of routing that lead to the tables, as `ip` says them."""
    rules = json.loads(_output(["ip", "-j", "-4", "rule"]) or "[]")
    return [rule for rule in rules if str(rule.get("table")) in tables]


def _sets() -> list[str]:
    return _output(["ipset", "list", "-name"]).split()


def _hooked(begins: Sequence[str]) -> list[str]:
    """The interfaces that call programs of these names."""
    found, names = [], re.compile(rf"\b({'|'.join(map(re.escape, begins))})")
    for name in _links() if begins else []:
        show = ["tc", "filter", "show", "dev", name]
        if any(names.search(_output([*show, way])) for way in ("ingress", "egress")):
            found.append(name)
    return found


def _links() -> list[str]:
    """Those that the kernel makes by itself with a module are there while somebody uses them."""
    told = [link for link in json.loads(_output(["ip", "-j", "link"]) or "[]") if link]
    return [link["ifname"] for link in told if not network_state.is_idle(link)]


def _matches(name: str, wanted: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def _paths(patterns: Sequence[str]) -> list[str]:
    return [str(path) for each in patterns for path in Path("/").glob(each.lstrip("/"))]


def _remove(path: Path) -> None:
    """Raises Refused. A control group has files that cannot be removed, and goes without them."""
    try:
        if path.is_relative_to(GROUPS):
            for folder in sorted(path.rglob("*/"), reverse=True):
                folder.rmdir()
            path.rmdir()
        else:
            owned.remove(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise Refused(f"{path} does not go", given=f"{error.filename}: {error.strerror}") from None


def _output(command: list[str]) -> str:
    """What a program prints; nothing on a host that does not have it, or where it fails."""
    if not shutil.which(command[0]):
        return ""
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
