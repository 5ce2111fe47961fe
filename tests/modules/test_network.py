"""What a network leaves behind is found on the real kernel, and the path of packets is proven.

Each test has network namespaces of its own, which go with it.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from strata.errors import Refused
from strata.host import network_path

from tests.conftest import REPO

pytestmark = pytest.mark.root

# In namespaces for network and mounts that end with it: a state, what a test plants, a state.
COMPARE = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.host import network_state
def sh(script): subprocess.run(["/bin/sh", "-ec", script], check=True)
sh(sys.argv[2])
before = network_state.capture()
sh(sys.argv[3])
print(json.dumps(network_state.differences(before, network_state.capture())))
"""
SETUP = """
mount -t tmpfs tmpfs /run; mkdir /run/netns; cp -a /etc /run/etc; mount --bind /run/etc /etc
ip link set lo up
ip link add br-a type bridge; ip addr add 10.1.0.1/24 dev br-a; ip link set br-a up
ip link add cable type veth peer name other; ip link set cable up; ip link set other up
"""
CONTAINER = """
ip netns add cni-{name}; ip link add v{name} type veth peer name eth0 netns cni-{name}
ip link set v{name} master br-a; ip link set v{name} up; sleep 0.2
"""


def within(script: str, *arguments: str) -> str:
    """Run Python in namespaces of its own; what it says."""
    command = ["unshare", "--net", "--mount", "--propagation", "private", sys.executable, "-c"]
    given = [script, str(REPO / "module_utils"), *arguments]
    done = subprocess.run([*command, *given], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def differences(planted: str, before: str = SETUP) -> list[str]:
    found: list[str] = json.loads(within(COMPARE, before, planted))
    return found


LEFT = {
    "ip route add 10.9.0.0/24 via 10.1.0.7": "+ route: dst 10.9.0.0/24 gateway 10.1.0.7 dev br-a",
    "ip route add 10.9.0.0/24 dev cable table 77": (
        "+ route: dst 10.9.0.0/24 dev cable table 77 scope link"
    ),
    "ip rule add fwmark 5 table 77": "+ rule: priority 32765 src all fwmark 0x5 table 77",
    "ip link add strata0 type vxlan id 7 dstport 4789; ip link set strata0 up": (
        "+ interface: strata0 kind vxlan mtu 1500 id 7 port 4789 up"
    ),
    "ip link set cable mtu 1400": "+ interface: cable kind veth mtu 1400 up",
    "ip addr add 10.8.0.1/24 dev cable": "+ address: cable 10.8.0.1/24",
    "bridge fdb append 00:00:00:00:00:01 dev cable": (
        "+ forwarding entry: ifname cable mac 00:00:00:00:00:01 state permanent"
    ),
    "ip neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev br-a nud permanent": (
        "+ neighbour: dev br-a dst 10.1.0.9 lladdr 02:00:00:00:00:09 state PERMANENT"
    ),
    "iptables -A FORWARD -s 10.9.0.0/24 -j ACCEPT": (
        "+ packet filter: iptables filter: -A FORWARD -s 10.9.0.0/24 -j ACCEPT"
    ),
    "ip6tables -t nat -N LEFT": "+ packet filter: ip6tables nat: chain LEFT",
    "nft add table inet left; nft add chain inet left c; nft add rule inet left c accept": (
        "+ packet filter: nft table inet left, chain c: accept"
    ),
    "echo 1 > /proc/sys/net/ipv4/conf/cable/proxy_arp": (
        "+ sysctl: net.ipv4.conf.cable.proxy_arp = 1"
    ),
    "tc qdisc add dev cable clsact": "+ queue: cable clsact ffff: ffff:fff1",
    "ip netns add left": "+ namespace: /run/netns/left",
    "mkdir -p /etc/cni/net.d; echo {} > /etc/cni/net.d/10-x.conflist": (
        "+ file: /etc/cni/net.d/10-x.conflist ca3d163bab05"
    ),
}


@pytest.mark.parametrize("planted", LEFT)
def test_what_is_left_behind_is_found(planted: str) -> None:
    found = differences(planted)
    assert LEFT[planted] in found
    assert len(found) <= 2, "nothing else is told"


def test_containers_that_come_and_go_leave_no_difference() -> None:
    here, later = CONTAINER.format(name="1"), CONTAINER.format(name="2")
    gone = "ip netns del cni-1; sleep 0.2;"
    chains = "iptables -N DOCKER; iptables -t nat -N DOCKER;"
    port = (
        "iptables -t nat -A DOCKER ! -i br-a -p tcp --dport 80"
        " -j DNAT --to-destination 10.1.0.2:80;"
        "iptables -A DOCKER -d 10.1.0.2/32 ! -i br-a -o br-a -p tcp --dport 80 -j ACCEPT;"
        "iptables -t nat -A POSTROUTING -s 10.1.0.2 -d 10.1.0.2 -p tcp --dport 80 -j MASQUERADE;"
    )
    looks = "iptables -t mangle -S >/dev/null; ping -c1 -w1 10.1.0.1 >/dev/null || true"
    assert differences(gone + later + port + looks, SETUP + here + chains) == []
    assert differences("rmdir /run/netns", SETUP) == []


# Two hosts and the cable between them: a tunnel over it, and the program that proves it.
PAIR = """
set -e
mount -t tmpfs tmpfs /run; mkdir /run/netns
ip link set lo up; ip netns add peer
ip link add eth0 type veth peer name eth0 netns peer
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up
ip -n peer addr add 10.0.0.2/24 dev eth0; ip -n peer link set eth0 up; ip -n peer link set lo up
ip link add tun type vxlan id 7 local 10.0.0.1 remote 10.0.0.2 dstport 4789
ip -n peer link add tun type vxlan id 7 local 10.0.0.2 remote 10.0.0.1 dstport 4789
ip addr add 10.9.0.1/24 dev tun; ip link set tun mtu 1450 up
ip -n peer addr add 10.9.0.2/24 dev tun; ip -n peer link set tun mtu 1450 up
"""
PROVE = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.errors import Refused
from strata.host import network_path
network_path.PATIENCE_S = 2.0
subprocess.run(["/bin/sh", "-c", sys.argv[2]], check=True)
end = network_path.End(**json.loads(sys.argv[3]))
try:
    print("\\n".join(network_path.prove(end, {"peer": "10.9.0.2"})))
except Refused as refused:
    print(refused)
"""
END = {"address": "10.9.0.1", "mtu": 1450, "route": "tun", "kind": "vxlan"}


def prove(more: str = "", **end: object) -> str:
    return within(PROVE, PAIR + more, json.dumps({**END, **end}))


def test_a_tunnel_that_carries_is_proven() -> None:
    said = prove()
    assert "tun is vxlan" in said
    assert "peer at 10.9.0.2: MTU 1450, all of it whole, " in said, said


def test_a_tunnel_that_others_use_meanwhile_is_proven() -> None:
    assert "peer at 10.9.0.2: MTU 1450, all of it whole, " in prove(NOISY)


def test_without_a_peer_nothing_is_proven() -> None:
    with pytest.raises(Refused, match=r"given: 10\.9\.0\.1 alone"):
        network_path.prove(network_path.End("10.9.0.1", 1450, "tun", "vxlan"), {})


NOISE = """{namespace} timeout 20 python3 -c '
import socket, time
one = socket.socket(type=socket.SOCK_DGRAM)
while True: time.sleep(0.001); one.sendto(bytes(1400), ("10.9.0.{to}", 9))' >/dev/null 2>&1 &
"""
NOISY = NOISE.format(namespace="", to=2) + NOISE.format(namespace="ip netns exec peer", to=1)
FAULTS = {
    # As flannel's host-gw left them under udp: nothing fails, and no packet takes the tunnel.
    "a more specific route": (
        "ip route add 10.9.0.2/32 via 10.0.0.2 dev eth0",
        "asked: packets to peer (10.9.0.2) leave by tun; running: by eth0 via 10.0.0.2",
    ),
    "a table that goes first": (
        "ip route add 10.9.0.0/24 via 10.0.0.2 table 5; ip rule add to 10.9.0.0/24 table 5",
        "leave by tun; running: by eth0 via 10.0.0.2",
    ),
    "another MTU": ("ip link set tun mtu 1400", "asked: MTU 1450 of tun; running: MTU 1400"),
    "a path that is narrower": (
        "ip link set eth0 mtu 1400; ip -n peer link set eth0 mtu 1400",
        "asked: 10.9.0.2 answers packets of 1450 bytes, sent whole; running: small packets are",
    ),
    "a peer that does not answer": (
        "ip -n peer link set tun down",
        "running: no packet is answered",
    ),
    "a filter that lets only pings pass": (
        "ip netns exec peer iptables -A INPUT -p tcp -j DROP",
        "answers 10.9.0.1 over TCP, port 29400; running:",
    ),
    "a rewrite behind the route": (
        "iptables -t nat -A OUTPUT -d 10.9.0.2 -j DNAT --to 10.0.0.2",
        "asked: tun carries 29000 bytes to 10.9.0.2 and 29000 back; running: it counted 0 and",
    ),
    "the same, while others send over the tunnel": (
        f"iptables -t nat -A OUTPUT -d 10.9.0.2 -p icmp -j DNAT --to 10.0.0.2; {NOISY}",
        "asked: tun carries 29000 bytes to 10.9.0.2 and 29000 back; running: it counted 0 and",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_carries_otherwise_is_refused_with_both_values(fault: str) -> None:
    done, refused = FAULTS[fault]
    said = prove(done)
    assert refused in said and said.startswith("what is asked for"), said


def test_a_device_of_another_kind_is_refused() -> None:
    said = prove(kind="wireguard")
    assert "asked: device tun of the kind wireguard; running: of the kind vxlan" in said
    assert "running: of the kind none" in prove(device="gone")


def test_an_end_in_a_namespace_is_proven_with_the_device_outside_of_it() -> None:
    """As a container stands on a bridge, of which the tunnel is a port."""
    more = """
ip addr flush dev tun; ip link add br0 type bridge; ip link set tun master br0; ip link set br0 up
ip netns add box; ip link add v type veth peer name eth0 netns box
ip link set v master br0 mtu 1450 up
ip -n box addr add 10.9.0.1/24 dev eth0; ip -n box link set eth0 mtu 1450 up
"""
    given = {"route": "eth0", "namespace": "/run/netns/box", "device": "tun"}
    said = prove(more, device_namespace="", **given)
    assert "bytes out" in said, said
    assert "running: it counted 0 and 0 bytes" in prove(
        more + "ip link add t2 type vxlan id 8 remote 10.0.0.2 dstport 4790; ip link set t2 up",
        **{**given, "device": "t2", "device_namespace": ""},
    )


DATAPATH = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.errors import Refused
from strata.host import datapath
def said():
    try:
        asked = json.loads(sys.argv[3])
        found = datapath.facts({"node2": "10.218.1.2"}, sorted(datapath.devices_of(asked)))
        datapath.check(asked, found)
    except Refused as refused:
        return refused.given
    return ""
def run(script):
    subprocess.run(["/bin/sh", "-ec", script], check=True)
run(sys.argv[2])
found = {"": said()}
for planted, undone in json.loads(sys.argv[4]):
    run(planted)
    found[planted] = said()
    run(undone)
print(json.dumps([found, said()]))
"""
TUNNEL = "ip link add flannel.1 type vxlan id {} local 10.0.0.1 dev eth0 dstport {} nolearning"
UP = """ip link set flannel.1 up
ip route add 10.218.1.0/24 via 10.218.1.0 dev flannel.1 onlink"""
RIGHT = f"{TUNNEL.format(1, 8472)}; {UP}"
GONE = "ip link del flannel.1"
NODE = f"""ip link set lo up
ip link add eth0 type veth peer name far; ip link set far up
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up
{RIGHT}"""
CARRIES = {
    "route to node2": "flannel.1",
    "gateway to node2": "10.218.1.0",
    "flannel.1": "vxlan id 1 port 8472",
    "programs of flannel.1": "none",
}
CLASSIFIER = (
    "tc qdisc add dev flannel.1 clsact; tc filter add dev flannel.1 {} bpf bytecode '1,6 0 0 0'"
)
NO_CLASSIFIER = "tc qdisc del dev flannel.1 clsact"
# Of each, how it is planted and undone, and what is said of what runs.
FALLBACKS = {
    "routes of another backend": (
        "ip route add 10.218.1.0/25 via 10.0.0.2",
        "ip route del 10.218.1.0/25",
        "route to node2 is flannel.1; running: eth0",
    ),
    "another table goes first": (
        "ip route add default via 10.0.0.2 table 5; ip rule add to 10.218.0.0/16 table 5",
        "ip rule del table 5; ip route flush table 5",
        "gateway to node2 is 10.218.1.0; running: 10.0.0.2",
    ),
    "another host behind the tunnel": (
        "ip route replace 10.218.1.0/24 via 10.218.7.0 dev flannel.1 onlink",
        "ip route replace 10.218.1.0/24 via 10.218.1.0 dev flannel.1 onlink",
        "gateway to node2 is 10.218.1.0; running: 10.218.7.0",
    ),
    "a route into nothing": (
        "ip route add blackhole 10.218.1.2",
        "ip route del blackhole 10.218.1.2",
        "route to node2 is flannel.1; running: none",
    ),
    "no tunnel": (GONE, RIGHT, "flannel.1 is vxlan id 1 port 8472; running: none"),
    "a tunnel that is down": (
        "ip link set flannel.1 down",
        UP,
        "flannel.1 is vxlan id 1 port 8472; running: vxlan id 1 port 8472 down",
    ),
    "another tunnel's number": (
        f"{GONE}; {TUNNEL.format(9, 8472)}; {UP}",
        f"{GONE}; {RIGHT}",
        "running: vxlan id 9 port 8472",
    ),
    "another tunnel's port": (
        f"{GONE}; {TUNNEL.format(1, 4789)}; {UP}",
        f"{GONE}; {RIGHT}",
        "running: vxlan id 1 port 4789",
    ),
    "a device of another kind by its name": (
        f"{GONE}; ip link add flannel.1 type bridge; {UP}",
        f"{GONE}; {RIGHT}",
        "flannel.1 is vxlan id 1 port 8472; running: bridge",
    ),
    "a program that sees what comes": (
        CLASSIFIER.format("ingress"),
        NO_CLASSIFIER,
        "programs of flannel.1 is none; running: unnamed ingress",
    ),
    "a program that sees what goes": (
        CLASSIFIER.format("egress"),
        NO_CLASSIFIER,
        "programs of flannel.1 is none; running: unnamed egress",
    ),
}


# The hosts' own routes, as Calico with BGP and Cilium without a tunnel have them: no device tells.
ROUTED = """ip link set lo up
ip link add eth0 type veth peer name far; ip link set far up
ip addr add 10.0.0.1/24 dev eth0; ip link set eth0 up
ip route add 10.218.1.0/26 via 10.0.0.2 proto bird"""
LEADS = {
    "route to node2": "eth0",
    "gateway to node2": "10.0.0.2",
    "protocol to node2": "bird",
    "vxlan.calico": "none",
}
WRITTEN = "ip route replace 10.218.1.0/26 via 10.0.0.2 proto bird"
OTHER_ROUTES = {
    "somebody else's route to the same host": (
        "ip route replace 10.218.1.0/26 via 10.0.0.2 proto static",
        WRITTEN,
        "protocol to node2 is bird; running: static",
    ),
    "a more specific one that a person has made": (
        "ip route add 10.218.1.2 via 10.0.0.2",
        "ip route del 10.218.1.2",
        "protocol to node2 is bird; running: boot",
    ),
    "routes that never came, and the way out": (
        "ip route del 10.218.1.0/26; ip route add default via 10.0.0.254",
        f"ip route del default; {WRITTEN}",
        "gateway to node2 is 10.0.0.2; running: 10.0.0.254",
    ),
    "a tunnel that carries nothing yet": (
        "ip link add vxlan.calico type vxlan id 4096 dstport 4789; ip link set vxlan.calico up",
        "ip link del vxlan.calico",
        "vxlan.calico is none; running: vxlan id 4096 port 4789",
    ),
    "a tunnel that carries all": (
        "ip link add cilium_host type bridge; ip link set cilium_host up;"
        " ip route replace 10.218.1.0/26 dev cilium_host",
        f"ip link del cilium_host; {WRITTEN}",
        "route to node2 is eth0; running: cilium_host",
    ),
}


@pytest.mark.parametrize(
    ("node", "carries", "fallbacks"),
    [(NODE, CARRIES, FALLBACKS), (ROUTED, LEADS, OTHER_ROUTES)],
    ids=["a tunnel", "the hosts' routes"],
)
def test_a_datapath_that_fell_back_to_another_is_told_and_a_clean_one_is_not(
    node: str, carries: dict[str, str], fallbacks: dict[str, tuple[str, str, str]]
) -> None:
    planted = json.dumps([fallback[:2] for fallback in fallbacks.values()])
    found, at_the_end = json.loads(within(DATAPATH, node, json.dumps(carries), planted))
    assert found.pop("") == "" == at_the_end
    assert len(found) == len(fallbacks)
    for what, (how, _, running) in fallbacks.items():
        assert running in found[how], (what, found[how])


POLICY = """
import json, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.errors import Refused
from strata.host import network_policy
network_policy.PATIENCE_S, network_policy.SETTLED_S, network_policy.ANSWER_S = 1.0, 1.0, 0.3
subprocess.run(["/bin/sh", "-ec", sys.argv[2]], check=True)
try:
    print(network_policy.enforced("/run/netns/friend", "/run/netns/other", {"peer": "10.5.0.3"}))
except Refused as refused:
    print(refused)
"""
# Three pods on a bridge: two that try, and the one that they try to reach.
PODS = """
mount -t tmpfs none /run; mkdir /run/netns; ip link add br0 type bridge; ip link set br0 up; n=0
for pod in friend other third; do
  n=$((n + 1)); ip netns add $pod; ip link add v$n type veth peer name eth0 netns $pod
  ip link set v$n master br0 up
  ip -n $pod addr add 10.5.0.$n/24 dev eth0; ip -n $pod link set eth0 up
done
"""
DROP = "ip netns exec third iptables -A INPUT -s {} -j DROP"


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("", "False"),
        (DROP.format("10.5.0.2"), "True"),
        (DROP.format("10.5.0.0/24"), "no answer from the pod at 10.5.0.3 on peer"),
        ("ip -n third link set eth0 down", "no answer from the pod at 10.5.0.3 on peer"),
    ],
    ids=["not enforced", "enforced", "more is denied than should be", "nothing is there"],
)
def test_a_policy_is_enforced_where_only_what_it_denies_is_not_answered(
    planted: str, said: str
) -> None:
    assert said in within(POLICY, PODS + planted)


