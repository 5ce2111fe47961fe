"""A rehearsal lab on paper: its settings, and what tc, apt and the kernel say about them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from strata.errors import Refused
from strata.host.owned import Folder
from strata.providers.rehearsal import base, disks, links
from strata.providers.rehearsal import lab as rehearsal
from strata.providers.rehearsal.lab import Shape
from strata.providers.rehearsal.leftovers import Trace

GIVEN = {
    **{"name": "strata", "nodes": 3, "hosts": {}, "subnet": "10.201.7.0/24", "cache": "/cache"},
    **{"rate": "1gbit", "delay": "none", "loss": "none", "memory": "6G", "disk": "20G", "cpus": 0},
}
# iproute2 6.1: `tc -j qdisc show dev eth0` after `tbf rate 1gbit burst 125000 latency 10ms`.
TBF = """[{"kind":"tbf","handle":"1:","root":true,"refcnt":2,
"options":{"rate":125000000,"burst":125000,"lat":10000}}]"""
# Written after the source of iproute2 6.1 (q_netem.c): no machine with netem was at hand.
NETEM = """[{"kind":"netem","handle":"1:","root":true,"refcnt":2,"options":{"limit":100000,
"delay":{"delay":0.02,"jitter":0,"correlation":0},"loss-random":{"loss":0.01,"correlation":0},
"ecn":false,"gap":0}},{"kind":"tbf","handle":"2:","parent":"1:1",
"options":{"rate":125000000,"burst":124994,"lat":10000}}]"""


def test_everything_of_a_lab_bears_its_name() -> None:
    lab = rehearsal.lab({**GIVEN, "name": "other", "nodes": 2})
    assert [node.address for node in lab.nodes] == ["10.201.7.11", "10.201.7.12"]
    assert (lab.network, lab.bridge, lab.gateway) == ("rehearsal-other", "rh-other", "10.201.7.1")
    for node in lab.nodes:
        named = (node.container, node.folder, node.cgroup, *node.volumes.values())
        assert all("other" in name for name in named)
        assert all(node.name in name for name in named)


def test_names_fit_what_the_kernel_allows() -> None:
    lab = rehearsal.lab({**GIVEN, "name": "a123456789"})
    assert len(lab.bridge) < 16, "an interface's name"
    assert len(f"{lab.control}/0123456789.0123456789abcdef") < 108, "a socket's path"


def test_the_hosts_of_a_testbed_are_where_the_inventory_says() -> None:
    hosts = {"b-2": "10.201.7.40", "a": "10.201.7.11"}
    lab = rehearsal.lab({**GIVEN, "nodes": 1, "hosts": hosts})
    assert {node.name: node.address for node in lab.nodes} == hosts


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ({"node_1": "10.201.7.11"}, "letters, digits and -"),
        ({"n" * 31: "10.201.7.11"}, "up to 30"),
        ({"a": ""}, "strata_address: 10.201.7.254"),
        ({"a": "10.201.8.11"}, "in the lab's subnet"),
        ({"a": "10.201.7.1"}, "in the lab's subnet"),
        ({"a": "10.201.7.255"}, "in the lab's subnet"),
        ({"a": "10.201.7.11", "b": "10.201.7.11"}, "an address of its own"),
    ],
)
def test_hosts_that_a_lab_cannot_have_are_refused(hosts: dict[str, str], words: str) -> None:
    with pytest.raises(Refused) as refused:
        rehearsal.lab({**GIVEN, "hosts": hosts})
    assert words in str(refused.value)


@pytest.mark.parametrize(("there", "asked"), [("lab-1", "lab-2"), ("", "lab-1"), ("lab-1", "")])
def test_a_lab_of_another_testbed_is_let_be(there: str, asked: str) -> None:
    labels = {rehearsal.TESTBED: there} if there else {}
    nodes = [SimpleNamespace(name="rehearsal-x-node1", labels=labels)]
    rehearsal.check_testbed(nodes, "x", there)
    rehearsal.check_testbed([], "x", asked)
    with pytest.raises(Refused, match="hosts of one testbed") as refused:
        rehearsal.check_testbed(nodes, "x", asked)
    assert (f"of the testbed {there}" if there else "of none") in str(refused.value)
    assert "-e rehearsal_lab=x -e state=absent" in str(refused.value)


def trace(cache: Path, inventory: Path) -> Trace:
    """Of a lab that has no more than files."""
    lab = rehearsal.lab({**GIVEN, "name": "none", "cache": str(cache)})
    control = cache.parent / "control"
    names = ("rh-none", "rehearsal-none", Path(lab.folder))
    return Trace("none", *names, control, inventory / "nodes.yml")


def test_a_labs_files_go_and_the_cache_with_the_last_of_them(tmp_path: Path) -> None:
    cache, inventory = tmp_path / "cache", tmp_path / "inventory"
    Folder(cache, "cache").claim()
    inventory.mkdir()
    (inventory / "nodes.yml").write_text(f"---\n{rehearsal.claim('none')}\n")
    rehearsal.check_inventory(inventory, "none")
    of_lab = trace(cache, inventory)
    (of_lab.folder / "node1").mkdir(parents=True)
    of_lab.remove()
    assert list(inventory.iterdir()) == []
    assert not cache.exists()


def test_files_of_a_user_are_not_the_labs(tmp_path: Path) -> None:
    cache, inventory = tmp_path / "cache", tmp_path / "inventory"
    mine = inventory / "nodes.yml"
    inventory.mkdir()
    mine.write_text(f"all: {{}} # {rehearsal.claim('none')}\n{rehearsal.claim('other')}\n")
    with pytest.raises(Refused, match="is written for lab none") as refused:
        rehearsal.check_inventory(inventory, "none")
    assert str(mine) in str(refused.value) and "rehearsal_inventory=FOLDER" in str(refused.value)
    of_lab = trace(cache, inventory)
    of_lab.remove()
    assert mine.exists()
    of_lab.folder.mkdir(parents=True)
    with pytest.raises(Refused, match="only what is in Strata's own cache"):
        of_lab.remove()
    assert of_lab.folder.exists()


@pytest.mark.parametrize(
    ("text", "value"), [("1gbit", 1e9), ("100Mbit", 1e8), ("2.5 gbit", 2.5e9), ("none", 0)]
)
def test_rates(text: str, value: float) -> None:
    assert rehearsal.rate(text) == value


@pytest.mark.parametrize("text", ["fast", "1", "1gb", "-1gbit", "0.5kbit", "1tbit", "gbit"])
def test_rates_that_are_none(text: str) -> None:
    with pytest.raises(Refused, match="1gbit"):
        rehearsal.rate(text)


@pytest.mark.parametrize(("text", "value"), [("20ms", 0.02), ("500us", 5e-4), ("none", 0)])
def test_delays(text: str, value: float) -> None:
    assert rehearsal.delay(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["20", "11s", "0ms", "soon"])
def test_delays_that_are_none(text: str) -> None:
    with pytest.raises(Refused, match="20ms"):
        rehearsal.delay(text)


def test_losses() -> None:
    assert rehearsal.loss("0.5%") == pytest.approx(0.005)
    for text in ("0.5", "51%", "0%", "much"):
        with pytest.raises(Refused, match=r"0\.5%"):
            rehearsal.loss(text)


def test_capabilities_that_a_machine_lacks() -> None:
    everything = (1 << 41) - 1
    assert rehearsal.capabilities_missing(everything) == []
    assert rehearsal.capabilities_missing(everything & ~(1 << 24)) == ["SYS_RESOURCE"]
    assert rehearsal.capabilities_missing(0x1FFFEFFFFFF) == ["SYS_RESOURCE"]


@pytest.mark.parametrize(
    ("shown", "shape", "is_node"),
    [
        (TBF, Shape(1e9, 0, 0), True),
        (TBF, Shape(1e9, 0.02, 0.01), False),
        (NETEM, Shape(1e9, 0.02, 0.01), True),
        ('[{"kind":"noqueue","handle":"0:","root":true,"options":{}}]', Shape(0, 0, 0), True),
    ],
)
def test_links_that_are_as_asked(shown: str, shape: Shape, is_node: bool) -> None:
    found = links.parse(json.loads(shown))
    assert links.same(found, links.wanted(shape, is_node))


@pytest.mark.parametrize(
    "shape", [Shape(1e8, 0, 0), Shape(0, 0, 0), Shape(1e9, 0.02, 0), Shape(1.1e9, 0, 0)]
)
def test_links_that_are_not_as_asked(shape: Shape) -> None:
    found = links.parse(json.loads(TBF))
    assert not links.same(found, links.wanted(shape, is_node=True))


def test_every_link_is_used_once_in_each_direction() -> None:
    nodes = [links.Node(f"node{i}", i, f"10.0.0.{i}") for i in (1, 2, 3)]
    pairs = links.pairs(nodes)
    assert [source for source, _ in pairs] == nodes
    assert {target.name for _, target in pairs} == {"node1", "node2", "node3"}
    assert links.pairs(nodes[:1]) == [(None, nodes[0])]


def test_links_that_miss_are_refused_with_what_was_measured() -> None:
    good = links.Reading("a", "b", "TCP carries", 955, 1000, "Mbit/s", good=True)
    bad = links.Reading("b", "a", "TCP carries", 420, 1000, "Mbit/s", good=False)
    links.check([good])
    with pytest.raises(Refused, match=r"given: b to a: TCP carries 420 Mbit/s \(asked 1000\)"):
        links.check([good, bad])


@pytest.mark.parametrize(
    ("measured", "stolen", "passes"), [(700, 0.3, True), (700, 0.2, False), (1300, 0.3, False)]
)
def test_a_link_is_not_blamed_for_what_a_hypervisor_took(
    measured: float, stolen: float, passes: bool
) -> None:
    reading = links.Reading(
        *("a", "b", "TCP carries", measured, 1000, "Mbit/s"), good=False, stolen=stolen
    )
    assert ("while the hypervisor took 0.30 CPUs" in reading.line()) is passes
    with contextlib.nullcontext() if passes else pytest.raises(Refused):
        links.check([reading])


@pytest.mark.parametrize(
    ("measured", "waited", "passes"), [(700, 0.5, True), (700, 0.4, False), (300, 1.0, False)]
)
def test_a_link_is_not_blamed_for_a_busy_machine(
    measured: float, waited: float, passes: bool
) -> None:
    reading = links.Reading(
        *("a", "b", "TCP carries", measured, 1000, "Mbit/s"), good=False, waited=waited
    )
    assert ("while programs waited for a CPU in 50% of the time" in reading.line()) is passes
    with contextlib.nullcontext() if passes else pytest.raises(Refused):
        links.check([reading])


def test_the_nodes_read_from_the_suites_own_mirrors_only() -> None:
    targets = """http://mirror/debian/ bookworm main
