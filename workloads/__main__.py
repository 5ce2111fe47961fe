"""`python -m workloads NAME --config config.json --out DIR`.

Exit 0: result.json and steps.jsonl are in DIR. Exit 2: what was given cannot be used.
Exit 1: anything else, with the trace. The reason is the last line of stderr.
"""

import time

PROCESS = time.monotonic()  # before the other imports: what they cost belongs to `startup`

import argparse  # noqa: E402
import json  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import workloads  # noqa: E402
from workloads._options import BadInputError, nearest, refuse  # noqa: E402
from workloads._output import Context, FailureError, StepLog  # noqa: E402

CONFIG_KEYS = ("options", "data_dir", "cpus")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one workload; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workloads", description=__doc__)
    parser.add_argument("name", metavar="NAME", help=", ".join(workloads.NAMES))
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        _run(given.name, _read(given.config), given.out)
    except BadInputError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 2
    except FailureError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 1
    except Exception as error:
        traceback.print_exc()
        print(f"{given.name}: {type(error).__name__}: {_first_line(error)}", file=sys.stderr)
        return 1
    return 0


def _run(name: str, config: dict[str, Any], out: Path) -> None:
    chosen = workloads.workload(name)
    options = chosen.Options.parse(config["options"])
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").unlink(missing_ok=True)  # an earlier result must not pass for this one
    data_dir = Path(config["data_dir"]) if config["data_dir"] else None
    with StepLog(out / "steps.jsonl") as steps:
        context = Context(name, out, steps, data_dir, config["cpus"], marks={"process": PROCESS})
        chosen.run(options, context)
    context.mark("end")
    context.write()


def _read(path: Path) -> dict[str, Any]:
    """config.json with every key present; BadInputError where it is not what it must be."""
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadInputError(
            f'config: must be a JSON file (example: {{"options": {{}}}}); given: {path}: {error}'
        ) from error
    if not isinstance(given, dict):
        raise refuse("config", "must be an object", '{"options": {}}', given)
    for key in given:
        if key not in CONFIG_KEYS:
            raise BadInputError(
                f"config: unknown key{nearest(key, CONFIG_KEYS)}; "
                f"known: {', '.join(CONFIG_KEYS)}; given: {key!r}"
            )
    config: dict[str, Any] = {"options": {}, "data_dir": None, "cpus": None} | given
    _check(config)
    return config


def _check(config: dict[str, Any]) -> None:
    if not isinstance(config["options"], dict):
        raise refuse("options", "must be an object", '{"steps": 100}', config["options"])
    if not isinstance(config["data_dir"], str | None):
        raise refuse("data_dir", "must be a folder or null", "/data", config["data_dir"])
    cpus = config["cpus"]
    if cpus is not None and (type(cpus) is not int or cpus < 1):
        raise refuse("cpus", "must be a whole number of CPUs, at least 1, or null", 4, cpus)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
