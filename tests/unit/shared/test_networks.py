"""Each network with a setting has a role that can switch to it, and that proves its path."""

from __future__ import annotations

import pytest
import yaml
from strata.networks import NETWORKS, Network

from tests.conftest import REPO

SWITCHED = [network for network in NETWORKS.values() if network.setting]


@pytest.mark.parametrize("network", SWITCHED, ids=lambda network: network.name)
def test_a_setting_has_a_role_with_all_entry_points(network: Network) -> None:
    folder = REPO / "roles" / network.role
    specs = yaml.safe_load((folder / "meta/argument_specs.yml").read_text())["argument_specs"]
    for name in ("check", "present", "absent", "prove"):
        assert (folder / f"tasks/{name}.yml").is_file()
        assert {"setting_name", "setting_hosts"} <= specs[name]["options"].keys()
    tasks = yaml.safe_load((folder / "tasks/prove.yml").read_text())
    included = {
        task["ansible.builtin.include_role"]["name"]
        for task in tasks
        if "ansible.builtin.include_role" in task
    }
    # What carries packets differently is proven by packets, what they pass by what is there.
    proven = included & {"network_proof", "pod_network"}
    assert proven or (network.unfiltered and any("strata_packet_filter" in task for task in tasks))


@pytest.mark.parametrize("network", SWITCHED, ids=lambda network: network.name)
def test_a_network_that_gives_places_says_what_the_engine_calls_it(network: Network) -> None:
    assert network.called or network.of_host or "docker" not in network.runtimes
    places = (REPO / "roles" / network.role / "tasks/present.yml").read_text()
    assert (network.peers == "place") == (f"    {network.role}_place:" in places)


def test_the_bytes_of_headers_are_those_that_are_documented() -> None:
    lines = (REPO / "docs/networks.md").read_text().splitlines()
    rows = [[cell.strip() for cell in line.split("|")] for line in lines if line.startswith("| `")]
    known = [(row[1].strip("`"), row[5]) for row in rows if len(row) > 5]
    told = {name: int(headers) for name, headers in known if name in NETWORKS and headers.isdigit()}
    ours = {n: one for n, one in NETWORKS.items() if one.peers != "none" and not one.given}
    assert told == {name: one.headers for name, one in ours.items()}
