"""This machine with Apptainer, too: built where the distribution has none, and deployed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from strata.runtimes import apptainer

from tests.conftest import EXPERIMENTS, changed, playbook
from tests.integration.test_trials import image, order, with_pair

__all__ = ["image", "order", "with_pair"]


@pytest.fixture(scope="session")
def deployed(deployed: None) -> Iterator[None]:
    """The image for all three runtimes; a second time changes nothing, and neither does a look."""
    given = ["--tags=deploy", f"-estrata_experiment={EXPERIMENTS}/sif.yml"]
    playbook("site.yml", *given)
    for more in ([], ["--check", "--diff"]):
        assert changed(playbook("site.yml", *given, *more).stdout) == 0
    yield
    apptainer.remove()
    assert apptainer.found() == {"Apptainer": []}
