"""How long does everything before the run take when there is nothing to do?

    python benchmarks/noop.py [--rounds 5]

Interleaves, in random order, an empty play and a second `--tags provision,deploy` of site.yml on
this machine, and prints the ratio of their wall times with its spread. Deploy once before.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPO = Path(__file__).parent.parent
EMPTY = "- {name: Nothing, hosts: localhost, gather_facts: false, tasks: []}\n"


def seconds(command: list[str]) -> float:
    """Wall time of one ansible-playbook. Raises CalledProcessError when it fails."""
    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    begin = time.monotonic()
    subprocess.run(command, cwd=REPO, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    playbook = str(Path(sys.executable).with_name("ansible-playbook"))
    local = ["-i", "inventories/local"]
    with tempfile.TemporaryDirectory() as folder:
        empty = Path(folder) / "empty.yml"
        empty.write_text(EMPTY)
        commands = {
            "empty": [playbook, *local, str(empty)],
            "deployed": [playbook, *local, "site.yml", "--tags", "provision,deploy"],
        }
        seconds(commands["deployed"])
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name in random.sample(sorted(commands), len(commands)):
                times[name].append(seconds(commands[name]))
    ratios = [a / b for a, b in zip(times["deployed"], times["empty"], strict=True)]
    for name, values in times.items():
        print(
            f"{name:9} {statistics.median(values):6.2f} s  [{min(values):.2f} .. {max(values):.2f}]"
        )
    print(
        f"{'ratio':9} {statistics.median(ratios):6.2f}    [{min(ratios):.2f} .. {max(ratios):.2f}]"
        f"  over {rounds} rounds; at most 10 is the aim"
    )


if __name__ == "__main__":
    main()
