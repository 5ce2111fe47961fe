"""The state of a host's network: what of it a network could leave behind, in lines that compare.

It is read before a setting is made and after it is removed, and the two must be equal
(docs/networks.md). So it has what somebody made: interfaces, addresses, routes, rules of routing
and of packet filters, forwarding entries and neighbours that stay, sets of addresses, encryption,
queues, programs of eBPF, files of CNI, and what the kernel is told of forwarding. It has nothing
that changes by itself: counters, timers, what was learned, addresses of scope link, and what the
containers of others bring and take away while they come and go.

The run stage notes it before the `present` of a setting's role, and compares it after its `absent`
(playbooks/tasks/switch.yml and leave.yml): a role has nothing to do for it, but to leave nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import Refused
from .facts import PROGRAMS, read_text

Answer = dict[str, Any]
State = dict[str, list[str]]  # kind -> lines, sorted; a line may stand there twice

SECONDS = 20.0  # for a tool to answer; a table of a hundred thousand rules takes two
# Of what the kernel tells of a link by its kind: what makes it another one. The rest are timers.
DATA = ("id", "mode", "local", "local6", "remote", "remote6", "group", "link", "port", "table")
# Links that the kernel makes by itself as soon as a module is loaded; unused they carry nothing.
FALLBACK = re.compile(r"(tunl|sit|gre|gretap|erspan|ip_vti|ip6_vti|ip6tnl|ip6gre)0")
# The queues that the kernel gives a link unasked.
QUEUES = {"noqueue", "pfifo_fast", "fq_codel", "mq", "fq", "pfifo"}
# The rules that Docker writes for a published port, and takes away with its container.
PUBLISHED = re.compile(
    r"-A DOCKER (! -i \S+ )?-d \S+/32 .*-j ACCEPT"
    r"|-A DOCKER .*-j DNAT --to-destination \S+"
    r"|-A POSTROUTING -s (?P<address>\S+/32) -d (?P=address) .*-j MASQUERADE"
    r"|-A PREROUTING -d \S+/32 ! -i \S+ .*-j DROP"
)
# Those of an engine's name server in a container, at ports that it draws at each start: a node of a
# rehearsal lab is one.
NAMES = re.compile(
    r"-A DOCKER_OUTPUT -d 127\.0\.0\.11/32 .*-j DNAT --to-destination 127\.0\.0\.11:\d+"
    r"|-A DOCKER_POSTROUTING -s 127\.0\.0\.11/32 .*-j SNAT --to-source :53"
)
# Kinds of programs that touch packets. What systemd has for its units comes and goes with these.
PACKET_PROGRAMS = re.compile(
    r"sched_|xdp|sk_|sock_ops|cgroup_s(kb|ock)|lwt_|flow_dissector|netfilter"
)
UNITS = "sd_"
FILES = ("etc/cni/net.d", "run/flannel")
FOLDERS = ("var/lib/cni",)  # the files there are addresses of containers that run
PINNED = "sys/fs/bpf"
SYSCTLS = (
    *("net/ipv4/ip_forward", "net/ipv4/ip_nonlocal_bind", "net/ipv4/fib_multipath_hash_policy"),
    *("net/ipv4/tcp_mtu_probing", "net/core/default_qdisc", "net/core/bpf_jit_enable"),
    *("net/ipv4/conf/{}/forwarding", "net/ipv4/conf/{}/rp_filter", "net/ipv4/conf/{}/proxy_arp"),
    *("net/ipv4/conf/{}/accept_local", "net/ipv4/conf/{}/route_localnet"),
    *("net/ipv4/conf/{}/arp_ignore", "net/ipv4/conf/{}/send_redirects"),
    *("net/ipv6/conf/{}/forwarding", "net/ipv6/conf/{}/disable_ipv6"),
    *("net/ipv6/conf/{}/accept_ra", "net/ipv6/conf/{}/proxy_ndp"),
    *("net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"),
    *("net/bridge/bridge-nf-call-arptables", "net/netfilter/nf_conntrack_max"),
    "net/netfilter/nf_conntrack_tcp_timeout_established",
)


def capture(root: Path = Path("/")) -> State:
    """The state of this host, or of a tree of files below `root`. Changes nothing.

    Raises Refused where `ip` is missing, without which nothing can be said; what other tools would
    tell is left out where they are missing, since what they show was then not made with them.
    """
    seen = _json("ip", "-details", "link", "show")
    if not seen:
        raise Refused(
            "a setting is switched to where the state of the network can be read",
            given="`ip -details link show` says nothing",
            then="install iproute2 on the host",
        )
    links = {link["ifname"]: link for link in seen if not _is_of_a_container(link)}
    state = {
        "interface": [_link(link) for link in links.values() if not is_idle(link)],
        "address": list(_addresses(_json("ip", "addr", "show"), links)),
        "route": list(_routes(links)),
        "rule": [_flat(rule) for v in ("-4", "-6") for rule in _json("ip", v, "rule", "show")],
        "forwarding entry": list(_entries(_json("bridge", "fdb", "show"), seen, links)),
        "neighbour": list(_neighbours(links)),
        "packet filter": [*_tables(), *nft_lines(*_nft())],
        "set of addresses": ipset_lines(_run("ipset", "save")),
        "encryption": xfrm_lines(_run("ip", "xfrm", "state")),
        "queue": list(_queues(links)),
        "eBPF": list(_programs()),
        "namespace": [f"/run/netns/{name}" for name in _names(root / "run/netns")],
        "file": list(_files(root)),
        "sysctl": list(_sysctls(root, links)),
    }
    return {kind: sorted(lines) for kind, lines in state.items()}


def differences(before: State, after: State) -> list[str]:
    """What is there and was not (`+`), and what was there and is not (`-`), a line each.

    A kind that could not be read at one of the times counts as empty then. Of an interface that
    came or went nothing is said but that: what the kernel is told of it came and went with it.
    """
    found = []
    passing = _names_of(before) ^ _names_of(after)
    before, after = (_without(state, passing) for state in (before, after))
    for kind in dict.fromkeys((*before, *after)):
        was, now = Counter(before.get(kind, [])), Counter(after.get(kind, []))
        found += [f"- {kind}: {line}" for line in sorted((was - now).elements())]
        found += [f"+ {kind}: {line}" for line in sorted((now - was).elements())]
    return found


def _names_of(state: State) -> set[str]:
    return {line.split()[0] for line in state.get("interface", [])}


def _without(state: State, interfaces: set[str]) -> State:
    """Without the settings of the kernel for some interfaces: net.ipv4.conf.NAME.forwarding."""
    theirs = tuple(f"net.{v}.conf.{name}." for v in ("ipv4", "ipv6") for name in interfaces)
    kept = [line for line in state.get("sysctl", []) if not line.startswith(theirs)]
    return {**state, "sysctl": kept}


def _path(program: str) -> str | None:
    return shutil.which(program, path=PROGRAMS)


def _run(*command: str) -> str:
    """What a tool says; '' where it is missing, or where the kernel has not what it asks for."""
    path = _path(command[0])
    if path is None:
        return ""
    done = subprocess.run(
        [path, *command[1:]],
        capture_output=True,
        text=True,
        errors="replace",
        timeout=SECONDS,
        check=False,
    )
    return done.stdout if done.returncode == 0 else ""


def _json(program: str, *more: str) -> list[Answer]:
    """What iproute2 says; it leaves an empty object where it has nothing to tell of one."""
    found = json.loads(_run(program, "-json", *more) or "[]")
    return [one for one in found if one]


def _flat(told: Answer) -> str:
    """An answer in one line; empty values say nothing."""
    return " ".join(f"{key} {_word(value)}" for key, value in told.items() if value not in ("", []))


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_word, value))
    return f"({_flat(value)})" if isinstance(value, dict) else str(value)


def _is_of_a_container(link: Answer) -> bool:
    """Whether it is the near end of a container's cable: the far one is in another namespace.

    Where there is no bridge, as under a hypervisor's or Calico's hosts, it is the host's own.
    """
    kind = link.get("linkinfo", {}).get("info_kind")
    return kind == "veth" and "link_netnsid" in link and "master" in link


def is_idle(link: Answer) -> bool:
    return bool(FALLBACK.fullmatch(link["ifname"])) and "UP" not in link["flags"]


def _link(link: Answer) -> str:
    """`eth0 kind veth mtu 1500 up`. A carrier comes and goes with what is at the other end."""
    info = link.get("linkinfo", {})
    told = {key: value for key, value in info.get("info_data", {}).items() if key in DATA}
    said = {
        "kind": info.get("info_kind", link["link_type"]),
        "mtu": link["mtu"],
        "master": link.get("master", ""),
        **{key: value for key, value in told.items() if value is not None},
    }
    return f"{link['ifname']} {_flat(said)} {'up' if 'UP' in link['flags'] else 'down'}"


def _addresses(told: Iterable[Answer], links: Answer) -> Iterator[str]:
    for link in told:
        for address in link.get("addr_info", []):
            learned = address.get("dynamic") and address["family"] == "inet6"
            if link.get("ifname") in links and address["scope"] != "link" and not learned:
                yield f"{link['ifname']} {address['local']}/{address['prefixlen']}"


def _routes(links: Answer) -> Iterator[str]:
    told = [
        route for v in ("-4", "-6") for route in _json("ip", v, "route", "show", "table", "all")
    ]
    return (route_line(route) for route in told if _is_made(route, links))


def _is_made(route: Answer, links: Answer) -> bool:
    """Whether somebody made it, other than the kernel for an address or a router's word."""
    device = route.get("dev")
    by_itself = route.get("protocol") == "kernel" and (
        route.get("table") == "local" or str(route["dst"]).startswith(("fe80:", "ff00:"))
    )
    advertised = route.get("protocol") == "ra"
    return not by_itself and not advertised and (device is None or device in links)


