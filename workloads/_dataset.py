"""A dataset that a generator makes: whole, or not there."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workloads._options import BadInputError


def make(out: Path, write: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    """The folder OUT/dataset: what `write` puts into it, and the manifest that it returns.

    It is written under another name and renamed when it is complete.
    """
    final = out / "dataset"
    if final.exists():
        raise BadInputError(f"out: must be a folder without a data set; given: {final} exists")
    partial = out / f".dataset.partial-{os.getpid()}"
    try:
        partial.mkdir()
        manifest = write(partial)
        (partial / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
        partial.replace(final)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest
