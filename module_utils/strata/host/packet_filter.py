"""The rules of a host's packet filter: out of the way of its packets for a while, and put back.

An engine or a cluster writes rules that every packet of the host passes, also those of a program
that needs none of them. What that costs is measured with them and without: as long as a trial runs
there is no table, and so no connection is tracked either. They lie in Strata's state folder until
they are back, so that a kill does not lose them: whatever Strata does next on the host begins with
putting them back.

Only what an engine or a cluster has written is taken away. A firewall of the host's own stays where
it is, and the host is refused.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .. import files
from ..errors import Refused
from . import network_note, network_state, owned
from .facts import PROGRAMS, read_text

FOLDER, FILE = "packet_filter", "rules.json"
# By the beginnings of their chains, and by what Docker and flannel write into chains of the kernel.
OWNERS = "DOCKER|KUBE-|CNI-|FLANNEL-|cali-|CILIUM_"
KNOWN = re.compile(
    rf"-A (?!DOCKER-USER )({OWNERS})|-A DOCKER-USER -j RETURN$|-[jg] ({OWNERS})"
    r"| -[io] (docker0|docker_gwbridge|br-[0-9a-f]{12})\b|flanneld|cali:"
)
# The same of nftables' own tables; and families whose rules a host's IP packets do not meet.
TABLES = ("kube-proxy", "docker-bridges", "flannel-ipv4")
OTHER_FAMILIES = ("arp", "bridge")
# Empty chains, to which nothing leads: by them a cluster's programs see that nobody has taken away
# their rules. Were they gone, all would be written again within half a minute.
CANARY = re.compile(r"^:(\S+-CANARY) ", re.M)
FEW = 3  # rules that a message names
# Whether connections are tracked: of so many, more than half are counted.
COUNT = Path("/proc/sys/net/netfilter/nf_conntrack_count")
TRIES = 32
# The kernel takes a table's tracking away a moment after the table.
PATIENCE_S = 10.0


@dataclass(frozen=True)
class Rules:
    """All that is there, in a form in which it can be put back."""

    iptables: dict[str, str] = field(default_factory=dict)  # by the program that saved them
    nft: dict[str, str] = field(default_factory=dict)  # by family and name, what is nftables' own
    boot: str = ""

    def lines(self) -> list[str]:
        """The rules, and policies that let not everything pass, each with its table."""
        told = (
            f"{program.split('-')[0]} {table}: {line}"
            for program, text in self.iptables.items()
            for table, line in saved_lines(text)
        )
        return sorted([*told, *self._listed()])

    def unknown(self) -> list[str]:
        """Those that neither an engine nor a cluster has written."""
        told = (
            f"{table}: {line}"
            for text in self.iptables.values()
            for table, line in saved_lines(text)
            if not is_known(table, line)
        )
        mine = tuple(f"nft table {table}" for table in self.nft if table.split()[1] in TABLES)
        return [*told, *(line for line in self._listed() if not line.startswith(mine))]

    def _listed(self) -> list[str]:
        return [line for text in self.nft.values() for line in network_state.nft_lines(text, "")]


def read() -> Rules:
    """What is there. Changes nothing."""
    told = network_state.saved("iptables") | network_state.saved("ip6tables")
    chains = _chains()
    told = {
        program: without_unmade(program, text, chains)
        for program, text in told.items()
        if re.search(r"^[*]", text, re.M)
    }
    own = {name for program, text in told.items() for name in tables_of(program, text)}
    found = re.findall(r"^table (\S+) (\S+)$", _run("nft", "list", "tables"), re.M)
    other = [t for t in found if t[0] not in OTHER_FAMILIES and " ".join(t) not in own]
    listed = {" ".join(table): _run("nft", "-s", "list", "table", *table) for table in other}
    return Rules(told, listed, read_text(network_note.BOOT))


def check(rules: Rules) -> None:
    """Raises Refused where they are not to be taken away."""
    unknown = rules.unknown()
    if unknown:
        more = f", and {len(unknown) - FEW} more" if len(unknown) > FEW else ""
        raise Refused(
            "only rules of an engine or a cluster are taken out of the way, no host's firewall",
            example="-A FORWARD -j DOCKER-USER",
            given="; ".join(unknown[:FEW]) + more,
            then="measure host_unfiltered on hosts without a firewall, or leave it out",
        )


@contextlib.contextmanager
def out_of_the_way(state_dir: Path) -> Iterator[None]:
    """Without them until the end. Raises Refused where that cannot be, or others came meanwhile."""
    take_away(state_dir)
    try:
        yield
        came = read().lines()
        if came:
            more = f", and {len(came) - 1} more" if len(came) > 1 else ""
            raise Refused(
                "without the packet filter's rules means that nobody writes any meanwhile",
                given=f"{came[0]}{more}",
                then="end what writes them on this host for as long as it is measured",
            )
    finally:
        put_back(state_dir)


def take_away(state_dir: Path) -> Rules:
    """Keep them, and remove them; what they were. Raises Refused, with all of them in place.

    Then no rule is there, and no connection is tracked.
    """
    put_back(state_dir)
    rules = read()
    check(rules)
    if rules.iptables and not shutil.which("nft", path=PROGRAMS):
        raise Refused(
            "tables of the packet filter are taken away with nft",
            given="the host does not have it",
            then="install nftables on the host",
        )
    owned.Folder(state_dir, "state").claim()
    path = _path(state_dir)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    files.write_json(path, asdict(rules))
    try:
        _remove(rules)
        left = read().lines()
        if left or not _until_untracked():
            raise Refused(
                "without the packet filter's rules no rule is there, and no connection is tracked",
                given="; ".join(left[:FEW]) or "there is no rule, and connections are tracked",
                then="look what else on this host writes rules, or tracks connections",
            )
    except BaseException:
        put_back(state_dir)
        raise
    return rules


def put_back(state_dir: Path) -> bool:
    """Put back those that were taken away, exactly as they were; whether there were any.

    After a start of the host nothing is put back: whoever wrote them has done so again. Raises
    Refused where the kernel does not take them.
    """
    path = _path(state_dir)
    if not are_away(state_dir):
        return False
    rules = Rules(**json.loads(path.read_text()))
    if rules.boot == read_text(network_note.BOOT):
        for program, text in rules.iptables.items():
            _give(program.replace("-save", "-restore"), text)
        for table, text in rules.nft.items():
            _give("nft", f"table {table}\ndelete table {table}\n{text}", "-f", "-")
    owned.remove(path.parent)
    return True


def are_away(state_dir: Path) -> bool:
    """Whether they were taken away, and not put back yet."""
    return _path(state_dir).exists()


def prove(state_dir: Path) -> dict[str, str]:
    """Take them away and put them back once; what was seen. Raises Refused unless all are back."""
    before, tracked = read(), tracks()
    with out_of_the_way(state_dir):
        pass
    now = read()
    other = network_state.differences({"rule": before.lines()}, {"rule": now.lines()})
    if other:
        raise Refused(
            "rules of the packet filter are put back exactly as they were",
            given="; ".join(other),
            then="look what else on this host writes rules",
        )
    return {"rules": str(len(before.lines())), "connections": "tracked" if tracked else "free"}


def met() -> dict[str, int | bool]:
    """What the host's packets meet: how many rules there are, and whether any is tracked."""
    return {"rules": len(read().lines()), "tracked": tracks()}


