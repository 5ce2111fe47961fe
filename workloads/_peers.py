"""The members of a trial that do not train together, such as a client and a server: the key `peers`
of config.json, checked. What they say to each other is the workload's own."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from workloads._options import refuse
from workloads._place import PORTS, check_keys, key_of, seconds_of


@dataclass(frozen=True)
class Peer:
    """One member, as the others reach it."""

    role: str
    index: int
    host: str  # a name or an address
    ports: Mapping[str, int]  # where it listens, by the names that PORTS declares

    @property
    def name(self) -> str:
        """`client 0`."""
        return f"{self.role} {self.index}"

    def __str__(self) -> str:
        """As errors name it."""
        return f"{self.name} at {self.host}"

    def address(self, port: str) -> tuple[str, int]:
        """Host and number of one of its ports."""
        return self.host, self.ports[port]


@dataclass(frozen=True)
class Peers:
    """All members of the trial, this one among them."""

    me: Peer
    members: tuple[Peer, ...]
    key: bytes = field(repr=False)  # of this trial: who has it belongs to it
    find_s: float  # how long to look for a peer that is not there yet
    silent_s: float  # after how long a peer that says nothing is lost

    KEYS: ClassVar[tuple[str, ...]] = ("role", "index", "members", "key", "find_s", "silent_s")

    def of(self, role: str) -> tuple[Peer, ...]:
        """The members of a role, in order."""
        return tuple(member for member in self.members if member.role == role)

    @classmethod
    def parse(cls, given: Any) -> Self:
        """From config.json; BadInputError, which never holds the key."""
        check_keys("peers", given, cls.KEYS, '{"role": "client", ...}')
        if not isinstance(given.get("members"), list):
            raise refuse("members", "must be a list of peers", "[...]", given.get("members"))
        members = tuple(_peer(member) for member in given["members"])
        asked = (given.get("role"), given.get("index"))
        me = next((m for m in members if (m.role, m.index) == asked), None)
        if me is None:
            raise refuse("role", "must be one of the members, with its index", "client", asked)
        return cls(
            me=me,
            members=members,
            key=key_of(given.get("key")),
            find_s=seconds_of("find_s", given.get("find_s")),
            silent_s=seconds_of("silent_s", given.get("silent_s")),
        )


def _peer(given: Any) -> Peer:
    example = '{"role": "server", "index": 0, "host": "10.0.0.2", "ports": {"test": 29400}}'
    if (
        not isinstance(given, Mapping)
        or set(given) != {"role", "index", "host", "ports"}
        or not all(isinstance(given[name], str) for name in ("role", "host"))
        or type(given["index"]) is not int
        or not isinstance(given["ports"], Mapping)
        or not all(type(port) is int and port in PORTS for port in given["ports"].values())
    ):
        raise refuse("members", "each must have role, index, host and ports", example, given)
    return Peer(given["role"], given["index"], given["host"], dict(given["ports"]))
