"""This machine with Apptainer, too: built where the distribution has none, and deployed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from strata import runtimes

from tests.conftest import EXPERIMENTS, changed, playbook
from tests.integration.test_trials import image, order, with_pair

__all__ = ["image", "order", "with_pair"]


@pytest.fixture(scope="session")
def deployed(deployed: None, apptainer: None) -> Iterator[None]:
    """The image for all three runtimes; a second time changes nothing, and neither does a look."""
    given = ["--tags=deploy", f"-estrata_experiment={EXPERIMENTS}/sif.yml"]
    playbook("site.yml", *given)
    for more in ([], ["--check", "--diff"]):
        assert changed(playbook("site.yml", *given, *more).stdout) == 0
    yield
    of_host = runtimes.get("apptainer")
    of_host.remove()
    assert of_host.found() == {"Apptainer": []}