def tracks() -> bool:
    """Whether connections of this host are tracked: some are tried, to itself, and counted."""
    before = _count()
    with contextlib.ExitStack() as stack:
        end = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        end.bind(("127.0.0.1", 0))
        for _ in range(TRIES):
            one = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            one.sendto(b"", end.getsockname())
    return _count() - before > TRIES // 2


def _count() -> int:
    """Connections that the kernel knows; 0 where it tracks none at all."""
    return int(read_text(COUNT) or 0)


def _until_untracked() -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while tracks():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _remove(rules: Rules) -> None:
    """Tables of nftables go, but for canaries; those of the older kind stay, and are empty."""
    orders = [f"delete table {table}" for table in rules.nft]
    for program, text in rules.iptables.items():
        own = tables_of(program, text)
        if not own:
            _give(program.replace("-save", "-restore"), emptied(text))
        for table, part in zip(own, text.split("COMMIT"), strict=False):
            orders.append(f"delete table {table}")
            kept = CANARY.findall(part)
            orders += [f"add table {table}"] if kept else []
            orders += [f"add chain {table} {name}" for name in kept]
    _give("nft", "\n".join([*orders, ""]), "-f", "-")


def emptied(text: str) -> str:
    """Of what iptables saved: tables with canaries, and the kernel's chains, which let all pass."""
    lines = []
    for line in text.splitlines():
        if line.startswith(("*", "COMMIT")) or CANARY.match(line):
            lines.append(line)
        elif line.startswith(":") and line.split()[1] != "-":
            lines.append(f"{line.split()[0]} ACCEPT [0:0]")
    return "\n".join([*lines, ""])


