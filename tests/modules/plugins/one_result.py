"""Ansible's output for tests: the whole result of each task as a line of JSON, diff and all."""

from __future__ import annotations

import json
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = r"""
name: one_result
type: stdout
short_description: Each result as a line of JSON
description: For tests of single modules.
"""


class CallbackModule(CallbackBase):
    """Prints results and nothing else; warnings go to the error stream by themselves."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "one_result"

    def v2_runner_on_ok(self, result: Any) -> None:
        print(json.dumps({**result.result, "failed": False}))

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        print(json.dumps({**result.result, "failed": True}))

    v2_runner_on_unreachable = v2_runner_on_failed
