"""A dataset is made by a workload, run as a trial's is."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .. import runtimes
from ..errors import Refused
from ..host import making, processes
from ..runtimes import base
from . import account

GENERATE_SECONDS = 3600.0


def generate(image: dict[str, str], asked: dict[str, Any], folder: Path) -> None:
    """Let a workload make the dataset at `folder`: `asked` has the workload and its options.

    Raises Refused.
    """
    said = f"generate the dataset {folder.name}"
    with making.making(folder, said, GENERATE_SECONDS) as aside:
        if folder.exists():
            return  # while we waited for it, another generated it
        made = aside.folder / "out" / "dataset"
        _run(image, asked, aside.folder)
        for path in (made, *made.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
            os.chown(path, os.geteuid(), os.getegid())
        aside.place(made)


def _run(image: dict[str, str], asked: dict[str, Any], spool: Path) -> None:
    for name in ("in", "out"):
        (spool / name).mkdir()
        (spool / name).chmod(0o755)
    number = account.own(set())
    os.chown(spool / "out", number, -1)
    config = {"options": asked["options"], "data_dir": None, "cpus": None}
    (spool / "in" / "config.json").write_text(json.dumps(config))
    (spool / "in" / "config.json").chmod(0o644)
    own, workload = processes.own_name(), asked["workload"]
    spec = base.Spec(
        *(own, "dataset", workload, spool, image),
        account=number,
        environment=base.ENVIRONMENT,
    )
    runtime = runtimes.make("native", spec)
    try:
        runtime.prepare()
        runtime.launch()
        ended = runtime.wait(GENERATE_SECONDS)
        if ended is None or ended.code != 0:
            how = f"exit status {ended.code}" if ended else f"not after {GENERATE_SECONDS:g} s"
            raise _failed(asked, f"{how}: {runtime.logs()[1].strip()[-500:]}")
    except base.StartError as error:
        raise _failed(asked, str(error)) from error
    finally:
        runtime.remove()


def _failed(asked: dict[str, Any], how: str) -> Refused:
    return Refused("the dataset could not be generated", given=str(asked), then=how)
