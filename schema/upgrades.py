"""What documents of older schemas did not say yet. Nothing here changes when a workload does."""

from __future__ import annotations

from typing import Any

# name, label, unit, better, headline, combine: the metrics that schemas 1 and 2 knew.
_THROUGHPUT = ("throughput", "Throughput", "images/s", "higher", True, "throughput")
_STEP_MEDIAN = ("step_median", "Median step", "s", "lower", False, "median")
_COMMON = (
    ("elapsed", "Elapsed", "s", "lower", True, "max"),
    ("startup", "Startup", "s", "lower", True, "max"),
    ("first_step", "First step", "s", "lower", False, "max"),
    ("cpu", "CPU time", "s", "lower", False, "total"),
    ("memory_peak", "Peak memory", "bytes", "lower", False, "total"),
    ("exchange", "Exchange in a step", "s", "lower", False, "chief"),
    ("goodput", "Goodput of the link", "bytes/s", "higher", False, "chief"),
    ("bytes_moved", "Bytes on the link in a step", "bytes", "", False, "chief"),
    ("limit", "What the link allows", "images/s", "", False, "chief"),
    ("of_limit", "Share of the limit", "1", "", False, "chief"),
    ("skew", "Skew of the workers' begins", "s", "", False, "chief"),
    ("straggler", "Slowest worker / median worker", "1", "", False, "chief"),
)
_OWN: dict[str, tuple[str | None, tuple[tuple[Any, ...], ...]]] = {
    "tf_image_classification": (
        "images",
        (
            _THROUGHPUT,
            _STEP_MEDIAN,
            ("images_per_cpu_second", "Images per CPU second", "images/s", "higher", False, "mean"),
            ("flops", "Achieved FLOP/s", "FLOP/s", "higher", False, "throughput"),
            ("matmul_flops", "Matmul FLOP/s", "FLOP/s", "higher", False, "chief"),
            ("decode_capacity", "Input alone", "images/s", "higher", False, "chief"),
            ("input_share", "Share of input", "1", "", False, "mean"),
            ("parameters", "Parameters", "1", "", False, "chief"),
            ("flop_per_image", "Work per image", "FLOP", "", False, "chief"),
            ("loss_first", "First loss", "1", "", False, "chief"),
            ("loss_last", "Last loss", "1", "", False, "chief"),
        ),
    ),
    "mnist_dnn": (
        "images",
        (
            _THROUGHPUT,
            ("rate", "Rate", "steps/s", "higher", True, "sum"),
            ("run_time", "Run time", "s", "lower", True, "max"),
            _STEP_MEDIAN,
            ("time_delta", "Time delta of a worker", "s", "lower", False, "mean"),
            ("accuracy_max", "Highest accuracy", "1", "higher", False, "max"),
            ("accuracy_std", "Spread of accuracy", "1", "", False, "chief"),
            ("accuracy_last", "Last accuracy", "1", "", False, "chief"),
            ("local_steps", "Local steps", "steps", "", False, "sum"),
        ),
    ),
    "spin": (None, (("rate", "Rate", "hashes/s", "higher", True, "sum"),)),
}
# Columns of steps.parquet that have another name since schema 3.
STEPS = {"images": "items"}
_OF_ONE = {"family": "tensorflow"}
_KEYS = ("name", "label", "unit", "better", "headline", "combine")


def declared(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 2 to 3: run.json declares the metrics of its workloads; other documents stay."""
    if "experiment_digest" not in document:
        return document
    workloads = {
        name: {
            "items": items,
            "metrics": [dict(zip(_KEYS, row, strict=True)) for row in (*own, *_COMMON)],
        }
        for name, (items, own) in _OWN.items()
    }
    return {**document, "workloads": workloads}


def families(document: dict[str, Any]) -> dict[str, Any]:
    """Schema 3 to 4: images are of families. Until then there was one, TensorFlow's, for all."""
    if "slots" in document:
        slots = [{**slot, "trials": [_OF_ONE | trial for trial in slot["trials"]]}
                 for slot in document["slots"]]  # fmt: skip
        return {**document, "slots": slots}
    if "image" not in document:
        return document
    image = _OF_ONE | document["image"]
    if "experiment_digest" not in document:
        return {**document, "image": image}
    rest = {key: value for key, value in document.items() if key != "image"}
    return {**rest, "images": [image]}
