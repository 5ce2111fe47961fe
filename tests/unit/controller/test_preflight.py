"""What hosts answer is checked before anything is touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from strata.errors import Refused
from strata.host import lease
from strata.host.owned import Folder

from controller import families, placing, preflight
from controller.experiment import Experiment

HOLDER = {"host": "elsewhere", "pid": 1, "start": 1}


def facts(**changes: Any) -> dict[str, Any]:
    docker = {"why_not": ""}
    changes = {"state_dir": {"ours": False, "refused": {}, "elsewhere": []}, **changes}
    return {"images": [], "disk_free": 100 * 2**30, "docker": docker, "lease": {}, **changes}


def held_by(holder: dict[str, Any], **more: Any) -> dict[str, Any]:
    return facts(
        lease={"run": "other-1", "holder": holder, "since": "2026-01-01", "expires": 2e9, **more}
    )


def test_too_little_disk_is_refused() -> None:
    large, small = (families.load(name) for name in ("tensorflow", "python"))
    preflight.check_disk("here", facts(), [large, small])
    with pytest.raises(Refused, match="too little disk space") as refused:
        preflight.check_disk("here", facts(disk_free=3 * 2**30), [large])
    assert "3 GiB free, 9 GiB needed" in str(refused.value)
    assert "strata_state_dir=/srv/bigdisk/strata" in str(refused.value), "a folder of its own"
    preflight.check_disk("here", facts(disk_free=3 * 2**30), [small])
    held = facts(disk_free=3 * 2**30, images=["tensorflow-0123456789ab"])
    preflight.check_disk("here", held, [large, small])


def test_a_cpu_that_lacks_what_programs_are_built_for_is_refused() -> None:
    needed = [families.load(name) for name in ("python", "tensorflow")]
    old = {"machine": "x86_64", "flags": ["fpu", "sse4_2"]}
    with pytest.raises(Refused, match="here has no CPU for the programs") as refused:
        preflight.check_cpu("here", facts(cpu=old), needed, "rootfs")
    for words in ("family tensorflow", "a CPU without avx", "example: flags: … avx", "next: "):
        assert words in str(refused.value)
    preflight.check_cpu("here", facts(cpu=old), needed[:1], "rootfs")
    preflight.check_cpu("here", facts(cpu=old), needed, "oci")  # whatever the user built it for
    for cpu in ({**old, "flags": ["avx", "fpu"]}, {"machine": "aarch64", "flags": ["fp"]}):
        preflight.check_cpu("here", facts(cpu=cpu), needed, "rootfs")


def test_a_state_folder_that_is_not_stratas_is_refused(tmp_path: Path) -> None:
    preflight.check_state("here", facts())
    (tmp_path / "thesis").touch()
    said = json.loads(json.dumps(Folder(tmp_path, "state").describe()))
    with pytest.raises(Refused, match="here: Strata's state folder must be") as refused:
        preflight.check_state("here", facts(state_dir=said))
    for words in ("example: strata_state_dir=/", "given: ", "holds 'thesis'", "next: "):
        assert words in str(refused.value)


def test_a_host_that_another_run_holds_is_refused() -> None:
    me = lease.process(os.getpid())
    assert not lease.stale("here", facts(), me)
    assert not lease.stale("here", held_by(me), me)
    with pytest.raises(Refused, match="here is held by another run") as refused:
        lease.stale("here", held_by(HOLDER), me)
    assert "run other-1, which measures, controller elsewhere process 1" in str(refused.value)


def test_the_lease_of_a_dead_controller_of_this_machine_is_broken() -> None:
    dead = {**lease.process(os.getpid()), "start": 1}
    assert lease.stale("there", held_by(dead), HOLDER)


def test_a_run_that_builds_is_waited_for_later_and_one_that_measures_is_refused_now() -> None:
    me = lease.process(os.getpid())
    assert not lease.stale("here", held_by(HOLDER, use="build"), me, wait=True)
    with pytest.raises(Refused, match="here is held by another run"):
        lease.stale("here", held_by(HOLDER, use="measure"), me, wait=True)
    with pytest.raises(Refused, match="which builds"):
        lease.stale("here", held_by(HOLDER, use="build"), me)


def test_one_host_under_two_names_is_refused() -> None:
    one, other = ({"machine": machine, "address": "10.0.0.1"} for machine in ("a", "b"))
    preflight.check_one_name({"node1": one, "node2": other})
    with pytest.raises(Refused, match="node1 and node3 are one machine") as refused:
        preflight.check_one_name({"node1": one, "node2": other, "node3": one})
    assert "each host has one name" in str(refused.value)


def test_root_is_asked_for_where_the_image_needs_it() -> None:
    preflight.check_root("node1", {"root": True}, "rootfs")
    preflight.check_root("node1", {"root": False}, "venv")
    for kind in ("rootfs", "oci"):
        with pytest.raises(Refused, match="on node1 Strata needs root") as refused:
            preflight.check_root("node1", {"root": False}, kind)
        assert "\nexample: ansible_become: true\n" in str(refused.value)


def experiment(dataset: dict[str, Any] | None) -> Experiment:
    given = {"name": "x", "title": "x", "workload": "spin", "factors": {}, "baseline": {}}
    return Experiment.model_validate({**given, "repeats": 1, "dataset": dataset})


def test_a_dataset_is_given_or_generated(tmp_path: Path) -> None:
    data = tmp_path / "My Data"
    (data / "a").mkdir(parents=True)
    (data / "a" / "1.jpg").touch()
    given = preflight.dataset_of(experiment(None), str(data), tmp_path)
    names = {"name": "my-data", "key": "my-data", "family": None}
    assert given == {**names, "path": str(data), "generate": None}
    made = preflight.dataset_of(
        experiment({"name": "made", "generate": {"images": 16}}), "", tmp_path
    )
    assert made is not None
    options = made["generate"]["options"]
    assert (made["path"], options["images"], options["quality"]) == (None, 16, 92)
    assert made["family"] == "tensorflow", "by whose image it is made"
    more = preflight.dataset_of(
        experiment({"name": "made", "generate": {"images": 32}}), "", tmp_path
    )
    assert more is not None
    assert more["key"].startswith("made-") and more["key"] != made["key"]
    assert preflight.dataset_of(experiment(None), "", tmp_path) is None
    with pytest.raises(Refused, match="has a path, or is to be generated"):
        preflight.dataset_of(experiment({"name": "neither"}), "", tmp_path)
    with pytest.raises(Refused, match="no such folder"):
        preflight.dataset_of(experiment({"name": "gone", "path": "/nowhere"}), "", tmp_path)
    both = {"name": "both", "path": str(data), "generate": {"images": 16}}
    with pytest.raises(Refused, match="dataset both, with both"):
        preflight.dataset_of(experiment(both), "", tmp_path)


def test_a_relative_dataset_begins_where_it_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("here/data/a", "beside/data/a"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "1.jpg").touch()
    monkeypatch.chdir(tmp_path / "here")
    given = preflight.dataset_of(experiment(None), "data", tmp_path / "beside")
    assert given and given["path"] == str(tmp_path / "here/data")
    asked = experiment({"name": "mine", "path": "data"})
    found = preflight.dataset_of(asked, "", tmp_path / "beside")
    assert found and found["path"] == str(tmp_path / "beside/data")


def test_the_name_of_a_given_dataset_fits_into_a_file_name(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 250)
    (folder / "a").mkdir(parents=True)
    (folder / "a" / "1.jpg").touch()
    given = preflight.dataset_of(experiment(None), str(folder), tmp_path)
    assert given and len(given["name"]) == 64


def test_the_folder_of_results_can_be_written(tmp_path: Path) -> None:
    preflight.check_results(tmp_path / "new" / "results")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name in ("file", "file/below", "loop", "loop/below"):
        with pytest.raises(Refused, match=r"is no folder|Too many levels"):
            preflight.check_results(tmp_path / name)
    with pytest.raises(Refused, match="name too long"):
        preflight.check_results(tmp_path / ("x" * 300))


def test_a_folder_of_results_that_is_another_accounts_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    me = os.geteuid()
    if me == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(Refused, match=r"may not write|Permission denied"):
            preflight.check_results(tmp_path / "closed" / "results")
    finally:
        os.seteuid(me)


@pytest.mark.parametrize("attempts", [0, -1])
def test_a_trial_is_tried_at_least_once(attempts: int) -> None:
    preflight.check_attempts(1)
    with pytest.raises(Refused, match="at least once"):
        preflight.check_attempts(attempts)


@pytest.mark.parametrize(
    ("name", "address", "words"),
    [
        ("n" * 201, None, "at most 200"),
        ("../up", None, "at most 200"),
        ("node\x1b[31m", None, "at most 200"),
        ("node1", "10.0.0.999", "IPv4 address"),
        ("node1", "node1.example.org", "IPv4 address"),
        ("node1", "224.0.0.1", "IPv4 address"),
        ("node1", 10, "IPv4 address"),
        ("node1", ["10.0.0.1"], "IPv4 address"),
    ],
)
def test_hosts_have_names_and_addresses(name: str, address: Any, words: str) -> None:
    preflight.check_host("fe80::1%eth0", "10.0.0.1")
    with pytest.raises(Refused, match=words):
        preflight.check_host(name, address)


@pytest.mark.parametrize(
    ("addresses", "fits"),
    [
        ({"a": "10.0.0.1", "b": "10.0.0.2"}, True),
        ({"a": "10.0.0.1", "b": "10.0.0.1"}, False),
        ({"a": "10.0.0.1", "b": ""}, False),
    ],
)
def test_peers_need_an_address_each(addresses: dict[str, str], fits: bool) -> None:
    preflight.check_addresses([["a"], ["b"]], addresses)
    if fits:
        preflight.check_addresses([["a", "b"]], addresses)
    else:
        with pytest.raises(Refused, match="need an address each"):
            preflight.check_addresses([["a", "b"]], addresses)


def test_real_data_is_not_read_in_pods_of_a_cluster_that_exists() -> None:
    one = placing.Host("node1", "vm", ("kubernetes",), networks=("cluster",))
    other = placing.Host("node2", "vm", ("native",))
    preflight.check_data(True, [other])
    preflight.check_data(False, [one])
    with pytest.raises(Refused, match="no real data"):
        preflight.check_data(True, [other, one])
