"""Image families: each workload's is declared, and what a user gives must be enough for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
from strata.errors import Refused

import workloads
from controller import families


def image(**changes: Any) -> dict[str, Any]:
    given = {"kind": "rootfs", "reference": "", "suite": "bookworm"}
    return {**given, "workloads": str(Path(workloads.__file__).parent), **changes}


def test_the_family_of_every_workload_is_declared() -> None:
    for name in workloads.NAMES:
        asked = get_type_hints(workloads.options(name)).get("framework")
        chosen = [{"framework": level} for level in get_args(asked)] or [{}]
        for options in chosen:
            found = families.load(families.of(name, options))
            assert found.name == families.of(name, options) and found.disk > 0
    assert families.of("deep_models", {"framework": "jax"}) == "jax"


def test_a_family_is_one_file_and_a_lock_where_it_has_packages_of_python(tmp_path: Path) -> None:
    (tmp_path / "net.yml").write_text("disk: 1G\npackages: [iperf3]\n")
    found = families.load("net", tmp_path)
    assert found == families.Family("net", 2**30, ["iperf3"], [], None)
    (tmp_path / "net.txt").write_text("a==1")
    locked = families.load("net", tmp_path)
    assert locked.lock == tmp_path / "net.txt"
    keys = {families.source(one, image()).key for one in (found, locked)}
    assert len(keys) == 2, "the lock decides what is in the image"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "declared in a file of its name.*declared are other.*next"),
        ("{}", "net.yml: disk: Field required"),
        ("disk: 1G\npackage: [a]", "net.yml: package: Extra inputs"),
        ("disk: much", "size"),
    ],
)
def test_a_family_that_is_not_soundly_declared_is_refused(
    tmp_path: Path, text: str | None, words: str
) -> None:
    (tmp_path / "other.yml").write_text("disk: 1G")
    if text is not None:
        (tmp_path / "net.yml").write_text(text)
    with pytest.raises(Refused, match=f"(?s){words}"):
        families.load("net", tmp_path)


def test_an_oci_image_stands_for_one_family_and_has_a_reference() -> None:
    given = image(kind="oci", reference="docker.io/library/python:3.11")
    families.check(["tools"], given)
    families.check(["tools", "tensorflow"], image())
    with pytest.raises(Refused, match=r"(?s)one image family.*for workloads of tensorflow, tools"):
        families.check(["tools", "tensorflow"], given)
    with pytest.raises(Refused, match="needs its reference"):
        families.source(families.load("tools"), image(kind="oci", reference=" "))


def test_what_needs_python_alone_can_be_had_without_root() -> None:
    given = image(kind="venv")
    for name in ("spin", "request_response"):
        assert families.source(families.load(families.of(name, {})), given).packages == []
    with pytest.raises(Refused, match="holds packages of Python, and none of the distribution"):
        families.source(families.load(families.of("iperf3", {})), given)
