"""What is left of a rehearsal cloud: processes by their mark, domains and files by the folder."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from strata.errors import Refused
from strata.host.owned import Folder
from strata.providers.openstack import rehearsal
from strata.providers.openstack.rehearsal import MARK, Cloud


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    """One with a domain of libvirt, beside another's."""
    cloud = Cloud(tmp_path / "cloud", tmp_path / "run")
    domains = tmp_path / "libvirt/qemu"
    monkeypatch.setattr(rehearsal, "DOMAINS", domains)
    domains.mkdir(parents=True)
    (domains / "mine.xml").write_text(f"<source file='{cloud.folder}/state/disk'/>")
    (domains / "other.xml").write_text(f"<source file='{cloud.folder}2/state/disk'/>")
    return cloud


def test_what_is_there_is_found(cloud: Cloud) -> None:
    Folder(cloud.folder, "cloud").claim()
    mine = {**os.environ, MARK: str(cloud.folder)}
    others = {**os.environ, MARK: f"{cloud.folder}2"}
    with (
        subprocess.Popen(["sleep", "600"], env=mine) as process,
        subprocess.Popen(["sleep", "600"], env=others) as other,
    ):
        found = cloud.found()
        for each in (process, other):
            each.kill()
    assert found["processes"] == [f"{process.pid} sleep"]
    assert [Path(path).name for path in found["domains"]] == ["mine.xml"]
    assert found["files"] == [str(cloud.folder)]


def test_a_folder_of_somebody_is_not_removed(cloud: Cloud) -> None:
    cloud.folder.mkdir()
    (cloud.folder / "thesis.tex").touch()
    with pytest.raises(Refused, match="rehearsal cloud must be a new folder"):
        cloud.remove()
    assert (cloud.folder / "thesis.tex").exists()