def route_line(route: Answer) -> str:
    """A route without what changes by itself: the carrier, and how long it has to live."""
    passing = ("flags", "expires", "cache", "error", "pref")
    kept = {key: value for key, value in route.items() if key not in passing}
    flags = [flag for flag in route.get("flags", []) if flag in ("onlink", "pervasive")]
    return _flat({**kept, "flags": flags})


def _entries(told: Iterable[Answer], seen: list[Answer], links: Answer) -> Iterator[str]:
    own = {link["address"] for link in seen if "address" in link}
    for entry in told:
        mac = entry["mac"]
        stays = entry.get("state") in ("permanent", "static") or "dst" in entry
        group = mac.startswith(("33:33:", "01:00:5e:", "01:80:c2:"))
        learned = "offload" not in entry.get("flags", []) and entry.get("state", "") == ""
        if entry["ifname"] not in links or group or mac in own or not stays or learned:
            continue
        keys = ("ifname", "mac", "dst", "port", "vlan", "vni", "master", "state")
        yield _flat({key: entry[key] for key in keys if key in entry})


def _neighbours(links: Answer) -> Iterator[str]:
    for version in ("-4", "-6"):
        told = [
            *_json("ip", version, "neigh", "show", "nud", "permanent"),
            *_json("ip", version, "neigh", "show", "proxy"),
        ]
        keys = ("dev", "dst", "lladdr", "proxy", "state")
        for one in told:
            if one.get("dev") in links:
                yield _flat({key: one[key] for key in keys if key in one})


