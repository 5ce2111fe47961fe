"""A training from a SIF beside native and Docker: the image of its family takes minutes to make."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.apptainer.conftest import deployed
from tests.apptainer.test_site import run_the_same_bits

__all__ = ["deployed"]
pytestmark = [pytest.mark.root, pytest.mark.docker, pytest.mark.image]


def test_three_runtimes_train_with_the_same_bits(deployed: None, tmp_path: Path) -> None:
    run_the_same_bits("sif_training", tmp_path)
