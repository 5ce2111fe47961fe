"""The walls between rooms: what may import what. docs/design.md draws them.

What runs on a host has Python's standard library and no more, since nobody installs anything there
for it; only the package of a runtime may import that runtime's own client.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import REPO

HOST = REPO / "module_utils/strata"
# A room, and the rooms that it may look into beside itself.
MAY = {
    "shared": set[str](),
    "host": {"shared"},
    "image": {"shared", "host"},
    "runtimes": {"shared", "host", "image"},
    "trial": {"shared", "host", "image", "runtimes"},
    "providers": {"shared", "host"},
    "workloads": set[str](),
    "schema": {"shared", "host", "runtimes"},
    "analysis": {"schema"},
    "controller": {
        *("shared", "host", "image", "runtimes", "trial"),
        *("schema", "analysis", "workloads"),
    },
    "campaign": {"shared", "host", "schema", "analysis", "controller"},
}
# Beside the standard library, by the folder of module_utils/strata that needs it.
CLIENTS = {
    "runtimes/docker": {"docker", "requests"},
    "runtimes/kubernetes": {"kubernetes", "urllib3", "websocket", "yaml"},
    "providers/cluster": {"kubernetes", "urllib3"},
    "providers/libvirt": {"libvirt"},
    "providers/openstack": {"keystoneauth1", "openstack"},
}


def files(room: str) -> list[Path]:
    if room == "shared":
        return sorted(HOST.glob("*.py"))
    own = HOST / room
    return sorted((own if own.is_dir() else REPO / room).rglob("*.py"))


def name(path: Path) -> str:
    """Of a module, as the controller imports it."""
    inside = path.is_relative_to(HOST)
    parts = path.relative_to(HOST if inside else REPO).with_suffix("").parts
    return ".".join([*(["strata"] if inside else []), *parts]).removesuffix(".__init__")


@cache
def imports(path: Path) -> list[str]:
    """What a file imports, wherever in it, by absolute names."""
    here = name(path).split(".")
    package = here if path.name == "__init__.py" else here[:-1]
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found += [f"{base}.{alias.name}" for alias in node.names]
    return found


def room(imported: str) -> str:
    """The room of one of our modules; '' for a library."""
    top, _, rest = imported.partition(".")
    if top != "strata":
        return top if top in MAY else ""
    first = rest.partition(".")[0]
    return first if (HOST / first).is_dir() else "shared"


@pytest.mark.parametrize("here", MAY)
def test_a_room_looks_only_into_those_that_it_may(here: str) -> None:
    assert files(here), here
    wrong = [
        f"{path.relative_to(REPO)} imports {imported}"
        for path in files(here)
        for imported in imports(path)
        if room(imported) not in ("", here, *MAY[here])
    ]
    assert wrong == []


@pytest.mark.parametrize("path", sorted(HOST.rglob("*.py")), ids=name)
def test_a_host_needs_the_standard_library_only(path: Path) -> None:
    folder = path.parent.relative_to(HOST).as_posix()
    tops = {imported.partition(".")[0] for imported in imports(path)}
    assert tops - sys.stdlib_module_names - {"strata"} - CLIENTS.get(folder, set()) == set()


def modules() -> dict[str, set[str]]:
    """Our modules and which of ours each imports."""
    paths = {name(path): path for here in MAY for path in files(here)}

    def ours(imported: str) -> Iterator[str]:
        for one in (imported, imported.rpartition(".")[0]):
            if one in paths:
                yield one
                return

    return {
        own: {other for imported in imports(path) for other in ours(imported)} - {own}
        for own, path in paths.items()
    }


def test_no_import_leads_back_to_where_it_came_from() -> None:
    graph, done = modules(), set[str]()

    def visit(module: str, way: list[str]) -> None:
        assert module not in way, " > ".join([*way[way.index(module) :], module])
        if module in done:
            return
        for other in sorted(graph[module]):
            visit(other, [*way, module])
        done.add(module)

    for module in graph:
        visit(module, [])


@pytest.mark.parametrize("module", sorted((REPO / "library").glob("*.py")), ids=lambda p: p.stem)
def test_a_module_takes_its_code_from_what_is_shipped_with_it(module: Path) -> None:
    """Ansible ships module_utils to where a module runs, and nothing else of ours."""
    # The lab is made by an engine, and only where there is one.
    client = {"docker"} if module.stem.startswith("strata_rehearsal") else set()
    own = {imported.partition(".")[0] for imported in imports(module)}
    assert own - sys.stdlib_module_names - client <= {"ansible"}
