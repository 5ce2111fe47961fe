"""What iperf3 says is read right, and what it does not say is no silent zero."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import REPO
from workloads import iperf3
from workloads._options import BadInputError
from workloads.iperf3.output import OutputError, measured, parse

RECORDED = REPO / "tests/data/iperf3"
MODES: tuple[tuple[str, Any, Any], ...] = (
    ("tcp_to_server", "tcp", "to_server"),
    ("tcp_from_server_2_streams", "tcp", "from_server"),
    ("tcp_both", "tcp", "both"),
    ("udp_to_server_lossy", "udp", "to_server"),
    ("udp_from_server", "udp", "from_server"),
    ("udp_both", "udp", "both"),
)


def said(name: str) -> str:
    return (RECORDED / f"{name}.json").read_text()


@pytest.mark.parametrize(("name", "protocol", "direction"), MODES)
def test_all_intervals_together_are_what_iperf3_says_at_the_end(
    name: str, protocol: Any, direction: Any
) -> None:
    found, end = parse(said(name), protocol, direction), json.loads(said(name))["end"]
    assert found.version == "iperf 3.12"
    ways = ["", "_bidir_reverse"] if direction == "both" else [""]
    received, sent = ([end[f"sum_{what}{way}"] for way in ways] for what in ("received", "sent"))
    assert found.moved == sum(way["bytes"] for way in received)
    assert [sum(one.bytes for one in way) for way in found.sent] == [way["bytes"] for way in sent]
    for way, total in zip(found.sent, sent, strict=True):
        assert sum(one.retransmits for one in way) == total.get("retransmits", 0)
    for way, total in zip(found.received, received, strict=True):
        assert sum(one.lost for one in way) == total.get("lost_packets", 0)
        assert sum(one.packets for one in way) == total.get("packets", 0)
    assert found.congestion_control == ("bbr" if protocol == "tcp" else "")


def test_the_window_begins_after_the_warm_up_and_ends_with_the_test() -> None:
    found = parse(said("tcp_to_server"), "tcp", "to_server")
    (way,) = found.received
    assert len(way) == 7 and way[-1].seconds < 0.1, "the last is what arrived after the end"
    window = measured(way, 1, 0.5)
    assert window == list(way[2:6])
    assert measured(way, 0, 0.5) == list(way[:6])


def test_losses_are_those_of_the_receiver() -> None:
    (way,) = parse(said("udp_to_server_lossy"), "udp", "to_server").received
    window = measured(way, 1, 0.5)
    share = sum(one.lost for one in window) / sum(one.packets for one in window)
    assert 0.2 < share < 0.6
    assert sum(one.bytes for one in window) == 1400 * sum(one.packets - one.lost for one in window)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("refused", "iperf 3.12: unable to connect to server: Connection refused"),
        ("server_killed", "iperf 3.12: control socket has closed unexpectedly"),
    ],
)
def test_what_iperf3_says_went_wrong_is_the_error(name: str, words: str) -> None:
    # With --json its exit status is 0 all the same.
    with pytest.raises(OutputError) as error:
        parse(said(name), "tcp", "to_server")
    assert str(error.value) == words


def test_output_that_is_no_json_is_shown_by_its_line() -> None:
    whole = said("tcp_to_server")
    for text, line in ((whole[: len(whole) // 2], ""), ("iperf3: bad option\n", "bad option")):
        with pytest.raises(OutputError, match=f"iperf3: .* JSON; given, in line .*{line}"):
            parse(text, "tcp", "to_server")
    with pytest.raises(OutputError, match="line 1"):
        parse("", "tcp", "to_server")


def changed(name: str, *path: Any, to: Any = None) -> str:
    """The recording with one key changed, or taken away."""
    document = json.loads(said(name))
    found = document
    for key in path[:-1]:
        found = found[key]
    if to is None:
        del found[path[-1]]
    else:
        found[path[-1]] = copy.deepcopy(to)
    return json.dumps(document)


SERVER = "server_output_json"


@pytest.mark.parametrize(
    ("name", "path", "to", "key"),
    [
        ("tcp_to_server", (SERVER,), None, "server_output_json.intervals: it is missing"),
        ("tcp_to_server", (SERVER, "intervals"), [], r"must be a list of intervals; given: \[\]"),
        ("tcp_to_server", (SERVER, "intervals", 3, "sum"), None, "intervals.3.sum.sender"),
        ("tcp_to_server", (SERVER, "intervals", 3, "sum", "bytes"), None, "intervals.3.sum.bytes"),
        ("tcp_to_server", (SERVER, "intervals", 0, "sum", "bytes"), "9", "a number, .* '9'"),
        ("tcp_to_server", (SERVER, "intervals", 0, "sum", "bytes"), -1, "at least 0; given: -1"),
        ("tcp_to_server", (SERVER, "intervals", 0, "sum", "sender"), True, "must be false"),
        ("tcp_to_server", ("intervals", 0, "sum", "retransmits"), None, "0.sum.retransmits"),
        ("tcp_to_server", ("end", "sender_tcp_congestion"), None, "end.sender_tcp_congestion"),
        ("tcp_both", ("intervals", 1, "sum_bidir_reverse"), None, "1.sum_bidir_reverse.sender"),
        ("udp_from_server", ("intervals", 0, "sum", "lost_packets"), None, "sum.lost_packets"),
        ("udp_from_server", ("intervals", 0, "sum", "jitter_ms"), None, "sum.jitter_ms"),
    ],
)
def test_another_output_is_refused_with_the_version_and_the_key(
    name: str, path: tuple[Any, ...], to: Any, key: str
) -> None:
    protocol, direction = next((p, d) for n, p, d in MODES if n == name)
    text = changed(name, *path, to=to).replace("iperf 3.12", "iperf 3.99")
    with pytest.raises(OutputError, match=key) as error:
        parse(text, protocol, direction)
    assert str(error.value).startswith("iperf 3.99: its output must have the key ")
    assert str(error.value).endswith("Known is the output of iperf 3.12")


def test_a_version_that_does_not_say_which_it_is() -> None:
    for text in ("{}", "[]", '{"start": {}}'):
        with pytest.raises(OutputError, match=r"^iperf3, of an unknown version: "):
            parse(text, "tcp", "to_server")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"streams": 0}, "streams: must be at least 1"),
        ({"streams": 129}, "streams: must be at most 128"),
        ({"protocol": "sctp"}, "protocol: must be one of tcp, udp"),
        ({"direction": "to_serve"}, "did you mean to_server"),
        ({"rate": "1G"}, "rate: must be of type int"),
        ({"rate": -1}, "rate: must be at least 0"),
        ({"duration": 0}, "duration: must be at least 1"),
        ({"warmup": -1}, "warmup: must be at least 0"),
        ({"block_size": 2**21}, "block_size: must be at most 1048576"),
        ({"block_size": 65508, "protocol": "udp"}, "block_size: must be at most 65507"),
        ({"block_size": 8, "protocol": "udp"}, "a datagram must have at least 16 bytes"),
    ],
)
def test_what_iperf3_cannot_do_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        iperf3.Options.parse(given)


def test_options_become_the_command_line() -> None:
    def line(**given: Any) -> str:
        return " ".join(iperf3.arguments(iperf3.Options.parse(given), "node2", 29400))

    assert line() == (
        "iperf3 --client node2 --port 29400 --time 12 --interval 0.5 --parallel 1 --bitrate 0 "
        "--json --get-server-output"
    )
    asked = line(protocol="udp", direction="both", rate=10**9, streams=4, block_size=1400, warmup=0)
    assert "--time 10 " in asked and "--parallel 4 --bitrate 1000000000 --length 1400 " in asked
    assert "--bidir --udp" in asked
    assert "--reverse" in line(direction="from_server")


def test_a_port_that_is_listened_on(tmp_path: Path) -> None:
    # /proc/net/tcp of Linux 6.18, shortened: 29400 listens, 29401 is connected.
    head = "  sl  local_address rem_address   st tx_queue rx_queue"
    rows = ["   0: 00000000:72D8 00000000:0000 0A 0:0", "   1: 0100007F:72D9 0100007F:9C40 01 0:0"]
    (tmp_path / "tcp").write_text("\n".join([head, rows[1]]) + "\n")
    assert not iperf3.listens(29400, tmp_path)
    (tmp_path / "tcp6").write_text(
        "\n".join([head, rows[0].replace("00000000:", 8 * "0000" + ":", 1)])
    )
    assert iperf3.listens(29400, tmp_path)
    assert not iperf3.listens(29401, tmp_path)
