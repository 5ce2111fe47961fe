"""Rendezvous, handshake, ring: processes and sockets, without TensorFlow."""

import json
import multiprocessing
import os
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise, permutations
from typing import Any

import pytest
from peers import KEY, ROOT, STARTED, clusters

from tests.conftest import PATIENCE_S

np = pytest.importorskip("numpy")

from workloads import _goodput, _ring, _wire  # noqa: E402
from workloads._cluster import Team  # noqa: E402
from workloads._options import BadInputError  # noqa: E402
from workloads._place import Place  # noqa: E402
from workloads._ring import Ring  # noqa: E402
from workloads._servers import cuts  # noqa: E402
from workloads._wire import PeerError  # noqa: E402

SPAWN = multiprocessing.get_context("spawn")
SIZES = (1, 2, 3, 7, 65_537, 300_001)


def vector(index: int, size: int) -> Any:
    return np.random.default_rng([index, size]).integers(-999, 999, size).astype(np.float32)


def sums(cluster: dict[str, Any], count: int, answers: Any) -> None:
    """A member of a ring: what differs from the sum, and the digest of what it has."""
    team = Team(Place.parse(cluster))
    ring = Ring(team.index, count, team.ring())
    wrong = []
    for size in SIZES:
        found = vector(team.index, size)
        ring.reduce(found, scale=0.5)
        if (found != 0.5 * sum(vector(n, size) for n in range(count))).any():
            wrong.append(size)
    team.synchronise()
    offset, error = team.clock()
    team.meet("end")
    answers.put((team.index, wrong, abs(offset) <= error))


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_the_ring_sums(count: int) -> None:
    answers = SPAWN.Queue()
    members = [
        SPAWN.Process(target=sums, args=(cluster, count, answers))
        for cluster in clusters("ring", count)
    ]
    for member in members:
        member.start()
    found = sorted(answers.get(timeout=PATIENCE_S) for _ in members)
    for member in members:
        member.join(10)
    assert [(index, wrong) for index, wrong, _ in found] == [(n, []) for n in range(count)]
    assert all(clocks_agree for *_, clocks_agree in found)  # one machine, one clock


def together(told: list[dict[str, Any]], work: Any) -> list[Any]:
    """Runs `work(place)` for each in a thread; what it returned or raised."""
    found: list[Any] = [None] * len(told)

    def run(number: int) -> None:
        try:
            found[number] = work(Place.parse(told[number]))
        except Exception as error:
            found[number] = error

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(told))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    return found


def test_a_wrong_key_is_not_let_in() -> None:
    told = clusters("ring", 2, find_s=1.5)
    told[1]["key"] = "a5" * 16
    found = together(told, _wire.find)
    assert all(isinstance(error, PeerError) for error in found)
    assert str(found[0]).startswith("peers not found within 1.5 s: worker 1 at 127.0.0.1:")
    assert "refused the key" in str(found[0])
    assert "refused the key" in str(found[1])


def test_peers_that_are_missing_are_named() -> None:
    told = clusters("ps_sync", 2, 1, find_s=1)
    (error,) = together(told[:1], _wire.find)
    assert isinstance(error, PeerError)
    assert error.status == 75
    assert f"worker 1 at {told[0]['workers'][1]} (it did not connect" in str(error)
    assert f"server 0 at {told[0]['servers'][0]} (Connection refused)" in str(error)


def scan(port: int, stop: threading.Event) -> None:
    """A port scanner: connects and sends nothing, garbage, or half a handshake."""
    held = []
    for content in [b"", b"GET / HTTP/1.1\r\n\r\n", os.urandom(4096), _wire.MAGIC * 5] * 5:
        try:
            stray = socket.create_connection(("127.0.0.1", port), 1)
            stray.sendall(content)
            held.append(stray)
        except OSError:
            time.sleep(0.02)
    stop.wait(PATIENCE_S)
    for each in held:
        each.close()


