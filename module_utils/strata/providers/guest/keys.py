"""Host keys of hosts that are made: known before the first connection, and pinned."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ... import files
from ...errors import Refused

LOOK_S = 1.0


@dataclass(frozen=True)
class Guest:
    """A server that has begun: its id, its address, and its host key."""

    server: str
    address: str
    key: str

    def line(self) -> str:
        """That of known_hosts; its comment says which server the key was learnt of."""
        return f"{self.address} {self.key} {self.server}"


def known(path: Path) -> dict[str, tuple[str, str]]:
    """Address and key by server, as known_hosts has them."""
    lines = path.read_text().splitlines() if path.exists() else []
    fields = [line.split() for line in lines]
    return {server: (at, f"{kind} {key}") for at, kind, key, server in fields}


def write(path: Path, guests: Iterable[Guest]) -> bool:
    """Pin the keys; whether that changed anything."""
    text = "".join(sorted(f"{guest.line()}\n" for guest in guests))
    if path.exists() and path.read_text() == text:
        return False
    files.write(path, text.encode())
    return True


def own(folder: Path, host: str) -> tuple[str, str]:
    """The host key that the controller has made for a host: its private and its public half."""
    return (folder / f"host_key-{host}").read_text(), public(folder, host)


def public(folder: Path, host: str) -> str:
    return " ".join((folder / f"host_key-{host}.pub").read_text().split()[:2])


def answered(address: str) -> str:
    """The key that answers there; '' while nobody does."""
    command = ["ssh-keyscan", "-T", "3", "-t", "ed25519", address]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return said.partition(" ")[2].strip()


def wait(
    guests: Mapping[str, Guest], patience_s: float, reached: Callable[[str], str] = answered
) -> None:
    """Until each of the guests, by host, answers with its key.

    Raises Refused for one that does not within `patience_s` seconds.
    """
    left, deadline = dict(guests), time.monotonic() + patience_s
    while True:
        keys = {host: reached(guest.address) for host, guest in left.items()}
        left = {host: guest for host, guest in left.items() if keys[host] != guest.key}
        if not left:
            return
        if time.monotonic() > deadline:
            host, guest = next(iter(left.items()))
            how = "another host key answers" if keys[host] else "nobody answers"
            raise Refused(
                "a host that was made answers by SSH with the host key that it was given",
                given=f"{host}: {how} at {guest.address} after {patience_s:.0f} s",
                then="look at its console, and whether another machine has that address; "
                "the same command goes on",
            )
        time.sleep(LOOK_S)
