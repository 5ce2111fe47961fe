"""Links of a rehearsal lab: shaped on both of their ends, and measured.

A node's link is a pair of virtual interfaces: `eth0` in the node and its peer on this machine. What
a node sends passes the queue of eth0, what it gets that of the peer, each at the link's rate. Delay
and loss are in what it sends.
"""

from __future__ import annotations

import contextlib
import json
import math
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import Refused
from ...host import counters
from .lab import Shape

# A burst of a millisecond is small beside any message and large beside a packet; ten milliseconds
# of queue are what a switch has.
BURST_S = 0.001
LEAST_BURST = 16 * 1024
QUEUE_S = 0.010
NETEM_PACKETS = 100_000
# How near to what was asked for a reading of tc has to be: it rounds to its own ticks.
ROUNDING = 0.01
# TCP's payload is 0.956 of what the queue counts, with 1,500 bytes a packet.
RATE_WITHIN = (0.93, 1.01)
MEASURE_S = 2
TRIES = 6
# The largest share of a rate that a machine takes from it on which some task waits at all times.
BUSY_COSTS = 0.5
PORT = 5201
LISTEN_S = 5.0
DELAY_WITHIN = 0.10
DELAY_SLACK_S = 0.001
LOSS_SIGMAS = 4.0
LOSS_WITHIN = 0.1
PINGS = 20
MICROSECONDS = 1e6


@dataclass(frozen=True)
class Node:
    """A running node: the id of its first process, and its address."""

    name: str
    pid: int
    address: str


@dataclass(frozen=True)
class End:
    """One of the two ends of a node's link: how to run tc there, and the interface."""

    prefix: list[str]
    interface: str
    is_node: bool


@dataclass(frozen=True)
class Reading:
    """What was measured from one node to another, and what was asked for, in `unit`."""

    source: str
    target: str
    what: str
    measured: float
    wanted: float
    unit: str
    good: bool
    stolen: float = 0.0  # CPUs of this machine that its hypervisor took meanwhile
    waited: float = 0.0  # share of the time (0..1) in which some task waited for a CPU

    @property
    def excused(self) -> bool:
        """Too little, by no more than what CPUs that were not to be had can explain.

        While a CPU stands still, or does something else, the bucket is full, and its tokens are
        lost. Measured at 1 Gb/s: 0.1 to 0.7 stolen CPUs cost half as large a share of the rate.
        """
        missing = RATE_WITHIN[0] - self.measured / self.wanted
        return not self.good and 0 <= missing <= max(self.stolen, BUSY_COSTS * self.waited)

    def line(self) -> str:
        text = (
            f"{self.source} to {self.target}: {self.what} {self.measured:.4g} {self.unit}"
            f" (asked {self.wanted:.4g})"
        )
        if self.excused and self.stolen > BUSY_COSTS * self.waited:
            text += f", while the hypervisor took {self.stolen:.2f} CPUs of this machine"
        elif self.excused:
            text += f", while programs waited for a CPU in {self.waited:.0%} of the time"
        return text


def ends(node: Node) -> list[End]:
    inside = ["nsenter", f"--target={node.pid}", "--net"]
    found = json.loads(_run([*inside, "ip", "-j", "link", "show", "dev", "eth0"]))
    peer = socket.if_indextoname(found[0]["link_index"])
    return [End(inside, "eth0", is_node=True), End([], peer, is_node=False)]


def wanted(shape: Shape, is_node: bool) -> list[tuple[str, dict[str, float]]]:
    """The queues of one end, the outer first, with what they do in SI units."""
    queues: list[tuple[str, dict[str, float]]] = []
    if is_node and (shape.delay or shape.loss):
        queues.append(("netem", {"delay": shape.delay, "loss": shape.loss}))
    if shape.rate:
        burst = max(shape.rate / 8 * BURST_S, LEAST_BURST)
        queues.append(("tbf", {"rate": shape.rate / 8, "burst": burst, "lat": QUEUE_S}))
    return queues


def present(end: End) -> list[tuple[str, dict[str, float]]]:
    """The queues that are there, of the kinds that shape, in the words of `wanted`."""
    text = _run([*end.prefix, "tc", "-j", "qdisc", "show", "dev", end.interface])
    return parse(json.loads(text))


