"""Parts of site.yml: each works alone or is refused in a sentence, and no lease is left behind."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from strata.host import lease

from tests import tree as trees
from tests.conftest import EXPERIMENTS, REPO

pytestmark = pytest.mark.root
HERE = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
# A name of a domain that never exists (RFC 2606).
GONE = {"ansible_host": "gone.invalid"}
# It fails in deploy, on the controller: there is no such image, and perhaps no engine to ask.
BROKEN = ["-estrata_image_kind=oci", "-estrata_image_reference=localhost/none:none"]


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """Run a playbook on hosts of a test, for a plan that is native only; what it says."""

    def run(
        *arguments: str, playbook: str = "site.yml", tree: Path = REPO, **hosts: Any
    ) -> subprocess.CompletedProcess[str]:
        native = {"hosts": hosts or {"here": HERE}}
        inventory = {
            "testbed": {"children": {"native": native, "docker": {}}},
            "bare_metal": {"children": {"native": {}}},
        }
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
        given = [f"-estrata_experiment={EXPERIMENTS}/spin.yml", "-estrata_slice=native"]
        given += [f"-estrata_results={tmp_path}/results", *arguments]
        return subprocess.run(
            ["ansible-playbook", playbook, "-i", str(tmp_path / "hosts.yml"), *given],
            **{"cwd": tree, "env": trees.environment(tree), "capture_output": True, "text": True},
            check=False,
        )

    return run


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, ["gone cannot be reached", "Could not resolve hostname gone.invalid"]),
        ({"limit": "here"}, ["the controller takes part in every run", "--limit here,localhost"]),
        ({"start-at-task": "Make the plan"}, ["every command begins at its beginning"]),
        ({"skip-tags": "always"}, ["every command begins at its beginning"]),
        ({"skip-tags": "deploy"}, ["what a stage stands on is not skipped"]),
        ({"tags": "deplyo"}, ["did you mean 'deploy'?"]),
        ({"tags": "collect", "limit": "here,localhost"}, ["there is no run spin-"]),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    site: Any, asked: dict[str, str], words: list[str]
) -> None:
    flags = [f"--{name}={value}" for name, value in asked.items()]
    done = site(*flags, here=HERE, gone=GONE)
    said = done.stdout + done.stderr
    assert done.returncode != 0
    assert [word for word in words if word not in said] == [], said
    for word in ("undefined", "has no attribute", "'docker'", "Traceback", "Hold the host"):
        assert word not in said, said
    assert not (lease.folder() / "lease.json").exists()


def test_one_host_under_two_names_is_refused_before_it_is_touched(site: Any) -> None:
    done = site(here=HERE, there=HERE)
    assert done.returncode != 0
    assert "here and there are one machine" in done.stdout, done.stdout
    assert "Hold the host" not in done.stdout


def test_a_host_whose_cpu_lacks_what_programs_are_built_for_is_refused(
    site: Any, tmp_path: Path
) -> None:
    tree = tmp_path / "tree"
    trees.copy(tree)
    declared = tree / "requirements/images/python.yml"
    declared.write_text(f"disk: 1G\ncpu: {{{platform.machine()}: [no_cpu_has_it]}}\n")
    done = site(tree=tree)
    assert done.returncode != 0
    assert "here has no CPU for the programs of the image family python" in done.stdout, done.stdout
    assert "a CPU without no_cpu_has_it" in done.stdout
    assert "Hold the host" not in done.stdout


def test_a_stage_without_the_plan_says_so(site: Any) -> None:
    for stage in ("run", "report"):
        done = site(playbook=f"playbooks/{stage}.yml")
        assert done.returncode != 0
        assert "every command begins with preflight" in done.stdout, done.stdout


def test_a_limit_leaves_a_testbed_and_provision_alone_holds_nothing(site: Any) -> None:
    done = site("--limit=here,localhost", "--tags=provision", here=HERE, gone=GONE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 slots" in done.stdout
    assert not (lease.folder() / "lease.json").exists()


def test_a_failure_before_the_run_lets_go_of_every_host(site: Any) -> None:
    done = site(*BROKEN)
    assert done.returncode != 0
    assert "Build the image" in done.stdout
    assert "No host is held any more" in done.stdout
    assert not (lease.folder() / "lease.json").exists()
