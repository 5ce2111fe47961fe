"""How much of a link does the exchange of gradients use? As root: python benchmarks/all_reduce.py

Makes nodes (network namespaces) joined by a bridge, each link shaped to a rate in both
directions, and takes in turn, in random order in each round:

    stream    plain TCP around the ring, both directions of each link in use: the goodput
    ring      the workloads' own ring
    tf        TensorFlow's ring over gRPC (MultiWorkerMirroredStrategy)
    mpi       MPICH's all-reduce, by the algorithm that it takes for the size
    mpi_ring  the same, told to take its ring
    servers   synchronous exchange with one parameter server on a node of its own

A ratio is the limit over the time, within its round: 2 (n - 1) / n x bytes / goodput for rings, n x
bytes / goodput for the parameter server. Printed: the median of the rounds, and their range.
"""

import argparse
import json
import os
import random
import secrets
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

KINDS = ("stream", "ring", "tf", "mpi", "mpi_ring", "servers")
NETWORK = "10.231.77"
PORTS = {kind: 29400 + number for number, kind in enumerate(KINDS)}
TAKE_RING = {"MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM": "ring"}
STREAM_S = 1.0
ROUND_S = 120.0
UNITS = {"gbit": 1e9, "mbit": 1e6, "kbit": 1e3}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rate", default="1gbit", help="of each link and direction (tbf)")
    parser.add_argument("--nodes", type=int, default=2, help="workers")
    parser.add_argument("--bytes", type=int, default=102_000_000, help="of a gradient")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--member", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.member:
        member(json.loads(given.member))
        return
    if os.geteuid() != 0:
        parser.error("needs root: network namespaces cannot be made without")
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    with namespaces(given.nodes + 1, given.rate) as nodes:
        compare(given, nodes)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def namespaces(count: int, rate: str) -> Iterator[list[str]]:
    """Nodes on a bridge; it has a namespace of its own, where no firewall of the host looks."""
    prefix = f"allreduce{os.getpid()}"
    switch, nodes = f"{prefix}-switch", [f"{prefix}-{number}" for number in range(count)]
    made = []
    try:
        for name in (switch, *nodes):
            ip("netns", "add", name)
            made.append(name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", switch, "link", "add", "br0", "up", "type", "bridge")
        for number, node in enumerate(nodes):
            peer = f"port{number}"
            ip("-n", switch, "link", "add", peer, "type", "veth", "peer", "eth0", "netns", node)
            ip("-n", switch, "link", "set", peer, "master", "br0", "up")
            ip("-n", node, "address", "add", f"{NETWORK}.{number + 1}/24", "dev", "eth0")
            ip("-n", node, "link", "set", "eth0", "up")
            shape(switch, peer, rate)
            shape(node, "eth0", rate)
        yield nodes
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # an impatient second Ctrl-C
            signal.signal(number, signal.SIG_IGN)
        for name in reversed(made):
            subprocess.run(["ip", "netns", "delete", name], check=False)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def shape(namespace: str, device: str, rate: str) -> None:
    """A token bucket for what leaves the device."""
    burst = max(128 * 1024, int(bits_per_second(rate) / 8 / 250))
    subprocess.run(
        ["tc", "-n", namespace, "qdisc", "add", "dev", device, "root", "tbf", "rate", rate,
         "burst", str(burst), "latency", "20ms"],
        check=True,
    )  # fmt: skip


def bits_per_second(rate: str) -> float:
    """Of `1gbit` or `200mbit`."""
    for unit, factor in UNITS.items():
        if rate.endswith(unit):
            return float(rate.removesuffix(unit)) * factor
    raise SystemExit(f"--rate: needs a unit, kbit, mbit or gbit (example: 1gbit); given: {rate}")


class Group:
    """The processes of one kind, one on each node."""

    def __init__(self, kind: str, nodes: list[str], size: int) -> None:
        self.kind = kind
        key, workers = secrets.token_hex(16), nodes[:-1]
        hosts = [f"{NETWORK}.{number + 1}" for number in range(len(nodes))]
        addresses = [f"{host}:{PORTS[kind]}" for host in hosts]
        self.processes = []
        for number, node in enumerate(nodes if kind == "servers" else workers):
            server = number == len(workers)
            cluster = {
                "mode": "ps_sync" if kind == "servers" else "ring",
                "role": "server" if server else "worker",
                "index": 0 if server else number,
                "workers": addresses[:-1],
                "servers": addresses[-1:] if kind == "servers" else [],
                "listen": PORTS[kind],
                "key": key,
                "find_s": ROUND_S,
                "silent_s": ROUND_S,
            }
            told = json.dumps({"kind": kind, "bytes": size, "cluster": cluster})
            self.processes.append(start(node, told, quiet=kind == "tf"))
        for process in self.processes:
            _hear(process)

    def round(self) -> list[float]:
        """What each process says of one round."""
        for process in self.processes:
            _pipe(process.stdin).write("go\n")
            _pipe(process.stdin).flush()
        return [_hear(process) for process in self.processes]

    def end(self) -> None:
        for process in reversed(self.processes):  # the server first: it would complain
            process.kill()
        for process in self.processes:
            process.wait()


def start(node: str, told: str, quiet: bool) -> subprocess.Popen[str]:
    command = ["ip", "netns", "exec", node, sys.executable, __file__, "--member", told]
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL if quiet else None,
        env=environment,
        text=True,
    )


def _pipe(pipe: IO[str] | None) -> IO[str]:
    assert pipe is not None  # noqa: S101 - it was asked for
    return pipe


