"""What a host can do for an overlay: its range of addresses, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from strata.errors import Refused
from strata.host import overlay

HOSTS = {"node1": "10.0.0.1", "node2": "10.0.0.2"}
LINK = {"ifname": "eth0", "mtu": 1500, "addr_info": [{"local": "10.0.0.1", "prefixlen": 24}]}


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[dict[str, Any]]]:
    """What `ip` says, by its first two words, as a test changes it."""
    said: dict[str, list[dict[str, Any]]] = {
        "addr show": [LINK],
        "link show": [LINK],
        "route get": [{"dst": "10.0.0.2", "dev": "eth0"}],
        "route show": [
            {"dst": "default", "gateway": "10.0.0.254", "dev": "eth0"},
            {"dst": "10.0.0.0/24", "dev": "eth0"},
        ],
    }
    monkeypatch.setattr(overlay.os, "geteuid", lambda: 0)
    monkeypatch.setattr(overlay, "_ask", lambda *given: said[" ".join(given[:2])])
    return said


def look(**more: Any) -> overlay.Found:
    given = {"subnet": "10.214.0.0/16", "hosts": HOSTS, "host": "node1", "overhead": 50, **more}
    return overlay.look("vxlan", (), **given)


def test_each_host_has_a_range_of_its_own_and_the_room_that_is_left(told: Any) -> None:
    found = look()
    assert (found.parent, found.mtu) == ("eth0", 1450)
    assert found.places["node2"] == {
        **{"host": "10.214.2.1", "proof": "10.214.2.2", "members": "10.214.2.128"},
        "range": "10.214.2.0/24",
    }
    assert look(mtu=1400).mtu == 1400


def test_the_narrowest_part_of_the_path_counts(told: Any) -> None:
    told["route get"] = [{"dev": "eth0", "metrics": [{"mtu": 1400}]}]
    assert look().mtu == 1350


def test_an_mtu_above_the_paths_is_refused_with_both(told: Any) -> None:
    with pytest.raises(Refused, match=r"MTU 1500 asked for; on node1 1500 less 50 .* leave 1450"):
        look(mtu=1500)


def test_a_subnet_that_somebody_has_is_refused_with_both_ranges(told: Any) -> None:
    told["route show"].append({"dst": "10.214.7.0/24", "dev": "flannel.1"})
    with pytest.raises(Refused, match=r"10.214.0.0/16, and on node1 10.214.7.0/24 by flannel.1"):
        look()
    assert look(own=["flannel.1"]).mtu == 1450, "its own from before"


def test_ranges_that_overlap_are_refused_with_both_whoever_has_the_network(told: Any) -> None:
    pods, services = "10.218.0.0/16", "10.218.128.0/20"
    for there in ("", "/"):
        with pytest.raises(Refused, match=r"given: 10\.218\.0\.0/16 and 10\.218\.128\.0/20"):
            look(subnet="", others=[pods, services], there=there)
    hosts = {"dst": services, "dev": "eth0"}
    told["route show"].append(hosts)
    with pytest.raises(Refused, match=r"and on node1 10\.218\.128\.0/20 by eth0"):
        look(subnet="", others=[pods, "10.219.0.0/16"])


@pytest.mark.parametrize("subnet", ["10.214.0.0/23", "10.214.0.1/16", "nonsense"])
def test_a_subnet_without_room_for_all_hosts_is_refused(told: Any, subnet: str) -> None:
    with pytest.raises(Refused, match="a range of 256 addresses for each"):
        look(subnet=subnet)


def test_an_address_that_no_device_has_is_refused(told: Any) -> None:
    with pytest.raises(Refused, match=r"node1 has no device with 10.0.0.9"):
        look(hosts={"node1": "10.0.0.9", "node2": "10.0.0.2"})


def test_a_network_of_one_host_is_refused(told: Any) -> None:
    """It could not be proven: there is nobody to send to."""
    with pytest.raises(Refused, match="given: measured on node1 alone"):
        look(hosts={"node1": "10.0.0.1"})


def test_without_root_nothing_is_tried(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay.os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="vxlan needs root on node1"):
        look()
