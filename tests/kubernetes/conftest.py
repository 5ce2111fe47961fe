"""What the tests of this tier share: a cluster."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster import lab
from tools import kubernetes_offline


@pytest.fixture(scope="session")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lab.Cluster]:
    """Two nodes of a cluster that has no network of pods yet, and gives pods CPUs of their own."""
    inventory = tmp_path_factory.mktemp("lab") / "inventory"
    bundles = kubernetes_offline.BUNDLES
    with lab.made(inventory, *bundles, kubernetes_cpu_manager="static") as cluster:
        cluster.call("kubernetes", "main")
        yield cluster