def _hear(process: subprocess.Popen[str]) -> float:
    for line in _pipe(process.stdout):
        if line.startswith("said "):
            return float(line.split()[1])
    raise SystemExit(f"a process ended with {process.wait()}; its last words are above")


def compare(given: argparse.Namespace, nodes: list[str]) -> None:
    """Runs the rounds and prints the table."""
    order, groups = random.Random(1), list[Group]()  # noqa: S311  no secret
    ratios: dict[str, list[float]] = {kind: [] for kind in given.kinds if kind != "stream"}
    seconds: dict[str, list[float]] = {kind: [] for kind in ratios}
    goodputs = []
    try:
        for kind in dict.fromkeys(["stream", *given.kinds]):
            groups.append(Group(kind, nodes, given.bytes))
        for group in groups:  # not counted: TCP, TensorFlow and the servers warm up
            group.round()
        for _ in range(given.rounds):
            found = {}
            for group in order.sample(groups, len(groups)):
                found[group.kind] = group.round()
            goodput = min(found["stream"])
            goodputs.append(goodput)
            for kind, times in ratios.items():
                took = max(found[kind])
                seconds[kind].append(took)
                times.append(moved(kind, given.nodes, given.bytes) / goodput / took)
    finally:
        for group in groups:
            group.end()
    print(f"{given.nodes} nodes, {given.rate}, {given.bytes / 1e6:.0f} MB, {given.rounds} rounds")
    print(f"goodput    {spread([8 * g / 1e9 for g in goodputs])} Gb/s")
    for kind, values in ratios.items():
        print(f"{kind:10} {spread(values)} of the limit, {spread(seconds[kind])} s")


def moved(kind: str, workers: int, size: int) -> float:
    """Bytes on the busiest link in one direction."""
    return workers * size if kind == "servers" else 2 * (workers - 1) / workers * size


def spread(values: list[float]) -> str:
    """Median and range."""
    return f"{statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})"


def member(told: dict[str, Any]) -> None:
    """One process: does a round for each line that comes."""
    kinds = {"ring": _ring, "tf": _tensorflow, "stream": _stream, "servers": _servers}
    kinds |= {"mpi": _mpi, "mpi_ring": _mpi}
    do = kinds[told["kind"]](told)
    print("said 0", flush=True)
    for _ in sys.stdin:
        print(f"said {do()}", flush=True)


def _team(told: dict[str, Any]) -> Any:
    from workloads._cluster import Team  # noqa: PLC0415
    from workloads._place import Place  # noqa: PLC0415

    return Team(Place.parse(told["cluster"]))


def _timed(team: Any, work: Callable[[], Any]) -> float:
    team.meet("round")
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def _stream(told: dict[str, Any]) -> Callable[[], float]:
    from workloads import _goodput  # noqa: PLC0415

    team = _team(told)
    onward, inward = team.ring()
    _goodput.MEASURED_S = STREAM_S

    def once() -> float:
        team.meet("stream")
        return sum(_goodput.measure([onward], [inward]).values())

    return once


def _ring(told: dict[str, Any]) -> Callable[[], float]:
    import numpy as np  # noqa: PLC0415

    from workloads._ring import Ring  # noqa: PLC0415

    team = _team(told)
    ring = Ring(team.index, team.workers, team.ring())
    vector = np.ones(told["bytes"] // 4, np.float32)
    return lambda: _timed(team, lambda: ring.reduce(vector, 1 / team.workers))


def _mpi(told: dict[str, Any]) -> Callable[[], float]:
    import numpy as np  # noqa: PLC0415

    from workloads._mpi import World  # noqa: PLC0415

    if told["kind"] == "mpi_ring":
        os.environ |= TAKE_RING
    team = _team(told)
    world = World(team)
    vector = np.ones(told["bytes"] // 4, np.float32)
    return lambda: _timed(team, lambda: world.reduce(vector, 1 / team.workers))


def _servers(told: dict[str, Any]) -> Callable[[], float]:
    import threading  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415

    from workloads._servers import Client, Server, aligned  # noqa: PLC0415

    team, length = _team(told), told["bytes"] // 4
    if team.serves:
        from workloads import _optimizers  # noqa: PLC0415

        server = Server(team.data, lambda: _optimizers.make("sgd", 0.01), synchronous=True)
        server.prepare()
        team.meet("ready")
        threading.Thread(target=server.serve, daemon=True).start()
        return lambda: 0.0 * len(team.meet("round"))
    client, values = Client(team.data, length), aligned(length)
    if team.chief:
        client.give(values)
    team.meet("ready")
    gradient = np.ones(length, np.float32)
    return lambda: _timed(team, lambda: client.exchange(gradient, values, ending=False))


def _tensorflow(told: dict[str, Any]) -> Callable[[], float]:
    cluster = told["cluster"]
    os.environ["TF_CONFIG"] = json.dumps({
        "cluster": {"worker": cluster["workers"]},
        "task": {"type": "worker", "index": cluster["index"]},
    })  # fmt: skip
    import tensorflow as tf  # noqa: PLC0415

    options = tf.distribute.experimental.CommunicationOptions(
        implementation=tf.distribute.experimental.CommunicationImplementation.RING
    )
    strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
    big, small = tf.ones([told["bytes"] // 4]), tf.ones([1])

    @tf.function(reduce_retracing=False)  # type: ignore[untyped-decorator]
    def reduce(vector: Any) -> Any:
        def in_replica() -> Any:
            context = tf.distribute.get_replica_context()
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.identity(vector))

        return strategy.run(in_replica)[:1]

    def once() -> float:
        float(reduce(small)[0])  # all are here
        begin = time.monotonic()
        float(reduce(big)[0])
        return time.monotonic() - begin

    return once


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
