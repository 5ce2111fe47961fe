"""Each module's documentation says what its code takes: names, types, defaults, choices."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from pathlib import Path
from typing import Any

import ansible.module_utils
import pytest

from tests.conftest import REPO, environment

MODULES = sorted(path.stem for path in (REPO / "library").glob("*.py"))
ACTIONS = {path.stem for path in (REPO / "action_plugins").glob("*.py")}
Spec = dict[str, Any]


class Asked(Exception):  # noqa: N818 - no error: the way out of a module's `main`
    """What a module tells AnsibleModule."""

    def __init__(self, given: Spec) -> None:
        super().__init__()
        self.given = given


def _ask(argument_spec: Spec, **more: Any) -> None:
    raise Asked({"argument_spec": argument_spec, **more})


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    """What ansible-doc makes of all modules, in one call."""
    done = subprocess.run(
        ["ansible-doc", "--json", "-t", "module", *MODULES],
        cwd=REPO,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return {key.rpartition(".")[2]: document for key, document in found.items()}


def asked(name: str, monkeypatch: pytest.MonkeyPatch) -> Spec | None:
    """The arguments of AnsibleModule in a module, or None where there are none to compare with.

    A module that does not call it is documentation only: an action plugin of the same name does
    the work on the controller, and says in ARGUMENTS what it takes, or checks that by itself.
    """
    paths = [*ansible.module_utils.__path__, str(REPO / "module_utils")]
    monkeypatch.setattr(ansible.module_utils, "__path__", paths)
    spec = importlib.util.spec_from_file_location(name, REPO / "library" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "AnsibleModule"):
        action = importlib.import_module(f"action_plugins.{name}").ActionModule
        arguments = getattr(action, "ARGUMENTS", None)
        return {"argument_spec": arguments, "supports_check_mode": True} if arguments else None
    monkeypatch.setattr(module, "AnsibleModule", _ask)
    with pytest.raises(Asked) as caught:
        module.main()
    return caught.value.given


def from_code(spec: Spec) -> Spec:
    """An argument_spec as the documentation would say it."""
    return {
        name: _plain(
            option.get("type", "str"), option, nested=from_code(option.get("options") or {})
        )
        for name, option in spec.items()
    }


def from_document(options: Spec) -> Spec:
    """The documented options, without their prose."""
    return {
        name: _plain(
            option.get("type", "str"), option, nested=from_document(option.get("suboptions") or {})
        )
        for name, option in options.items()
    }


def _plain(kind: str, option: Spec, nested: Spec) -> Spec:
    default = option.get("default")
    return {
        "type": kind,
        "elements": option.get("elements"),
        "required": bool(option.get("required")),
        # `default: {}` and `default: 3600` mean the same as in code; a float may be written short.
        "default": float(default) if kind == "float" and default is not None else default,
        "choices": list(option.get("choices") or []),
        "options": nested,
    }


@pytest.mark.parametrize("name", MODULES)
def test_options_are_those_of_the_code(
    name: str, documents: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = asked(name, monkeypatch)
    if given is None:
        assert name in ACTIONS, "a module without AnsibleModule is a stub of an action plugin"
        return
    document = documents[name]["doc"]
    assert from_document(document.get("options") or {}) == from_code(given["argument_spec"])


@pytest.mark.parametrize("name", MODULES)
def test_check_and_diff_mode_are_documented(
    name: str, documents: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    attributes = documents[name]["doc"]["attributes"]
    assert {"check_mode", "diff_mode"} <= set(attributes)
    for attribute in attributes.values():
        assert attribute["support"] in {"full", "partial", "none", "N/A"}
        assert attribute["description"]
    given = asked(name, monkeypatch)
    if given is not None:
        supported = bool(given.get("supports_check_mode"))
        assert (attributes["check_mode"]["support"] != "none") is supported


@pytest.mark.parametrize("name", MODULES)
def test_results_and_examples_are_documented(name: str, documents: dict[str, Any]) -> None:
    document = documents[name]
    assert document["return"]
    for key, value in document["return"].items():
        assert {"description", "returned", "type"} <= set(value), key
    assert name in document["examples"]


@pytest.mark.parametrize("name", MODULES)
def test_every_option_has_a_sentence(name: str, documents: dict[str, Any]) -> None:
    document = documents[name]["doc"]
    assert document["module"] == name
    assert Path(document["filename"]).stem == name
    for option, about in (document.get("options") or {}).items():
        assert about.get("description"), option