def test_strays_disturb_nobody() -> None:
    told = clusters("ring", 2)
    stop = threading.Event()
    scanner = threading.Thread(target=scan, args=(told[0]["listen"], stop))

    def late(place: Place) -> Any:
        if place.me.index == 0:
            scanner.start()
        else:
            time.sleep(0.5)  # the strays come first
        team = Team(place)
        values = team.meet("here", place.me.index)
        team.links.close()
        return values

    try:
        expected = {"worker 0": 0, "worker 1": 1}
        assert together(told, late) == [expected, expected]
    finally:
        stop.set()
        scanner.join()
    with pytest.raises(ConnectionRefusedError):  # nothing listens after the rendezvous
        socket.create_connection(("127.0.0.1", told[0]["listen"]), 1).close()


def test_every_path_is_measured_in_every_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_goodput, "WARMUP_S", 0.05)
    monkeypatch.setattr(_goodput, "MEASURED_S", 0.05)

    def measured(place: Place) -> dict[str, dict[str, float]]:
        team = Team(place)
        team.measure_paths()
        team.meet("end")
        team.links.close()
        return team.paths

    ring = [("worker 0", "worker 2"), ("worker 1", "worker 0"), ("worker 2", "worker 1")]
    star = [
        pair
        for s in (0, 1)
        for w in (0, 1)
        for pair in permutations((f"worker {w}", f"server {s}"))
    ]
    for told, expected in ((clusters("ring", 3), ring), (clusters("ps_sync", 2, 2), star)):
        found = together(told, measured)
        assert found == [found[0]] * len(told), "all know of all"
        rates = {(to, source): rate for to, by in found[0].items() for source, rate in by.items()}
        assert sorted(rates) == sorted(expected)
        assert min(rates.values()) > 1e6


def test_cuts_cover_the_vector() -> None:
    for length in (64, 79_520, 1_000_000):
        for count in (1, 2, 3):
            found = cuts(length, count)
            assert (found[0][0], found[-1][1]) == (0, length)
            assert all(a[1] == b[0] for a, b in pairwise(found))
            assert all(begin % 16 == 0 and end > begin for begin, end in found)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mode": "star"}, "mode: must be one of ring"),
        ({"index": 2}, "index: must be below the number of workers, 2"),
        ({"role": "boss"}, "role: must be worker or server"),
        ({"workers": ["10.0.0.1"]}, "must be HOST:PORT"),
        ({"servers": ["a:1"]}, "none with ring"),
        ({"listen": 0}, "listen: must be a port"),
        ({"silent_s": 0}, "silent_s: must be a number of seconds"),
        ({"kez": "1"}, "did you mean key?"),
        ({"key": "secret"}, "at least 16 bytes"),
    ],
)
def test_a_bad_cluster_is_refused(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError) as error:
        Place.parse(clusters("ring", 2)[0] | change)
    assert reason in str(error.value)
    assert "secret" not in str(error.value)
    assert KEY not in repr(Place.parse(clusters("ring", 2)[0]))


# A member of a ring as a process: a pause, then rounds until it fails.
MEMBER = """
import json, sys, time, numpy
from workloads._cluster import Team
from workloads._place import Place
from workloads._ring import Ring
told = json.loads(sys.argv[1])
team = Team(Place.parse(told))
ring, vector = Ring(team.index, 2, team.ring()), numpy.ones(4_000_000, numpy.float32)
team.meet("begin")
print("begun", flush=True)
time.sleep(told["index"] * float(sys.argv[2]))
for _ in range(int(sys.argv[3])):
    ring.reduce(vector, 0.5)
team.meet("end")
print("done", flush=True)
"""


