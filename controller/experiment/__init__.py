"""An experiment: one YAML, read, checked, and refused in plain words.

Runs on the controller only (pydantic, PyYAML).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from strata.cell import PLATFORM
from strata.errors import Refused, nearest

from .. import strict_yaml
from .canonical import canonical
from .checks import check, resolve_options
from .model import Background, Dataset, Disturbed, Experiment, Own, Slice, Stop, options_of
from .parts import parts, sliced

__all__ = ["PLATFORM", "Experiment", "canonical", "load", "options_of", "parts", "resolve_options"]


def load(path: Path, slice_name: str = "") -> Experiment:
    """Read, check and slice the experiment at `path`. Raises Refused."""
    experiment = _parse(strict_yaml.read(path, "experiment"), path.name)
    if slice_name:
        experiment = sliced(experiment, slice_name)
    check(experiment)
    return experiment


def _parse(given: dict[str, Any], where: str) -> Experiment:
    try:
        return Experiment.model_validate(given)
    except ValidationError as error:
        raise _refusal(error, where) from error


def _refusal(error: ValidationError, where: str) -> Refused:
    """The first of pydantic's findings, as a sentence with an example and what was given."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        name = str(first["loc"][-1])
        known = list(PARTS.get(str(first["loc"][0]), Experiment).model_fields)
        return Refused(f"{where}: unknown name {name!r}", given=place, then=nearest(name, known))
    if first["type"] == "missing":
        return Refused(f"{where}: {place!r} is missing", example=EXAMPLES.get(place, ""))
    return Refused(
        f"{where}: {place}: {first['msg']}",
        example=EXAMPLES.get(str(first["loc"][0]), ""),
        given=repr(first.get("input"))[:200],
    )


# The parts of an experiment that are mappings with names of their own.
PARTS: dict[str, type[BaseModel]] = {
    "dataset": Dataset,
    "backgrounds": Background,
    "disturbed": Disturbed,
    "stop": Stop,
    "slices": Slice,
    "workloads": Own,
}

EXAMPLES = {
    "name": "name: quick",
    "title": "title: Native against Docker",
    "workload": "workload: tf_image_classification",
    "factors": "factors: {runtime: [native, docker], model: [resnet50]}",
    "baseline": "baseline: {runtime: native}",
    "repeats": "repeats: 5",
    "design": "design: duet",
    "visits": "visits: 3, or visits: balanced",
    "stop": "stop: {of: {runtime: docker}, within: 0.03}",
    "batch_size": "batch_size: 32",
    "seed": "seed: 1",
    "disturbed": "disturbed: {others: 0.1, again: 2}, or disturbed: false",
}
