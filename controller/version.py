"""Which Strata this is."""

from __future__ import annotations

import subprocess
from pathlib import Path


def version() -> dict[str, str]:
    """Its version, and the commit of this checkout, marked when files were changed."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        commit = done.stdout.strip()
    except FileNotFoundError:
        commit = ""
    return {"version": "0.1.0", "commit": commit or "unknown"}