def _tables() -> Iterator[str]:
    for version in ("iptables", "ip6tables"):
        lines = dict.fromkeys(
            line for text in saved(version).values() for line in iptables_lines(text)
        )
        yield from (f"{version} {line}" for line in lines)


def saved(version: str) -> dict[str, str]:
    """What iptables or ip6tables saves, by program: that of the other kind has its own name."""
    programs = {os.path.realpath(path): program for program, path in _savers(version)}
    return {program: _run(program) for program in programs.values()}


def _savers(version: str) -> Iterator[tuple[str, str]]:
    for program in (f"{version}-save", f"{version}-legacy-save", f"{version}-nft-save"):
        path = _path(program)
        if path:
            yield program, path


def iptables_lines(text: str) -> list[str]:
    """Chains and rules of `iptables-save`, each with its table.

    Left out are the rules of published ports and of an engine's name server (PUBLISHED, NAMES), and
    chains of the kernel's own that let everything pass: these come into being as soon as somebody
    looks at a table.
    """
    table, found = "", []
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":"):
            chain, policy, *_ = line[1:].split()
            if policy != "ACCEPT":
                found.append(f"{table}: chain {chain}" + ("" if policy == "-" else f" {policy}"))
        elif line.startswith("-A") and not (PUBLISHED.fullmatch(line) or NAMES.fullmatch(line)):
            found.append(f"{table}: {line}")
    return found


def _nft() -> tuple[str, str]:
    told = [_run(f"{version}-save") for version in ("iptables", "ip6tables")]
    return _run("nft", "-s", "list", "ruleset"), "".join(told)


