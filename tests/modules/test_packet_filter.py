"""The packet filter's rules are taken out of the way and put back, on the real kernel.

Each test has a network namespace of its own, which goes with it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.modules.test_network import within

pytestmark = pytest.mark.root

# What Docker and a cluster write, in both kinds of iptables and in a table of nftables' own.
WRITTEN = """
ip link set lo up
iptables -N DOCKER; iptables -N DOCKER-USER; iptables -A DOCKER-USER -j RETURN
iptables -P FORWARD DROP; iptables -A FORWARD -j DOCKER-USER
iptables -A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
iptables -t nat -N DOCKER; iptables -t nat -A OUTPUT -m addrtype --dst-type LOCAL -j DOCKER
iptables -t nat -A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
iptables -N KUBE-FORWARD
iptables -A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
iptables -A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
ip6tables -t mangle -N KUBE-KUBELET-CANARY
iptables-legacy -t nat -N KUBE-PROXY-CANARY
iptables-legacy -t nat -A POSTROUTING -s 10.5.0.0/24 -m comment --comment "flanneld masq" -j RETURN
nft 'table ip kube-proxy { chain services { tcp dport 53 counter accept; }; }'
"""
RUN = """
import json, subprocess, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from strata.errors import Refused
from strata.host import owned, packet_filter
folder = Path(sys.argv[2])
owned.register = lambda: folder.with_name("register")
def sh(script):
    command = ["/bin/sh", "-ec", script]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
def state():  # as the tools tell it, counters aside
    return [line for line in sh(
        "nft -s list ruleset; iptables-legacy-save; ip6tables-legacy-save").splitlines()
        if not line.startswith(("#", ":"))]
sh(sys.argv[3])
before, said = state(), ""
try:
    exec(sys.argv[4])
except Refused as refused:
    said = str(refused)
print(json.dumps([before, state(), said]))
"""


def run(folder: Path, then: str, written: str = WRITTEN) -> tuple[list[str], list[str], str]:
    """Before and after, as the kernel's own tools tell it, and what was refused."""
    if not shutil.which("nft"):
        pytest.skip("needs nftables: apt install nftables")
    before, after, said = json.loads(within(RUN, str(folder), written, then))
    return before, after, said


def test_all_are_away_and_nothing_is_tracked_and_then_all_are_back(tmp_path: Path) -> None:
    seen = """
assert packet_filter.met() == {"rules": 10, "tracked": True}, packet_filter.read().lines()
with packet_filter.out_of_the_way(folder):
    assert packet_filter.met() == {"rules": 0, "tracked": False}
    left = "table ip6 mangle { chain KUBE-KUBELET-CANARY { } }"
    assert sh("nft list ruleset").split() == left.split(), "nobody is to write them again"
    older = sh("iptables-legacy-save")
    assert "-A" not in older and ":KUBE-PROXY-CANARY" in older
    assert packet_filter.are_away(folder)
assert not packet_filter.are_away(folder)
assert packet_filter.prove(folder) == {"rules": "10", "connections": "tracked"}
"""
    before, after, said = run(tmp_path / "state", seen)
    assert said == "" and len(before) > 20
    assert sorted(after) == sorted(before)


def test_what_a_kill_left_away_the_next_program_puts_back(tmp_path: Path) -> None:
    """Once, and whoever wrote them does that again after a start of the host."""
    killed = """
import os, signal
child = os.fork()
if child == 0:
    packet_filter.take_away(folder)
    os.kill(os.getpid(), signal.SIGKILL)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
assert packet_filter.read().lines() == [] and packet_filter.are_away(folder)
"""
    again = (
        f"{killed}\nassert packet_filter.put_back(folder) and not packet_filter.put_back(folder)"
    )
    before, after, said = run(tmp_path / "state", again)
    assert said == "" and sorted(after) == sorted(before)
    started = """
path = folder / "packet_filter/rules.json"
path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
packet_filter.put_back(folder)
assert not packet_filter.are_away(folder)
"""
    _, after, _ = run(tmp_path / "state", killed + started)
    assert not any("DOCKER" in line for line in after)


FIREWALLS = {
    "iptables -A INPUT -s 10.0.0.0/8 -j DROP": "filter: -A INPUT -s 10.0.0.0/8 -j DROP",
    "iptables -P INPUT DROP": "filter: :INPUT DROP",
    "iptables-legacy -A OUTPUT -d 10.1.2.3 -j REJECT": "filter: -A OUTPUT -d 10.1.2.3/32 -j REJECT",
    "iptables -I DOCKER-USER -s 10.0.0.9 -j DROP": "-A DOCKER-USER -s 10.0.0.9/32 -j DROP",
    "nft 'table inet own { chain c { type filter hook input priority 0; counter drop; }; }'": (
        "nft table inet own, chain c: "
    ),
}


@pytest.mark.parametrize("written", FIREWALLS)
def test_a_firewall_of_the_hosts_own_stays_and_is_named(tmp_path: Path, written: str) -> None:
    before, after, said = run(tmp_path, "packet_filter.prove(folder)", WRITTEN + written)
    assert "no host's firewall" in said and FIREWALLS[written] in said
    assert sorted(after) == sorted(before)


def test_rules_that_come_meanwhile_are_told(tmp_path: Path) -> None:
    """As by a cluster's proxy that is not held."""
    write = "sh('iptables -N KUBE-LATE; iptables -A FORWARD -j KUBE-LATE')"
    seen = f"with packet_filter.out_of_the_way(folder):\n    {write}"
    before, after, said = run(tmp_path / "state", seen)
    assert "nobody writes any meanwhile" in said
    assert "given: iptables filter: -A FORWARD -j KUBE-LATE" in said
    assert sorted(after) == sorted(before), "of that table, what was there before"
