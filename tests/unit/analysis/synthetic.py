"""Writes run folders as docs/results.md describes them, with effects that are known."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from controller import metrics as declarations
from schema import documents as schema

IMAGE = "sha256:" + "a" * 64
DATASET = {
    "name": "made",
    "digest": "sha256:" + "d" * 64,
    "origin": "generated",
    "asked": {"workload": "make_images", "options": {"images": 256}},
}
NATIVE = {"substrate": "bare_metal", "runtime": "native", "network": "host"}
DOCKER = {"substrate": "bare_metal", "runtime": "docker", "network": "bridge"}
HOST = {"cpu.model": "Example CPU 3000", "cpu.governor": "performance", "kernel.release": "6.1.0",
        "memory.total": 16 * 2**30, "docker.version": "28.0.1", "python": "3.11.2"}  # fmt: skip
STEAL = {"name": "steal", "detail": "0.3 cores stolen", "share": 0.075}
WARMUP = 10
BATCH = 32


@dataclass
class Effect:
    """What a platform or label does: factors on step time, seconds more of start-up."""

    slower: float = 1.0
    startup: float = 0.0


def image(digest: str) -> dict[str, str]:
    return {"family": "tensorflow", "kind": "rootfs", "digest": digest}


@dataclass
class Synthetic:
    """A run to write. `cells` are levels; `effects` by runtime or label."""

    cells: list[dict[str, Any]]
    effects: dict[str, Effect] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=lambda: {"runtime": "native"})
    factors: list[str] = field(default_factory=lambda: ["runtime", "model"])
    repeats: int = 6
    steps: int = 30
    noise: float = 0.01
    seed: int = 1
    name: str = "synthetic"
    demonstration: bool = False
    image: str = IMAGE
    failed: dict[int, str] = field(default_factory=dict)
    left_out: list[dict[str, str]] = field(default_factory=list)
    host: dict[str, Any] = field(default_factory=lambda: dict(HOST))

    def write(self, folder: Path) -> Path:
        """Write the whole run; returns its folder."""
        rng = np.random.default_rng(self.seed)
        trials = [(levels, n) for n in range(1, self.repeats + 1) for levels in self.cells]
        folder.mkdir(parents=True)
        slots, events = [], [_event("opened")]
        for index, (levels, n) in enumerate(trials):
            slot, cell = f"s{index:04d}", cell_id(levels)
            trial = f"{cell}-r{n}"
            status = "failed" if index in self.failed else "ok"
            self._trial(folder / "trials" / trial, slot, levels, n, index, rng=rng)
            slots.append({"slot": slot, "block": "b1", "hosts": ["node1"], "trials": [
                {"trial": trial, "cell": cell, "repetition": n, "role": "measured",
                 "family": "tensorflow", "levels": levels}]})  # fmt: skip
            events += [_event("slot_started", slot=slot),
                       _event("slot_finished", slot=slot, trials={trial: status})]  # fmt: skip
        events.append(_event("closed", trials=len(trials), failed=len(self.failed),
                             wall_s=360.0, measured_s=312.0))  # fmt: skip
        dump(folder / "run.json", self._run(folder.name))
        dump(folder / "plan.json", {"schema": schema.SCHEMA, "slots": slots,
                                    "estimate": {"seconds": 300.0, "bytes": 1e6}})  # fmt: skip
        lines = "".join(json.dumps(event) + "\n" for event in events)
        (folder / "journal.jsonl").write_text(lines)
        dump(folder / "hosts" / "node1.json",
             {"schema": schema.SCHEMA, "host": "node1", "captured": "2025-01-01T00:00:00Z",
              "values": self.host})  # fmt: skip
        return folder

    def _run(self, name: str) -> dict[str, Any]:
        return {
            "schema": schema.SCHEMA, "run": name, "name": self.name,
            "experiment": {"name": self.name, "title": "What does a container cost?"},
            "experiment_digest": "sha256:" + "e" * 64, "plan_digest": "sha256:" + "f" * 64,
            "seed": self.seed, "testbed": "rehearsal", "hosts": {"node1": {
                "substrate": "bare_metal"}},
            "images": [image(self.image)], "dataset": DATASET,
            "created": "2025-01-01T00:00:00Z",
            "strata": {"version": "0.1.0", "commit": "0" * 40}, "baseline": self.baseline,
            "demonstration": self.demonstration, "factors": self.factors,
            "workloads": declarations.declared(dict.fromkeys(c["workload"] for c in self.cells)),
            "left_out": self.left_out,
        }  # fmt: skip

    def _trial(self, folder: Path, slot: str, levels: dict[str, Any], n: int, index: int,
               *, rng: np.random.Generator) -> None:  # fmt: skip
        effect = self.effects.get(levels["runtime"], Effect())
        effect = self.effects.get(str(levels.get("label")), effect)
        cell = cell_id(levels)
        launched = 1000.0 + 60 * index
        times = step_times(levels, effect.slower * rng.lognormal(0, self.noise), self.steps, rng)
        startup = 3.0 + effect.startup + rng.normal(0, 0.05)
        measured = times[WARMUP:]
        phases = {
            "startup": startup, "first_step": times[0], "warmup": float(times[1:WARMUP].sum()),
            "input": 0.1 * float(measured.sum()), "compute": 0.9 * float(measured.sum()),
            "probe": 0.5, "teardown": 0.3,
        }  # fmt: skip
        total = float(sum(phases.values()))
        document = {
            "schema": schema.SCHEMA, "run": folder.parents[1].name, "slot": slot,
            "trial": folder.name,
            "cell": cell, "repetition": n, "block": "b1", "round": n, "position": 1,
            "role": "measured", "levels": levels,
            "platform": "/".join(levels[k] for k in ("substrate", "runtime", "network")),
            "hosts": ["node1"], "status": "ok", "reason": None,
            "image": image(self.image), "dataset": DATASET,
            "started": f"2025-01-01T{index // 60:02d}:{index % 60:02d}:00Z",
            "clock": {"launched": launched, "finished": launched + total},
            "metrics": metrics(times, startup, total, rng), "phases": phases,
            "flags": [STEAL] if index % 5 == 0 else [],
            "drift": [], "workload": {}, "attempt": 1, "beside": None, "duet": None,
            "members": [],
            "disturbance": {},
        }  # fmt: skip
        if index in self.failed:
            document |= {"status": "failed", "phases": {}, "metrics": {}, "flags": [],
                         "reason": {"cause": "exit", "message": self.failed[index]}}  # fmt: skip
            dump(folder / "record.json", document)
            return
        dump(folder / "record.json", document)
        step_frame(times, launched + startup).to_parquet(folder / "steps.parquet")
        usage_frame(launched, total, startup, rng).to_parquet(folder / "usage.parquet")


def step_times(levels: dict[str, Any], scale: float, steps: int,
               rng: np.random.Generator) -> np.ndarray:  # fmt: skip
    """Seconds of each step, warm-up first; the first is slow, as building a graph is."""
    base = {"resnet50": 0.4, "alexnet": 0.1}.get(str(levels.get("model")), 0.2)
    times = base * scale * rng.lognormal(0, 0.03, WARMUP + steps)
    times[:WARMUP] *= np.linspace(1.3, 1.0, WARMUP)
    times[0] += 4 * base
    return times


def metrics(times: np.ndarray, startup: float, total: float,
            rng: np.random.Generator) -> dict[str, dict[str, Any]]:  # fmt: skip
    """All metrics of a tf_image_classification trial."""
    measured = times[WARMUP:]
    throughput = BATCH * len(measured) / float(measured.sum())
    values = {
        "elapsed": (total - 0.5, "s"), "cpu": (2 * total, "s"),
        "memory_peak": (1.5e9 + rng.normal(0, 1e7), "bytes"),
        "throughput": (throughput, "images/s"), "startup": (startup, "s"),
        "first_step": (float(times[0]), "s"), "step_median": (float(np.median(measured)), "s"),
        "input_share": (0.1, "1"), "flops": (throughput * 2e9, "FLOP/s"),
        "matmul_flops": (8e11 * rng.lognormal(0, 0.01), "FLOP/s"),
        "images_per_cpu_second": (throughput / 2, "images/s"), "parameters": (25e6, "1"),
        "flop_per_image": (2e9, "FLOP"), "loss_first": (6.9, "1"), "loss_last": (6.5, "1"),
    }  # fmt: skip
    return {name: {"value": float(value), "unit": unit} for name, (value, unit) in values.items()}


def step_frame(times: np.ndarray, begin: float) -> pd.DataFrame:
    """steps.parquet of a trial."""
    mono = begin + np.concatenate([[0.0], np.cumsum(times)[:-1]])
    n = len(times)
    return pd.DataFrame({
        "step": np.arange(1, n + 1),
        "phase": ["warmup"] * WARMUP + ["measured"] * (n - WARMUP), "worker": 0, "mono": mono,
        "wall": mono + 1.7e9, "items": BATCH, "loss": np.linspace(6.9, 6.5, n),
        "input_s": 0.1 * times, "compute_s": 0.9 * times, "duration_s": times,
    })  # fmt: skip


def usage_frame(launched: float, total: float, startup: float,
                rng: np.random.Generator) -> pd.DataFrame:  # fmt: skip
    """usage.parquet of a trial, without a GPU."""
    t = np.arange(0.0, total, 0.5)
    busy = np.where(t < startup, 1.2, 3.6) + rng.normal(0, 0.1, len(t))
    zero = np.zeros(len(t))
    return pd.DataFrame({
        "mono": launched + t, "cpu_busy": busy, "steal": zero,
        "memory_used": 2.5e9 + np.minimum(t, 4) * 3e8, "disk_read": zero, "disk_written": zero,
        "net_received": zero, "net_sent": zero, "frequency": np.nan, "pressure_cpu": 0.01,
        "pressure_memory": zero, "pressure_io": zero, "swap": zero, "workload_cpu": busy - 0.1,
        "workload_memory": 5e8 + np.minimum(t, 4) * 2.5e8, "gpu_utilisation": np.nan,
        "gpu_memory": np.nan,
    })  # fmt: skip


def cell_id(levels: dict[str, Any]) -> str:
    """A short hash over the canonical JSON of the levels."""
    text = json.dumps(levels, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def cells(*platforms: dict[str, str], models: tuple[str, ...] = ("resnet50",),
          labels: tuple[str | None, ...] = (None,)) -> list[dict[str, Any]]:  # fmt: skip
    """Cells of every platform, model and label."""
    return [
        {**platform, "workload": "tf_image_classification", "model": model, "label": label,
         "cpus": "0-3", "memory": "8G", "batch_size": BATCH}
        for model in models for platform in platforms for label in labels
    ]  # fmt: skip


def dump(path: Path, document: dict[str, Any]) -> None:
    """Write a JSON document, with the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1))


def _event(event: str, **values: Any) -> dict[str, Any]:
    return {"event": event, "wall": "2025-01-01T00:00:00Z", "mono": 1.0, **values}