def parse(found: list[dict[str, Any]]) -> list[tuple[str, dict[str, float]]]:
    """What tc shows as JSON, reduced to what `wanted` says."""
    queues: list[tuple[str, dict[str, float]]] = []
    for queue in found:
        options = queue.get("options", {})
        if queue["kind"] == "tbf":
            seen = {"rate": options["rate"], "burst": options["burst"]}
            queues.append(("tbf", {**seen, "lat": options["lat"] / MICROSECONDS}))
        elif queue["kind"] == "netem":
            delay = options.get("delay", {}).get("delay", 0.0)
            loss = options.get("loss-random", {}).get("loss", 0.0)
            queues.append(("netem", {"delay": delay, "loss": loss}))
    return queues


def same(
    one: list[tuple[str, dict[str, float]]], other: list[tuple[str, dict[str, float]]]
) -> bool:
    """Whether two lists of queues do the same, but for what tc rounds."""
    if [kind for kind, _ in one] != [kind for kind, _ in other]:
        return False
    return all(
        math.isclose(a[key], b[key], rel_tol=ROUNDING)
        for (_, a), (_, b) in zip(one, other, strict=True)
        for key in a
    )


def shape_end(end: End, queues: list[tuple[str, dict[str, float]]]) -> None:
    """Replace whatever is on this end. Raises Refused when the kernel has not such a queue."""
    tc = [*end.prefix, "tc", "qdisc"]
    # There may be nothing to delete.
    subprocess.run([*tc, "del", "dev", end.interface, "root"], capture_output=True, check=False)
    parent = ["root"]
    for number, (kind, does) in enumerate(queues, 1):
        handle = f"{number}:"
        _run(
            [
                *tc,
                "add",
                "dev",
                end.interface,
                *parent,
                "handle",
                handle,
                kind,
                *_options(kind, does),
            ]
        )
        parent = ["parent", f"{number}:1"]


def _options(kind: str, does: dict[str, float]) -> list[str]:
    if kind == "tbf":
        rate, burst = f"{does['rate'] * 8:.0f}bit", f"{does['burst']:.0f}"
        return ["rate", rate, "burst", burst, "latency", f"{does['lat'] * MICROSECONDS:.0f}us"]
    options = ["limit", str(NETEM_PACKETS)]
    if does["delay"]:
        options += ["delay", f"{does['delay'] * MICROSECONDS:.0f}us"]
    return options + (["loss", f"{does['loss'] * 100:.6g}%"] if does["loss"] else [])


# Measuring.


def pairs(nodes: list[Node]) -> list[tuple[Node | None, Node]]:
    """Who sends to whom, so that each link is used in each direction. None is this machine.

    In a ring every node sends once and gets once; a lone node does so with this machine.
    """
    if len(nodes) == 1:
        return [(None, nodes[0])]
    return list(zip(nodes, nodes[1:] + nodes[:1], strict=True))


def measure_rate(nodes: list[Node], shape: Shape) -> Iterator[Reading]:
    """TCP's goodput in Mbit/s, in each direction of each link."""
    for source, target in pairs(nodes):
        yield _tried(source, target, shape, reverse=False)
        if source is None:
            yield _tried(source, target, shape, reverse=True)


def _tried(source: Node | None, target: Node, shape: Shape, reverse: bool) -> Reading:
    """The first good reading, or the last: a busy machine is not a wrong link."""
    low, high = RATE_WITHIN
    here = source.name if source else "this machine"
    names = (target.name, here) if reverse else (here, target.name)
    options = [f"--time={MEASURE_S}", *(["--reverse"] if reverse else [])]
    for _ in range(TRIES):
        before = time.monotonic(), _stolen(), _waited()
        told = _iperf(source, target, options)
        took = time.monotonic() - before[0]
        stolen, waited = (_stolen() - before[1]) / took, (_waited() - before[2]) / took
        got = told["end"]["sum_received"]["bits_per_second"]
        good = low <= got / shape.rate <= high
        if good:
            break
    rates = (got / 1e6, shape.rate / 1e6)
    return Reading(*names, "TCP carries", *rates, "Mbit/s", good, stolen, waited)


