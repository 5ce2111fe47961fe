"""What the tests of this tier share: a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import lab
from tools import kubernetes_offline


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Cluster]:
    """Two nodes of a cluster that has no network of pods yet."""
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    with lab.made(inventory, *kubernetes_offline.BUNDLES) as cluster:
        cluster.call("kubernetes", "main")
        yield cluster
