"""How much later does a trial start in a container than natively? On this machine, as root.

    python -m benchmarks.start [--rounds 10] [--training]

A short loop under `native`, `docker` and `apptainer`, one right after the other in each round, by
site.yml as anybody runs it; the image is there. With `--training` a small training: it reads
TensorFlow from its image, whose SIF takes minutes to make. Seconds from the launch to the first
step, from the records. Apptainer must be there, or what it is made of:
.venv/bin/python tools/apptainer_offline.py make
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import yaml

from benchmarks.lab import Lab, line

RUNTIMES = ("native", "docker", "apptainer")
LATER = 1  # second, the aim
LOOP = {"workload": "spin", "options": {"steps": 2, "warmup_steps": 1, "work": 2000}}
SIZES = {"batch_size": 8, "image_size": 32, "warmup_steps": 1, "steps": 2, "probe": False}
TRAINING = {"workload": "tf_image_classification", "options": {"model": "tiny", **SIZES}}


def experiment(folder: Path, rounds: int, what: dict[str, Any]) -> str:
    path = folder / "start.yml"
    said = {
        **{"name": "start", "title": "How long a trial takes to start", **what},
        "factors": {"runtime": list(RUNTIMES)},
        "baseline": {"runtime": "native"},
        **{"control": False, "disturbed": False, "repeats": rounds},
    }
    path.write_text(yaml.safe_dump(said))
    return f"-estrata_experiment={path}"


def told(records: list[dict[str, Any]]) -> None:
    """Each runtime's start, and how much later than the native one of its round."""
    bad = [record["reason"]["message"] for record in records if record["reason"]]
    if bad:
        raise SystemExit("\n".join(bad))
    took: dict[str, dict[int, float]] = {runtime: {} for runtime in RUNTIMES}
    for record in records:
        took[record["levels"]["runtime"]][record["round"]] = record["phases"]["startup"]
    for runtime, found in took.items():
        line(f"start, {runtime}", list(found.values()))
    native = took.pop("native")
    for runtime, found in took.items():
        later = [found[n] - native[n] for n in sorted(native)]
        line(f"later, {runtime}", later, note=f"at most {LATER} is the aim")
        line("the same, as a ratio", [found[n] / native[n] for n in sorted(native)], "")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--training", action="store_true", help="not a loop")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lab = Lab(folder)
        print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
        results = f"-estrata_results={folder}/results"
        asked = experiment(folder, given.rounds, TRAINING if given.training else LOOP)
        lab.run("site.yml", "-i", "inventories/local", asked, results)
        records = [
            json.loads(path.read_text())
            for path in (folder / "results").glob("*/trials/*/record.json")
        ]
        told(records)
        print(f"load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