http://mirror/debian/ bookworm contrib
http://mirror/debian/ bookworm main
http://mirror/security/ bookworm-security main
https://vendor/linux/debian bookworm stable
https://vendor/apt nodistro main
"""
    lines = base._of_suite(targets, "bookworm")
    assert [line.split("] ")[1] for line in lines] == [
        "http://mirror/debian/ bookworm main",
        "http://mirror/security/ bookworm-security main",
    ]
    # On a machine of another release the distribution's usual mirrors are taken.
    assert base._of_suite(targets, "trixie") == []


def test_the_base_image_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    def tag(content: str, *packages: str) -> str:
        (tmp_path / "customize.sh").write_text(content)
        return base.Base("bookworm", list(packages), [], tmp_path, "http://mirror").tag

    first = tag("one", "a", "b")
    assert tag("one", "b", "a") == first
    assert len({first, tag("two", "a", "b"), tag("one", "a")}) == 3


def test_the_base_image_is_made_once_and_another_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []

    def bootstrap(
        _run: object, _suite: str, packages: list[str], archive: Path, *_: str, **__: object
    ) -> None:
        made.append(packages)
        archive.write_text("\n".join(packages))

    monkeypatch.setattr(base.debian, "bootstrap", bootstrap)
    cache, files = tmp_path / "cache", tmp_path / "files"
    files.mkdir()
    first, other = (base.Base("bookworm", [name], [], files, "http://m") for name in ("a", "b"))
    kept = first.keep(cache)
    assert first.keep(cache) == kept and kept.read_text() == "a" and made == [["a"]]
    foreign = cache / "images/tensorflow-0123456789ab"
    foreign.mkdir()
    second = other.keep(cache)
    assert base.forget(cache, other.tag) == [kept.parent]
    assert second.exists() and not kept.exists()
    assert base.forget(cache) == [second.parent]
    assert list((cache / "images").iterdir()) == [foreign]
    assert base.forget(tmp_path / "nothing") == []


def test_a_disk_is_used_by_others_and_not_by_what_we_start(tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "sleep 60 & echo $!; wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as own:
        assert own.stdout
        other = int(own.stdout.readline())
        try:
            assert disks._users(tmp_path) == [f"{other} sleep"]
        finally:
            os.kill(other, signal.SIGKILL)


def test_more_nodes_than_can_watch_their_files_are_refused() -> None:
    rehearsal.check_watching(6, 128)
    with pytest.raises(Refused, match=r"7 nodes, and .*_instances=128") as refused:
        rehearsal.check_watching(7, 128)
    assert "sysctl -w fs.inotify.max_user_instances=280" in str(refused.value)