TRY = """
import sys
sys.path.insert(0, sys.argv[1])
from strata.errors import Refused
from strata.host import overlay
try:
    overlay._try("anything", "node1", sys.argv[2])
except Refused as refused:
    print(refused)
"""


@pytest.mark.parametrize("feature", ["vxlan", "bridge", "macvlan", "tun", "ebpf"])
def test_a_feature_that_the_kernel_has_is_not_refused(feature: str) -> None:
    assert within(TRY, feature) == ""


@pytest.mark.parametrize(
    ("feature", "called", "make"),
    [
        ("ipvlan", "ipvlan", "ip link add x0 type veth; ip link add link x0 x1 type ipvlan"),
        ("wireguard", "WireGuard", "ip link add x0 type wireguard"),
        ("ipip", "IPIP", "ip link add x0 type ipip local 127.0.0.1 remote 127.0.0.2"),
        ("esp", "ESP, which encrypts", "test -e /proc/net/xfrm_stat && modinfo esp4"),
    ],
)
def test_a_feature_that_it_lacks_is_refused_by_name(feature: str, called: str, make: str) -> None:
    """These not every kernel has: what can be made by hand is not refused, and the other way."""
    command = ["unshare", "--net", "/bin/sh", "-ec", make]
    can = subprocess.run(command, capture_output=True, check=False).returncode == 0
    said = within(TRY, feature)
    assert said == "" if can else said.startswith(f"anything needs {called}"), said