def nft_lines(text: str, told: str) -> list[str]:
    """Rules of `nft -s list ruleset`, each with its table and chain.

    `told` is what iptables tells by itself (`iptables-save`): these tables are left out. So are
    elements of sets that have a time to live.
    """
    names = re.findall(r"by (ip6?)tables-save \S+ \(nf_tables\).*\n[*](\S+)", told)
    theirs = {f"table {family} {name}" for family, name in names}
    found, inside = [], list[str]()
    for line in (line.strip() for line in text.splitlines()):
        if line.endswith("{"):
            inside.append(line.removesuffix("{").strip())
        elif line == "}":
            inside.pop()
        elif not line or line.startswith("#") or line.endswith("policy accept;"):
            continue
        elif inside[0] not in theirs:
            lasting = re.sub(" (timeout|expires) [0-9a-z]+", "", line)
            found.append(f"nft {', '.join(inside)}: {lasting}")
    return found


def ipset_lines(text: str) -> list[str]:
    """Sets and members of `ipset save`. Members with a time to live come and go by themselves."""
    lines = [re.sub(r" (packets|bytes) \d+| initval \S+", "", line) for line in text.splitlines()]
    return [line for line in lines if not (line.startswith("add") and " timeout " in line)]


def xfrm_lines(text: str) -> list[str]:
    """Who talks to whom encrypted, of `ip xfrm state`; its keys are left out."""
    return re.findall(r"^src \S+ dst \S+", text, re.M)


def _queues(links: Answer) -> Iterator[str]:
    """Queues that somebody has set, and the filters that hang on them."""
    for queue in _json("tc", "qdisc", "show"):
        device = queue.get("dev")
        if device not in links or queue["kind"] in QUEUES:
            continue
        parent = queue.get("parent", "root" if queue.get("root") else "")
        yield f"{device} {queue['kind']} {queue.get('handle', '')} {parent}".strip()
        if queue["kind"] in ("clsact", "ingress"):
            for where in ("ingress", "egress"):
                said = _run("tc", "filter", "show", "dev", device, where)
                yield from (
                    f"{device} {where} {re.sub(r' id [0-9]+', '', line)}"
                    for line in said.splitlines()
                )


def _programs() -> Iterator[str]:
    """Programs that touch packets, and the maps that these use, by name and not by number."""
    told = _json_of("bpftool", "--json", "prog", "show")
    programs = [
        one
        for one in told
        if PACKET_PROGRAMS.match(str(one.get("type")))
        and not str(one.get("name", "")).startswith(UNITS)
    ]
    used = {number for one in programs for number in one.get("map_ids", [])}
    maps = _json_of("bpftool", "--json", "map", "show") if used else []
    yield from (f"{one['type']} {one.get('name', '')} {one.get('tag', '')}" for one in programs)
    yield from (f"map {one['type']} {one.get('name', '')}" for one in maps if one["id"] in used)


def _json_of(*command: str) -> list[Answer]:
    found = json.loads(_run(*command) or "[]")
    return found if isinstance(found, list) else []


def _names(folder: Path) -> list[str]:
    """Namespaces with a name; those of pods, which a CNI names, come and go with them."""
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return [name for name in names if not name.startswith("cni-")]


def _files(root: Path) -> Iterator[str]:
    for path in _walk(root, FILES):
        content = path.read_bytes() if path.is_file() else b""
        yield f"{_outside(path, root)} {hashlib.sha256(content).hexdigest()[:12]}"
    for path in _walk(root, FOLDERS):
        if path.is_dir():
            yield _outside(path, root)
    for path in _walk(root, (PINNED,)):
        if not path.is_dir():
            yield _outside(path, root)


def _walk(root: Path, folders: Iterable[str]) -> Iterator[Path]:
    for folder in folders:
        yield from (path for path in (root / folder).rglob("*") if not path.is_symlink())


def _outside(path: Path, root: Path) -> str:
    return f"/{path.relative_to(root)}"


def _sysctls(root: Path, links: Answer) -> Iterator[str]:
    base = root / "proc/sys"
    for pattern in SYSCTLS:
        names = ("all", "default", *links) if "{}" in pattern else ("",)
        for name in names:
            path = base / pattern.format(name)
            if path.exists():
                yield f"{str(path.relative_to(base)).replace('/', '.')} = {read_text(path)}"
