"""What hosts that are made start from: systems, config drives, host keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.providers.guest import drive, keys
from strata.providers.guest.disk import LOADER, Disk
from strata.providers.guest.ramdisk import Ramdisk

MAC = "52:54:00:00:00:01"
KEY = "ssh-ed25519 AAAA"
GUEST = keys.Guest("id1", "10.0.0.5", KEY)


def test_a_system_is_named_by_all_that_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "customize.sh").write_text("true")
    disk = Disk("bookworm", ["sudo", "udev"], tmp_path, "", 8, "quiet")
    assert disk.key == Disk("bookworm", ["udev", "sudo"], tmp_path, "", 8, "quiet").key
    keys = {disk.key, Disk("bookworm", ["sudo"], tmp_path, "", 8, "quiet").key}
    keys.add(Disk("bookworm", ["sudo", "udev"], tmp_path, "", 9, "quiet").key)
    keys.add(Disk("bookworm", ["sudo", "udev"], tmp_path, "", 8, "quiet highres=off").key)
    keys.add(Ramdisk("bookworm", ["sudo", "udev"], tmp_path, "").key)
    (tmp_path / "customize.sh").write_text("false")
    keys.add(Disk("bookworm", ["sudo", "udev"], tmp_path, "", 8, "quiet").key)
    assert len(keys) == 6


def test_the_words_for_a_kernel_are_one_line_of_its_boot_loader(tmp_path: Path) -> None:
    line = "ttyS0 net.ifnames=0 quiet highres=off\n"
    assert line in LOADER.format(root="1", arguments="quiet highres=off")
    with pytest.raises(Refused, match="the arguments of a kernel are words of one line") as told:
        Disk("bookworm", [], tmp_path, "", 8, "quiet\nLABEL other")
    assert told.value.given == r"'quiet\nLABEL other'"


def test_a_drive_tells_a_host_its_keys_and_its_address() -> None:
    network = drive.network("10.0.0.7/24", "10.0.0.1", MAC)
    told = drive.told("vm1", "ssh me", ("secret", KEY), network)
    assert told["meta_data"] == {"name": "vm1", "public_keys": {"strata": "ssh me"}}
    first, _, rest = told["user_data"].partition("\n")
    assert first == "#cloud-config"
    keys_told = {"ed25519_private": "secret", "ed25519_public": KEY}
    assert json.loads(rest) == {"ssh_keys": keys_told}
    (link,), (at,) = told["network_data"]["links"], told["network_data"]["networks"]
    assert link["ethernet_mac_address"] == MAC and at["netmask"] == "255.255.255.0"


def test_a_host_is_waited_for_until_it_answers_with_its_own_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keys, "LOOK_S", 0)
    answers = ["", "ssh-ed25519 OTHER", KEY]
    keys.wait({"vm1": GUEST}, 60, lambda _: answers.pop(0))
    assert answers == []


@pytest.mark.parametrize(
    ("answer", "words"), [("", "nobody answers"), ("ssh-ed25519 OTHER", "another host key answers")]
)
def test_a_host_that_does_not_is_given_up(answer: str, words: str) -> None:
    with pytest.raises(Refused, match=f"vm1: {words} at 10.0.0.5 after 0 s"):
        keys.wait({"vm1": GUEST}, 0, lambda _: answer)


def test_a_host_key_is_read_without_its_comment(tmp_path: Path) -> None:
    (tmp_path / "host_key-vm1").write_text("secret")
    (tmp_path / "host_key-vm1.pub").write_text(f"{KEY} somebody\n")
    assert keys.own(tmp_path, "vm1") == ("secret", KEY)
