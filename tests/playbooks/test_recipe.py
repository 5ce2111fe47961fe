"""The recipe in docs/design.md is true: who adds something touches the files that it names.

A copy of the checkout gets a workload, a runtime, a network and an experiment that Strata does not
have, and runs them. They are real: each trial is a process in the workload image.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from strata.host import lease, uses

from tests import tree as trees
from tests.conftest import REPO

TOYS = REPO / "tests/data/toy"
# What the tree promises of whatever is added to it.
WALLS = (
    "tests/unit/test_rooms.py",
    "tests/unit/test_role_arguments.py",
    "tests/unit/analysis/test_analysis_metrics.py",
)


@dataclass(frozen=True)
class Toy:
    """One thing to add: new files, from the folder of its kind, and changes of others.

    A change is a path, a text that stands there once, and what takes its place.
    """

    kind: str  # as the recipe calls it
    name: str
    changes: tuple[tuple[str, str, str], ...] = ()

    def add(self, tree: Path) -> None:
        files = TOYS / self.kind.split()[-1]
        if files.is_dir():
            shutil.copytree(files, tree, dirs_exist_ok=True)
        for path, before, after in self.changes:
            text = (tree / path).read_text()
            assert text.count(before) == 1, f"{path} has changed: {before!r} is not there once"
            (tree / path).write_text(text.replace(before, after))

    def recipe(self) -> set[str]:
        """The paths that docs/design.md names for it; a folder's ends with a slash."""
        page = (REPO / "docs/design.md").read_text()
        table = page.split("## To add something\n")[1].split("\n## ")[0]
        row = next(line for line in table.splitlines() if line.startswith(f"| {self.kind} |"))
        return {path.replace("NAME", self.name) for path in re.findall(r"`([^`]*/[^`]*)`", row)}


KNOWN = "module_utils/strata/runtimes/__init__.py"
NETWORKS = "module_utils/strata/networks.py"
HOST = 'Network("host", EVERY, of_host=True),'
HOST_TOO = 'Network("host", (*EVERY, "unshared"), of_host=True),'
ENCLAVE = """Network(
            "enclave",
            ("unshared",),
            peers="none",
            setting="enclave",
            role="enclave",
            called="strata-enclave",
        ),"""
TOY = [
    Toy(
        "a workload",
        "toy_sort",
        (
            (
                "docs/results.md",
                "`spin` adds",
                "`toy_sort` adds `sorted`, `interfaces`. `spin` adds",
            ),
        ),
    ),
    Toy(
        "a runtime",
        "unshared",
        (
            (
                KNOWN,
                "import apptainer, docker, kubernetes, native",
                "import apptainer, docker, kubernetes, native, unshared",
            ),
            (KNOWN, "(Package, docker)", '(Package, docker), "unshared": cast(Package, unshared)'),
            (NETWORKS, HOST, HOST_TOO),
        ),
    ),
    Toy("a network", "enclave", ((NETWORKS, HOST_TOO, f"{HOST_TOO}\n        {ENCLAVE}"),)),
    Toy("a provider", "twin"),
    Toy("an experiment", "toy"),
]


@dataclass(frozen=True)
class Tree:
    """The copy, and what each toy has touched in it."""

    root: Path
    touched: dict[str, set[str]]

    def run(self, *command: str) -> str:
        done = subprocess.run(
            command,
            cwd=self.root,
            env=trees.environment(self.root),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-6000:]
        return done.stdout


def content(tree: Path) -> dict[str, bytes]:
    """Every file of the tree."""
    files = [path for path in tree.rglob("*") if path.is_file()]
    return {str(path.relative_to(tree)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    root = tmp_path_factory.mktemp("toy") / "strata"
    trees.copy(root)
    touched, before = {}, content(root)
    for toy in TOY:
        toy.add(root)
        after = content(root)
        touched[toy.kind] = {path for path in after if after[path] != before.get(path)}
        before = after
    yield Tree(root, touched)
    shutil.rmtree(root.parent)


@pytest.mark.parametrize("toy", TOY, ids=lambda toy: toy.kind)
def test_what_is_touched_is_what_the_recipe_names(tree: Tree, toy: Toy) -> None:
    named = toy.recipe()
    used = {
        path: {
            name for name in named if path == name or (name[-1] == "/" and path.startswith(name))
        }
        for path in tree.touched[toy.kind]
    }
    assert [path for path, names in used.items() if not names] == [], "the recipe is silent on it"
    assert named == set().union(*used.values()), "the recipe names more than is needed"


def test_the_walls_of_the_tree_stand_with_them(tree: Tree) -> None:
    tree.run(sys.executable, "-m", "pytest", "-q", "--rootdir", str(tree.root), *WALLS)


@pytest.mark.root
@pytest.mark.image
def test_they_run_through_all_stages_to_the_page(deployed: None, tree: Tree) -> None:
    base = tree.root.parent
    hosts = {"hosts": {"twin1": {"strata_provider": "twin"}}}
    inventory = {"testbed": {"children": {"native": hosts, "unshared": hosts}}, "vm": hosts}
    (base / "hosts.yml").write_text(yaml.safe_dump(inventory))
    # The base of the image is the checkout's. Its own image stays, since this process uses it.
    cache = REPO / ".cache"
    uses.note([str(path) for path in (cache / "images").iterdir()], lease.process(os.getpid()))
    given = [f"-estrata_cache={cache}", f"-estrata_state_dir={base}/state"]
    given += ["-i", str(base / "hosts.yml")]
    asked = ["-estrata_experiment=toy", f"-estrata_results={base}/results"]
    tree.run("ansible-playbook", "site.yml", *given, *asked)

    (run,) = (base / "results").iterdir()
    records = [json.loads(path.read_text()) for path in run.glob("trials/*/record.json")]
    assert [record["reason"] for record in records if record["status"] != "ok"] == []
    ran = sorted("/".join(record["platform"].split("/")[1:]) for record in records)
    arms = ["native/host", "unshared/host", "unshared/enclave"]
    assert ran == sorted(2 * arms)
    # In the network namespace a trial sees a loopback and one end of the link. All others see the
    # other end, too: they are measured in the blocks of that setting.
    here = len(socket.if_nameindex())
    for record in records:
        seen = record["metrics"]["interfaces"]["value"]
        assert seen == 2 if record["platform"].endswith("/enclave") else seen > here
    journal = (run / "journal.jsonl").read_text().splitlines()
    events = [json.loads(line)["event"] for line in journal]
    settings = [event for event in events if event.startswith("setting_")]
    assert settings == 2 * ["setting_begun", "setting_proven", "setting_left"]
    assert not Path("/run/netns/strata-enclave").exists()
    page = (run / "report/index.html").read_text()
    assert [word for word in (*arms, "Sorted") if word not in page] == []
    assert "unshared.util_linux" in (run / "hosts/twin1.json").read_text()
    # The host that was made is the one that was measured, and goes with the testbed.
    (made,) = Path("/run/strata-twin").glob("*/twin1")
    hosts = json.loads((run / "run.json").read_text())["hosts"]
    assert hosts["twin1"]["instance"] == made.read_text()
    tree.run("ansible-playbook", "playbooks/teardown.yml", *given, "--limit=testbed")
    assert not made.exists()
