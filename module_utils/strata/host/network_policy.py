"""Whether a network enforces the policies of its cluster: by trying what one of them denies.

A cluster takes every policy, and says nothing where its network enforces none (flannel). Two pods
stand on each host, and a policy lets only the first of them, the admitted, reach the second, the
denied. The second tries to reach the second of each other host, from where nothing else is in
the way: the first reaches it, before and after.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from collections.abc import Mapping
from functools import partial

from ..errors import Refused
from ..members import FIRST_PORT
from .network_path import REFUSED, within

PATIENCE_S = 20.0  # for the admitted: both pods may just have come
# A policy is in force a few seconds after its pod is there; one that is not by then never is.
SETTLED_S = 5.0
ANSWER_S = 1.0


def enforced(admitted: str, denied: str, peers: Mapping[str, str], stood: float = 0) -> bool:
    """Whether a policy that denies is enforced on the way to each of the peers.

    `admitted` and `denied` are the paths of the pods' network namespaces; `peers` are the addresses
    of the pods behind the policy, by host; all of them have stood for `stood` seconds. Raises
    Refused where the admitted is not answered, and where the network enforces it on the way to
    some peers only.
    """
    for host, address in peers.items():
        _expect(admitted, host, address)
    reached, deadline = set(peers), time.monotonic() + SETTLED_S - stood
    while reached := {host for host in reached if _reaches(denied, peers[host])}:
        if time.monotonic() > deadline:
            break
        time.sleep(ANSWER_S / 4)
    # That it is not answered says something only where the other still is.
    for host in peers.keys() - reached:
        _expect(admitted, host, peers[host])
    if not peers or reached not in (set(), peers.keys()):
        said = {host: "not enforced" if host in reached else "enforced" for host in peers}
        raise Refused(
            "a network enforces policies on the way to all hosts, or to none",
            given=", ".join(f"to {host} {how}" for host, how in said.items()) or "no other host",
        )
    return not reached


def _expect(admitted: str, host: str, address: str) -> None:
    """Raises Refused where the admitted is not answered."""
    deadline = time.monotonic() + PATIENCE_S
    while not _reaches(admitted, address):
        if time.monotonic() > deadline:
            raise Refused(
                "a pod that a policy admits is answered",
                given=f"no answer from the pod at {address} on {host}",
                then="look whether other policies of the cluster select it, and into the"
                " network's log",
            )


def _reaches(namespace: str, address: str) -> bool:
    return within(namespace, partial(_answers, address))


def _answers(address: str) -> bool:
    """Whether a peer says anything over TCP: nobody need listen there."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) as one:
        one.settimeout(ANSWER_S)
        try:
            code = one.connect_ex((address, FIRST_PORT))
        except TimeoutError:
            return False
    if code in REFUSED:
        return True
    if code in (errno.EAGAIN, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH):
        return False
    raise OSError(code, os.strerror(code), address)
