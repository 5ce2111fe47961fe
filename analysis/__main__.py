"""The command line: `python -m analysis report RUN`, `show RUN`, `compare RUN_A RUN_B`.

Exit 0: done. 2: refused, in a sentence. 70: broken. 130: interrupted. 141: nobody read the end.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from schema.documents import SchemaError

from . import shown
from .errors import AnalysisError

REFUSED, BROKEN, INTERRUPTED = 2, 70, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return shown.lines(_lines(options))
    except (AnalysisError, SchemaError, OSError) as error:
        return _said(str(error), REFUSED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _said(shown.broken(error), BROKEN)


def _said(text: str, status: int) -> int:
    with contextlib.suppress(OSError):
        shown.lines([f"analysis: {text}"], sys.stderr)
    return status


def _lines(options: argparse.Namespace) -> list[str]:
    # Each command imports what it needs: drawing takes a second that `show` has no use for.
    if options.command == "report":
        from .report import make  # noqa: PLC0415

        return make(options.run, options.table)
    if options.command == "show":
        from . import summary_lines  # noqa: PLC0415

        return summary_lines(options.run, options.table)
    from . import load, two_runs, two_runs_page  # noqa: PLC0415

    left = [load.load(run) for run in (options.left, *options.before)]
    right = [load.load(run) for run in (options.right, *options.after)]
    lines = two_runs.lines(left, right, options.within)
    return [*lines, "", f"report: {two_runs_page.write(left, right)}"]


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError("a share is between 0 and 1, such as 0.02")
    return share


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    report = commands.add_parser("report", help="write RUN/report and print the summary")
    show = commands.add_parser("show", help="print the summary and write nothing")
    for command in (report, show):
        command.add_argument("run", type=Path, metavar="RUN", help="a folder in results/")
        command.add_argument("--table", choices=("latex", "markdown"), default="",
                             help="print the main table alone, in this language")  # fmt: skip
    compare = commands.add_parser("compare", help="what changed from run A to run B, cell by cell")
    compare.add_argument("left", type=Path, metavar="RUN_A")
    compare.add_argument("right", type=Path, metavar="RUN_B")
    for side, of in (("--before", "RUN_A"), ("--after", "RUN_B")):
        compare.add_argument(side, type=Path, nargs="+", action="extend", default=[],
                             metavar="RUN", help=f"more runs of the side of {of}")  # fmt: skip
    compare.add_argument("--within", type=_share, default=0.0, metavar="SHARE",
                         help="say which cells are equivalent: 0.02 for 2 %%")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main())
