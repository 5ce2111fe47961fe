"""The account of a trial: a number that nobody else on the machine has.

It has no name and no home, and nothing is written down about it: a process has it, and its files.
"""

from __future__ import annotations

import grp
import os
import pwd
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from ..errors import Refused

# The last of those that systemd leaves to nobody (https://systemd.io/UIDS-GIDS), and Docker's last.
HIGHEST = 2**31 - 1
SPAN = 2**16
LOWEST = 1000  # below it are those of the distribution
# Others take them on any machine: images for "nonroot", nobody, nobody in 16 bits.
COMMON = {65532, 65534, 65535}
TRIES = 1000
MAPS = ("/proc/self/uid_map", "/proc/self/gid_map")
SUBORDINATE = ("/etc/subuid", "/etc/subgid")


def own(taken: set[int]) -> int:
    """A number of a user and of a group that is nobody's, and not in `taken`; it is added there.

    No account has it, no running process, no range that is kept for containers of others. Without
    root there is no choice: it is that of whoever runs the modules. Raises Refused.
    """
    if os.geteuid() != 0:
        return os.geteuid()
    highest = min(HIGHEST, *(_highest(Path(path).read_text()) for path in MAPS))
    lowest = max(LOWEST, highest - SPAN)
    used, ranges = of_processes(Path("/proc")) | COMMON | taken, _subordinate()
    for _ in range(TRIES):
        number = lowest + secrets.randbelow(highest - lowest + 1)
        if number not in used and not _named(number) and not any(number in r for r in ranges):
            taken.add(number)
            return number
    raise Refused(
        "a trial runs as an account that nobody else on this host has",
        given=f"from {lowest} to {highest} all that were tried are somebody's",
        then="make room there: see /etc/passwd, /etc/group, /etc/subuid and /etc/subgid",
    )


def of_processes(proc: Path) -> set[int]:
    """The users and groups of all processes."""
    return {number for path in proc.glob("[0-9]*/status") for number in _of_status(path)}


def _of_status(path: Path) -> Iterator[int]:
    try:
        text = path.read_text()
    except OSError:  # it has ended
        return
    for line in re.findall(r"^(?:Uid|Gid|Groups):(.*)", text, re.MULTILINE):
        yield from map(int, line.split())


def _highest(text: str) -> int:
    """The last number that is mapped here: a machine that is a container may have few."""
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    return max(first + length - 1 for first, _, length in rows)


def _subordinate() -> list[range]:
    """What is kept for the containers of this machine's accounts: lines of `name:first:count`."""
    found = []
    for path in map(Path, SUBORDINATE):
        for line in path.read_text().splitlines() if path.exists() else []:
            _, _, rest = line.partition(":")
            first, _, count = rest.partition(":")
            if first.isdigit() and count.isdigit():
                found.append(range(int(first), int(first) + int(count)))
    return found


def _named(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(number)
        except KeyError:
            continue
        return True
    return False