def member(told: dict[str, Any], pause: float, rounds: int, *prefix: str) -> Any:
    process = subprocess.Popen(
        [*prefix, sys.executable, "-c", MEMBER, json.dumps(told), str(pause), str(rounds)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )

    def end() -> None:
        process.kill()
        process.communicate()

    STARTED.append(end)
    return process


def test_a_peer_that_computes_for_long_is_not_lost() -> None:
    processes = [member(told, 3.0, 2) for told in clusters("ring", 2, silent_s=1)]
    for process in processes:
        said, error = process.communicate(timeout=PATIENCE_S)
        assert said.endswith("done\n"), error


def test_a_peer_that_was_killed_is_named_at_once() -> None:
    told = clusters("ring", 2)
    processes = [member(each, 0, 100_000) for each in told]
    assert processes[1].stdout.readline() == "begun\n"
    time.sleep(0.3)
    processes[1].kill()
    _, error = processes[0].communicate(timeout=PATIENCE_S)
    assert f"worker 1 at {told[0]['workers'][1]} was lost" in error


@pytest.fixture
def nodes() -> Iterator[list[str]]:
    """Two network namespaces, and the one of the bridge between them."""
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces cannot be made without")
    names = [f"peers{os.getpid()}-{n}" for n in range(3)]
    switch = names[2]
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
        ip(switch, "link", "add", "br0", "up", "type", "bridge")
        for number, name in enumerate(names[:2]):
            port = f"port{number}"
            ip(switch, "link", "add", port, "type", "veth", "peer", "eth0", "netns", name)
            ip(switch, "link", "set", port, "master", "br0", "up")
            ip(name, "address", "add", f"10.231.78.{number + 1}/24", "dev", "eth0")
            ip(name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def ip(namespace: str, *arguments: str) -> None:
    subprocess.run(["ip", "-n", namespace, *arguments], check=True)


@pytest.mark.root
@pytest.mark.parametrize("pause", [0, 900])  # in the middle of data, and while all is quiet
def test_a_peer_behind_a_cut_cable_is_noticed(nodes: list[str], pause: float) -> None:
    told = clusters("ring", 2, silent_s=2)
    for each in told:
        each["workers"] = ["10.231.78.1:29400", "10.231.78.2:29400"]
        each["listen"] = 29400
    processes = [
        member(each, pause, 100_000, "ip", "netns", "exec", name)
        for each, name in zip(told, nodes, strict=False)
    ]
    assert [process.stdout.readline() for process in processes] == ["begun\n"] * 2
    time.sleep(0.5)
    ip(nodes[2], "link", "set", "port1", "nomaster")  # both nodes still have their carrier
    _, error = processes[0].communicate(timeout=PATIENCE_S)
    assert "worker 1 at 10.231.78.2:29400 was lost: Connection timed out" in error, error


def test_why_a_peer_was_lost_stands_behind_what_it_had_sent() -> None:
    """One that is ahead has said that it is ready for the next vector, and nobody has read it."""
    (onward, after), (inward, before) = pair(), pair()
    next_ = Place.parse(clusters("ring", 2)[0]).workers[1]
    links = _wire.Link(onward, next_, 60), _wire.Link(inward, next_, 60)
    lost: list[PeerError] = []

    def reduce() -> None:
        try:
            Ring(0, 2, links).reduce(np.ones(8, np.float32))
        except PeerError as error:
            lost.append(error)

    thread = threading.Thread(target=reduce)
    thread.start()
    after.sendall(_ring.READY * 2)
    assert len(after.recv(16, socket.MSG_WAITALL)) == 16  # all of the chunk: it awaits the other
    after.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    after.close()  # with a reset, as a kernel says that it knows nothing of the connection
    thread.join(PATIENCE_S)
    assert [str(error) for error in lost] == [f"{next_} was lost: Connection reset by peer"]
    before.close()
    for link in links:
        link.close()


def test_a_message_that_no_peer_sends_is_refused() -> None:
    ours, theirs = pair()
    link = _wire.Link(ours, Place.parse(clusters("ring", 2)[0]).workers[1], 5)
    theirs.sendall(struct.pack("<I", 1 << 30))
    with pytest.raises(PeerError, match="which no peer does"):
        link.hear()
    link.close()
    theirs.close()


def pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        theirs = socket.create_connection(listener.getsockname())
        return listener.accept()[0], theirs