def _stolen() -> float:
    """CPU seconds that a hypervisor has taken from this machine so far."""
    return counters.cpu(Path("/proc/stat").read_text()).steal


def _waited() -> float:
    """Seconds so far in which some task waited for a CPU here; 0 where the kernel does not say."""
    try:
        return counters.waited(Path("/proc/pressure/cpu").read_text())
    except OSError:
        return 0.0


def measure_delay(nodes: list[Node], shape: Shape) -> Iterator[Reading]:
    """Round-trip times in milliseconds. Both ends of a round trip delay, but for this machine."""
    for source, target in pairs(nodes):
        trips = 1 if source is None else 2
        text = _run(
            [*_at(source, target), "ping", "-q", "-c", str(PINGS), "-i", "0.05", target.address]
        )
        match = re.search(r"= [\d.]+/([\d.]+)/", text)
        got = float(match[1]) / 1e3 if match else math.inf
        asked = trips * shape.delay
        good = abs(got - asked) <= max(DELAY_WITHIN * asked, DELAY_SLACK_S)
        here = source.name if source else "this machine"
        yield Reading(here, target.name, "a round trip takes", got * 1e3, asked * 1e3, "ms", good)


def measure_loss(nodes: list[Node], shape: Shape) -> Iterator[Reading]:
    """Datagrams that did not arrive, in per cent, of what each node sends."""
    rate = min(shape.rate or math.inf, 1e8) / 4
    load = ["--udp", "--length=200", f"--bitrate={rate:.0f}", f"--time={MEASURE_S}"]
    for source, target in pairs(nodes):
        told = _iperf(source, target, [*load, *(["--reverse"] if source is None else [])])
        sent, lost = told["end"]["sum"]["packets"], told["end"]["sum"]["lost_packets"]
        chance = shape.loss
        spread = LOSS_SIGMAS * math.sqrt(chance * (1 - chance) / sent) + LOSS_WITHIN * chance
        good = abs(lost / sent - chance) <= spread
        names = (target.name, "this machine") if source is None else (source.name, target.name)
        yield Reading(*names, "loses", 100 * lost / sent, 100 * chance, "%", good)


def check(readings: list[Reading]) -> None:
    """Refuse a lab whose links do not do what was asked. Raises Refused."""
    bad = [reading.line() for reading in readings if not reading.good and not reading.excused]
    if bad:
        raise Refused(
            "a link was shaped and does not do what was asked",
            given="; ".join(bad),
            then="a machine that is busy, or slower than the rate, measures less:"
            " run it again, or ask for a lower rate",
        )


def _at(source: Node | None, other: Node) -> list[str]:
    """Run a node's program in that node; for this machine, `other`'s program in our network."""
    if source is None:
        return ["nsenter", f"--target={other.pid}", "--mount"]
    return ["nsenter", f"--target={source.pid}", "--mount", "--net"]


def _iperf(source: Node | None, target: Node, options: list[str]) -> dict[str, Any]:
    """What the client's iperf3 tells. Raises Refused when it fails."""
    client = [*_at(source, target), "iperf3", f"--client={target.address}", "--json", *options]
    with _server(target):
        done = subprocess.run(client, capture_output=True, text=True, check=False, timeout=60)
    told: dict[str, Any] = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "error" in told:
        raise Refused(
            f"the link to {target.name} could not be measured",
            given=str(told.get("error", done.stderr.strip())),
        )
    return told


@contextlib.contextmanager
def _server(node: Node) -> Iterator[None]:
    """An iperf3 in the node for one measurement; gone afterwards."""
    command = [*_at(node, node), "iperf3", "--server", "--one-off", f"--bind={node.address}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until_listening(node)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _until_listening(node: Node) -> None:
    """Look at its sockets: a connection made to try it would be the one test that it serves."""
    deadline = time.monotonic() + LISTEN_S
    listening = re.compile(rf":{PORT:04X} \S+ 0A ")
    while not listening.search(Path(f"/proc/{node.pid}/net/tcp").read_text()):
        if time.monotonic() > deadline:
            raise Refused(f"iperf3 does not listen in {node.name} after {LISTEN_S:.0f} s")
        time.sleep(0.02)


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Refused(f"{' '.join(command)} failed", given=done.stderr.strip())
    return done.stdout
