"""This machine with Apptainer, too: built where the distribution has none, and deployed."""

from __future__ import annotations

import pytest

from tests.conftest import EXPERIMENTS, changed, playbook


@pytest.fixture(scope="session")
def deployed(deployed: None) -> None:
    """The image for all three runtimes; a second time changes nothing, and neither does a look."""
    given = ["--tags=deploy", f"-estrata_experiment={EXPERIMENTS}/sif.yml"]
    assert changed(playbook("site.yml", *given).stdout) > 0
    for more in ([], ["--check", "--diff"]):
        assert changed(playbook("site.yml", *given, *more).stdout) == 0
