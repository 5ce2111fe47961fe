"""A copy of the checkout, for tests that add to it or change it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests import conftest

NOT_COPIED = (".git", ".venv", ".cache", ".ansible", "results", "__pycache__", "*.egg-info")


def copy(root: Path) -> None:
    """All that a user would clone, and what is not committed yet."""
    ignored = shutil.ignore_patterns(*NOT_COPIED)
    shutil.copytree(conftest.REPO, root, ignore=ignored, symlinks=True)


def environment(root: Path) -> dict[str, str]:
    """Ansible and Python take their code from the copy."""
    own = conftest.environment()
    return {
        **own,
        "ANSIBLE_CONFIG": str(root / "ansible.cfg"),
        "PYTHONPATH": f"{root}:{root / 'module_utils'}:{own['PYTHONPATH']}",
    }
