"""The module strata_built through real Ansible: what this machine was built of."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from .conftest import RunModule


def test_built_is_what_the_machine_says(run_module: RunModule) -> None:
    if shutil.which("dpkg-query") is None:
        pytest.skip("needs a Debian or Ubuntu: its packages are dpkg's")
    ask = ["dpkg-query", "-W", "-f", "${Version}", "dpkg"]
    version = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    wanted = {"dpkg": version, "strata-is-no-package": "1.0-1"}
    for check in (False, True):
        found = run_module("strata_built", {"wanted": wanted}, check=check)
        assert not found["failed"] and not found["changed"]
        assert found["built"]["package.dpkg"] == version
        assert found["built"]["sysctl.net.core.somaxconn"].isdigit()
        assert found["differing"] == found["unavailable"] == ["strata-is-no-package=1.0-1"]
