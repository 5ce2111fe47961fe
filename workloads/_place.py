"""Where a process stands among its peers: the key `cluster` of config.json, checked."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from workloads._options import BadInputError, nearest, refuse

Role = Literal["worker", "server"]
MODES = ("ring", "ps_async", "ps_sync")
# What each transport of gradients can do. TensorFlow 2 has no servers that wait for all workers.
OWN = "strata"
TRANSPORTS = {OWN: MODES, "tensorflow": ("ring", "ps_async"), "mpi": ("ring",)}
PORTS = range(1, 65536)
KEY_BYTES = 16  # at least


@dataclass(frozen=True)
class Member:
    """A process of the cluster."""

    role: Role
    index: int
    address: str  # host:port, where its peers reach it

    @property
    def name(self) -> str:
        """`worker 0`."""
        return f"{self.role} {self.index}"

    def __str__(self) -> str:
        """As errors name it."""
        return f"{self.name} at {self.address}"

    @property
    def target(self) -> tuple[str, int]:
        """Host and port."""
        host, _, port = self.address.rpartition(":")
        return host.strip("[]"), int(port)


@dataclass(frozen=True)
class Place:
    """This process among its peers. Worker 0 is the chief."""

    mode: str
    me: Member
    workers: tuple[Member, ...]
    servers: tuple[Member, ...]
    listen: int
    key: bytes = field(repr=False)
    find_s: float  # how long peers are looked for
    silent_s: float  # how long one may say nothing

    KEYS: ClassVar[tuple[str, ...]] = (
        "mode", "role", "index", "workers", "servers", "listen", "key", "find_s", "silent_s",
    )  # fmt: skip

    @property
    def chief(self) -> Member:
        """Whose clock counts, and through whom all meet."""
        return self.workers[0]

    @property
    def members(self) -> tuple[Member, ...]:
        """All processes of the cluster."""
        return self.workers + self.servers

    @property
    def synchronous(self) -> bool:
        """Whether all workers have equal weights after each step."""
        return self.mode != "ps_async"

    @classmethod
    def parse(cls, given: Any) -> Self:
        """From config.json; BadInputError, which never holds the key."""
        check_keys("cluster", given, cls.KEYS, '{"mode": "ring", ...}')
        if given.get("mode") not in MODES:
            raise refuse("mode", f"must be one of {', '.join(MODES)}", "ring", given.get("mode"))
        workers, servers = _members("worker", given), _members("server", given)
        if not workers:
            raise refuse("workers", "must name at least one", '["10.0.0.1:29400"]', [])
        if bool(servers) != given["mode"].startswith("ps"):
            rule = "must name the parameter servers with ps_async and ps_sync, and none with ring"
            raise refuse("servers", rule, '["10.0.0.1:29401"]', [m.address for m in servers])
        return cls(
            mode=given["mode"],
            me=_me(given, workers, servers),
            workers=workers,
            servers=servers,
            listen=_port(given.get("listen")),
            key=key_of(given.get("key")),
            find_s=seconds_of("find_s", given.get("find_s")),
            silent_s=seconds_of("silent_s", given.get("silent_s")),
        )


def _members(role: Role, given: Mapping[str, Any]) -> tuple[Member, ...]:
    name = f"{role}s"
    addresses = given.get(name, [])
    if not isinstance(addresses, list):
        raise refuse(name, "must be a list of addresses", '["10.0.0.1:29400"]', addresses)
    for address in addresses:
        host, _, port = address.rpartition(":") if isinstance(address, str) else ("", "", "")
        if not host or not port.isdecimal() or int(port) not in PORTS:
            raise refuse(name, "an address must be HOST:PORT", "10.0.0.1:29400", address)
    if len(set(addresses)) < len(addresses):
        raise refuse(name, "every member must have an address of its own", "", addresses)
    return tuple(Member(role, index, address) for index, address in enumerate(addresses))


def _me(
    given: Mapping[str, Any], workers: tuple[Member, ...], servers: tuple[Member, ...]
) -> Member:
    role, index = given.get("role"), given.get("index")
    if role not in ("worker", "server"):
        raise refuse("role", "must be worker or server", "worker", role)
    peers = workers if role == "worker" else servers
    if type(index) is not int or not 0 <= index < len(peers):
        raise refuse("index", f"must be below the number of {role}s, {len(peers)}", 0, index)
    return peers[index]


def _port(given: Any) -> int:
    if type(given) is not int or given not in PORTS:
        raise refuse("listen", "must be a port, 1 to 65535", 29400, given)
    return given


def check_keys(what: str, given: Any, known: Collection[str], example: str) -> None:
    """BadInputError unless it is an object, with no keys but these."""
    if not isinstance(given, Mapping):
        raise refuse(what, "must be an object or null", example, given)
    for name in given:
        if name not in known:
            raise BadInputError(
                f"{what}: unknown key{nearest(name, known)}; "
                f"known: {', '.join(known)}; given: {name!r}"
            )


def key_of(given: Any) -> bytes:
    """The key of a trial, from its hexadecimal; BadInputError, which never holds it."""
    try:
        key = bytes.fromhex(given)
    except (TypeError, ValueError):
        key = b""
    if len(key) < KEY_BYTES:
        raise BadInputError(
            f"key: must be at least {KEY_BYTES} bytes in hexadecimal "
            "(example: what `openssl rand -hex 32` prints); given: something else"
        )
    return key


def seconds_of(name: str, given: Any) -> float:
    """A limit of time, checked."""
    if isinstance(given, bool) or not isinstance(given, int | float) or not 1 <= given < 1e6:  # noqa: PLR2004
        raise refuse(name, "must be a number of seconds, at least 1", 20, given)
    return float(given)