# A program of eBPF that lets all pass, by the kernel's own call, with a name, at an interface.
HOOKED = """
import ctypes, json, os, struct, subprocess, sys
sys.path.insert(0, sys.argv[1])
from strata.host import remains
libc, BPF = ctypes.CDLL(None, use_errno=True), {"x86_64": 321, "aarch64": 280}[os.uname().machine]
def bpf(command, attributes):
    held = ctypes.create_string_buffer(attributes, 128)
    got = libc.syscall(BPF, command, held, 128)
    assert got >= 0, os.strerror(ctypes.get_errno())
    return got
def at(text):
    kept.append(ctypes.create_string_buffer(text))
    return ctypes.addressof(kept[-1])
kept = []
def run(script): subprocess.run(["/bin/sh", "-ec", script], check=True)
run("mount -t bpf bpf /sys/fs/bpf")
for link, name in (("x0", b"cil_from_x"), ("x1", b"other")):
    run(f"ip link add {link} type bridge; tc qdisc add dev {link} clsact")
    code = struct.pack("<BBhi", 0xb7, 0, 0, 0) + struct.pack("<BBhi", 0x95, 0, 0, 0)
    load = struct.pack("<IIQQIIQII16s", 3, 2, at(code), at(b"GPL"), 0, 0, 0, 0, 0, name)
    path = f"/sys/fs/bpf/{link}"
    bpf(6, struct.pack("<QI", at(path.encode()), bpf(5, load)))
    run(f"tc filter add dev {link} ingress bpf direct-action pinned {path}")
asked = {"hooks": ["cil_"]}
before = remains.found(asked)
remains.remove(asked)
left = subprocess.run(["tc", "qdisc", "show"], capture_output=True, text=True).stdout
print(json.dumps([before, remains.found(asked), left]))
"""


def test_programs_at_interfaces_go_by_their_name_and_others_stay() -> None:
    before, after, left = json.loads(within(HOOKED))
    assert before == {"hooks": ["at x0"]} and after == {}
    assert "clsact ffff: dev x1" in left and "dev x0" not in left
