"""What is asked of a cluster that exists: rights, quantities and words, without a cluster.

A real one is in tests/kubernetes.
"""

from __future__ import annotations

import re

import pytest
import yaml
from strata.host import agent
from strata.providers.cluster import nodes, site
from strata.runtimes.kubernetes import objects

from tests.conftest import REPO

TEMPLATES = REPO / "roles/cluster/templates"


def test_an_agent_is_given_no_right_that_was_not_asked_for() -> None:
    """Nobody can give what he has not: preflight would pass, and the role be refused."""
    text = (TEMPLATES / "agents.yml.j2").read_text()
    rules = [yaml.safe_load(rule) for rule in re.findall(r"- (\{apiGroups.*\})", text)]
    wanted = {
        (verb, group, resource)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {(one.verb, one.group, one.resource) for one in site.needed("mine") if one.namespace}
    assert ("create", "batch", "jobs") in wanted and wanted <= asked


def test_names_are_those_of_the_roles_templates() -> None:
    agents = (TEMPLATES / "agents.yml.j2").read_text()
    images = (TEMPLATES / "images.yml.j2").read_text()
    for words in (
        f"name: {objects.SERVICE}, namespace",
        f"selector: {{{objects.RUNS}: {objects.CONTAINER}}}",
        f"{site.TESTBED}: {{{{ cluster_testbed }}}}",
        f"{agent.FILE.name}: {{{{",
        f"mountPath: {agent.FILE.parent}",
        f"{{name: {agent.NODE}, valueFrom:",
    ):
        assert words in agents, words
    assert f"{objects.IMAGE}: {{{{ name }}}}" in images


def test_rights_that_lack_stand_in_one_list() -> None:
    lacking = [
        site.Right("create", "", "namespaces", ""),
        site.Right("create", "apps", "daemonsets", "mine"),
        site.Right("get", "", "pods/exec", "mine"),
    ]
    assert site.missing(lacking, "mine") == (
        "in the cluster: create namespaces; "
        "in the namespace mine: create daemonsets.apps, get pods/exec"
    )


@pytest.mark.parametrize(
    ("text", "value"), [("4", 4), ("7900m", 7.9), ("24707072Ki", 25300041728), ("16Gi", 2**34)]
)
def test_quantities_are_read_as_a_cluster_writes_them(text: str, value: float) -> None:
    assert nodes.number(text) == value
