"""`python -m workloads NAME --config config.json --out DIR`.

Exit 0: result.json and steps.jsonl are in DIR. Exit 2: what was given cannot be used.
Exit 75: a peer was not found, went away or failed. Exit 1: anything else, with the trace. The
reason is the last line of stderr. `--config -` reads standard input.
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
from workloads._peers import Peers  # noqa: E402
from workloads._place import Place  # noqa: E402
from workloads._termination import Termination  # noqa: E402

DEFAULTS: dict[str, Any] = {
    "options": {},
    "data_dir": None,
    "cpus": None,
    "cluster": None,
    "peers": None,
    "scratch": None,
    "until_terminated": False,
    "together": None,
}
STDIN = Path("-")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one workload; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m workloads", description=__doc__)
    parser.add_argument("name", metavar="NAME", help=", ".join(workloads.NAMES))
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    try:
        config = _read(given.config)
        if config["together"] is not None:
            from workloads import _together  # noqa: PLC0415  most trials have one process

            return _together.run(given.name, config, given.out)
        _run(given.name, config, given.out)
    except BadInputError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return 2
    except FailureError as error:
        print(f"{given.name}: {error}", file=sys.stderr)
        return error.status
    except Exception as error:
        traceback.print_exc()
        print(f"{given.name}: {type(error).__name__}: {_first_line(error)}", file=sys.stderr)
        return 1
    return 0


def _run(name: str, config: dict[str, Any], out: Path) -> None:
    chosen = workloads.workload(name)
    options = chosen.Options.parse(config["options"])
    place = None if config["cluster"] is None else Place.parse(config["cluster"])
    if place is not None and not chosen.TOPOLOGY.shares:
        raise BadInputError(f"cluster: {name} shares no gradients (example: cluster: null)")
    peers = None if config["peers"] is None else Peers.parse(config["peers"])
    if (peers is not None) != (chosen.TOPOLOGY.several and not chosen.TOPOLOGY.shares):
        rule = "has peers, and must be told of them" if peers is None else "has no peers"
        raise BadInputError(f"peers: {name} {rule} (example: peers: null)")
    termination = Termination(config["until_terminated"])
    termination.listen()
    out.mkdir(parents=True, exist_ok=True)
    (out / "result.json").unlink(missing_ok=True)  # an earlier result must not pass for this one
    data_dir = Path(config["data_dir"]) if config["data_dir"] else None
    scratch = Path(config["scratch"]) if config["scratch"] else None
    with StepLog(out / "steps.jsonl") as steps:
        context = Context(
            name,
            out,
            steps,
            data_dir,
            config["cpus"],
            place,
            termination,
            chosen.METRICS,
            chosen.ITEMS,
            peers=peers,
            scratch=scratch,
            marks={"process": PROCESS},
        )
        chosen.run(options, context)
    context.mark("end")
    context.write()


def _read(path: Path) -> dict[str, Any]:
    """config.json with every key present; BadInputError where it is not what it must be."""
    try:
        text = _from_parent() if path == STDIN else path.read_text(encoding="utf-8")
        given = json.loads(text)
    except (OSError, ValueError) as error:
        raise BadInputError(
            f'config: must be a JSON file (example: {{"options": {{}}}}); given: {path}: {error}'
        ) from error
    if not isinstance(given, dict):
        raise refuse("config", "must be an object", '{"options": {}}', given)
    for key in given:
        if key not in DEFAULTS:
            raise BadInputError(
                f"config: unknown key{nearest(key, DEFAULTS)}; "
                f"known: {', '.join(DEFAULTS)}; given: {key!r}"
            )
    config: dict[str, Any] = DEFAULTS | given
    _check(config)
    return config


def _from_parent() -> str:
    """The configuration of a member of several; it ends with the process that holds them."""
    from workloads import _together  # noqa: PLC0415

    _together.end_with_parent()
    return sys.stdin.read()


def _check(config: dict[str, Any]) -> None:
    if not isinstance(config["options"], dict):
        raise refuse("options", "must be an object", '{"steps": 100}', config["options"])
    for key, example in (("data_dir", "/data"), ("scratch", "/run/scratch")):
        if not isinstance(config[key], str | None):
            raise refuse(key, "must be a folder or null", example, config[key])
    cpus = config["cpus"]
    if cpus is not None and (type(cpus) is not int or cpus < 1):
        raise refuse("cpus", "must be a whole number of CPUs, at least 1, or null", 4, cpus)
    if not isinstance(config["until_terminated"], bool):
        raise refuse(
            "until_terminated", "must be true or false", "false", config["until_terminated"]
        )
    together = config["together"]
    if together is not None and (not isinstance(together, list) or not together):
        raise refuse("together", "must be a list of members, or null", "null", together)


def _first_line(error: Exception) -> str:
    return (str(error).strip() or "no message").splitlines()[0]


if __name__ == "__main__":
    sys.exit(main())