def saved_lines(text: str) -> Iterator[tuple[str, str]]:
    """Of what iptables saved, by table: rules, and policies that let not everything pass."""
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("-A") or (line[:1] == ":" and line.split()[1] not in ("-", "ACCEPT")):
            yield table, line.partition(" [")[0]


def without_unmade(program: str, text: str, chains: set[str]) -> str:
    """Of what iptables saved, without chains of the kernel that are not there.

    It tells all of a table, though it makes one in nftables when the first rule comes; made again,
    each of these would be passed by every packet.
    """
    own, table, kept = set(tables_of(program, text)), "", []
    for line in text.splitlines():
        if line.startswith("*"):
            table = f"{_family(program)} {line[1:]}"
        chain = line[1:].partition(" ")[0]
        if not line.startswith(":") or table not in own or f"{table} {chain}" in chains:
            kept.append(line)
    return "\n".join([*kept, ""])


def is_known(table: str, line: str) -> bool:
    """Whether an engine or a cluster wrote it: Docker forwards nothing that it does not know."""
    if line.startswith(":"):
        return (table, line.split(maxsplit=1)[0]) == ("filter", ":FORWARD")
    return bool(KNOWN.search(line) or network_state.PUBLISHED.fullmatch(line))


def tables_of(program: str, text: str) -> list[str]:
    """The tables of nftables in which iptables keeps what it saved; none of the older kind."""
    names = re.findall(r"by \S+ \S+ \(nf_tables\).*\n[*](\S+)", text)
    return [f"{_family(program)} {name}" for name in names]


def _family(program: str) -> str:
    return "ip6" if program.startswith("ip6") else "ip"


def _chains() -> set[str]:
    """All of nftables', by family, table and name."""
    told = json.loads(_run("nft", "--json", "list", "chains") or "{}").get("nftables", [])
    found = [each["chain"] for each in told if "chain" in each]
    return {f"{each['family']} {each['table']} {each['name']}" for each in found}


def _path(state_dir: Path) -> Path:
    return state_dir / FOLDER / FILE


def _run(program: str, *arguments: str) -> str:
    """What a tool says; '' where it is missing."""
    path = shutil.which(program, path=PROGRAMS)
    if path is None:
        return ""
    return subprocess.run([path, *arguments], capture_output=True, text=True, check=False).stdout


def _give(program: str, text: str, *arguments: str) -> None:
    """Give a tool its input. Raises Refused with what it says where it does not take that."""
    path = shutil.which(program, path=PROGRAMS) or program
    done = subprocess.run(
        [path, *arguments], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(f"{program} takes the rules of the packet filter", given=done.stderr.strip())
