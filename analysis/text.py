"""Numbers as words for people: changes in percent, values with units, tables of plain text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from .inference import Estimate
from .metrics import DASH, scale
from .shown import shown

MINUS = "\N{MINUS SIGN}"
WIDTH = 100
NAME = 14  # columns that a name keeps, as long as something else in its row is wider


def quantity(value: float | None, unit: str) -> str:
    """One value with its unit in a scale of its own: `2.310 GiB`, `41.20 ms`."""
    if value is None or not math.isfinite(value):
        return DASH
    return scale([value], unit).with_unit(value)


def estimate(found: Estimate, unit: str) -> str:
    """A mean with its interval: `410.2 ms (380.1 … 440.0)`."""
    how = scale([found.mean, found.low, found.high], unit)
    span = f" ({how.text(found.low)} … {how.text(found.high)})" if math.isfinite(found.low) else ""
    return (how.with_unit(found.mean) + span).replace("-", MINUS)


def percent(ratio: float | None) -> str:
    """A ratio as a signed change: 0.92 -> `-8.0 %`, with a true minus sign."""
    if ratio is None or not math.isfinite(ratio):
        return DASH
    change = (ratio - 1) * 100
    if abs(change) < 0.005:  # noqa: PLR2004
        return "0.0 %"
    # One decimal, but two where one would show a limit beside 0 as 0, on which a verdict hangs.
    digits = 0 if abs(change) >= 99.95 else 2 if abs(change) < 0.05 else 1  # noqa: PLR2004
    text = f"{abs(change):,.{digits}f}"
    return f"{'+' if change > 0 else MINUS}{text} %"


def span(low: float, high: float) -> str:
    """The interval of a ratio: `(-2.1 … +1.2 %)`; nothing where there is none."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"({percent(low).removesuffix(' %')} … {percent(high)})"


def change(ratio: float, low: float, high: float) -> str:
    """A ratio with its interval: `-0.4 % (-2.1 … +1.2 %)`."""
    return f"{percent(ratio)} {span(low, high)}".rstrip()


def largest(low: float, high: float) -> str:
    """The farthest that a ratio may be from none, by its interval: `3.1 %`."""
    if not (math.isfinite(low) and math.isfinite(high)):
        return DASH
    return percent(max((low, high), key=lambda end: abs(end - 1))).lstrip(f"+{MINUS}")


def detectable(share: float) -> str:
    """The least change that would have been found: `2.4 %`."""
    return percent(1 + share).lstrip("+") if math.isfinite(share) else DASH


def more(needed: int, unit: str = "pair") -> str:
    """What a comparison lacks: `2 more pairs needed`."""
    aside = " a side" if unit == "run" else ""
    return f"{needed} more {unit}{'' if needed == 1 else 's'}{aside} needed"


def chance(row: Mapping[Any, Any]) -> str:
    """What an A/A comparison says: how much chance alone gives. It has no verdict, since that it
    finds nothing proves no quiet machine, and what it finds is no effect of anything."""
    return f"chance alone: up to {largest(row['ratio_low'], row['ratio_high'])}"


def meaning(row: Mapping[Any, Any]) -> str:
    """What a comparison says beyond its figures, in words.

    Never that there is no effect: how large a one may still hide, and how small a one would have
    been seen.
    """
    if row["verdict"] == "too few trials":
        unit = row.get("unit", "pair")
        aside = " a side" if unit == "run" else ""
        return f"too few {unit}s: {row['needed']} more needed{aside}"
    if row["verdict"] != "no credible change" or not math.isfinite(row["ratio"]):
        return str(row["verdict"])
    hidden = largest(row["ratio_low"], row["ratio_high"])
    return f"no effect above {hidden}; this run could have seen {detectable(row['detectable'])}"


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int], *, wrap: bool = False
) -> list[str]:
    """Lines of a plain-text table within WIDTH columns; columns in `numbers` align right.

    Where it would be too wide, the widest text columns go on in the next line with `wrap`, and
    else lose their middle; then numbers do, since a row without its name says nothing.
    """
    rows = [[shown(cell, keep="") for cell in row] for row in rows]
    head = [shown(cell, keep="") for cell in head]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    gaps = 2 * (len(widths) - 1)
    while sum(widths) + gaps > WIDTH:
        widest = max(
            range(len(widths)), key=lambda i: (i not in numbers and widths[i] > NAME, widths[i])
        )
        widths[widest] -= 1
    lines = []
    for row in (head, ["-" * width for width in widths], *rows):
        parts = [_lines(text, widths[i]) if wrap else [text] for i, text in enumerate(row)]
        for line in zip_longest(*parts, fillvalue=""):
            cells = (_cell(text, widths[i], i in numbers) for i, text in enumerate(line))
            lines.append("  ".join(cells).rstrip())
    return lines


def intervals(
    labels: Sequence[str], found: Sequence[tuple[float, float, float]], least: float, most: float
) -> list[str]:
    """A line for each ratio with the ends of its interval, on one axis; `│` is no change."""
    side = min(max(map(len, labels)), WIDTH // 3)
    width = WIDTH // 2
    span = (most - least) or 1.0

    def at(ratio: float) -> int:
        return round((ratio - least) / span * (width - 1))

    lines = []
    for label, (low, ratio, high) in zip(labels, found, strict=True):
        line = [" "] * width
        line[at(low) : at(high) + 1] = "─" * (at(high) - at(low) + 1)
        line[at(low)], line[at(high)] = "├", "┤"
        line[at(1.0)] = "┼" if low <= 1 <= high else "│"
        line[at(ratio)] = "●"
        lines.append(f"{_cell(shown(label, keep=''), side, False)}  {''.join(line).rstrip()}")
    ends = percent(least), percent(most)
    axis = ends[0] + " " * max(1, width - len("".join(ends))) + ends[1]
    return [*lines, f"{' ' * side}  {axis}"]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> list[str]:
    """The lines of a table in GitHub's Markdown, texts escaped."""
    rules = ["---:" if place in numbers else "---" for place in range(len(head))]
    special = re.compile(r"([\\`*_{}\[\]<>|#])")
    plain = [[special.sub(r"\\\1", shown(cell, keep="")) for cell in row] for row in (head, *rows)]
    return [f"| {' | '.join(row)} |" for row in (plain[0], rules, *plain[1:])]


LATEX = {
    **{each: rf"\{each}" for each in "&%$#_{}"},
    **{"~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", MINUS: "$-$", "…": r"\ldots{}"},
    **{"·": r"\textperiodcentered{}", DASH: "--"},
}


def latex(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: set[int]) -> list[str]:
    """The lines of a LaTeX `tabular` with the rules of booktabs, texts escaped."""
    columns = "".join("r" if place in numbers else "l" for place in range(len(head)))
    plain = [
        " & ".join("".join(LATEX.get(c, c) for c in shown(cell, keep="")) for cell in row) + r" \\"
        for row in (head, *rows)
    ]
    return [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", plain[0], r"\midrule", *plain[1:],
            r"\bottomrule", r"\end{tabular}"]  # fmt: skip


Style = Callable[[Sequence[str], Sequence[Sequence[str]], set[int]], list[str]]
STYLES: dict[str, Style] = {"latex": latex, "markdown": markdown}


def _lines(text: str, width: int) -> list[str]:
    """`text` over as many lines as it needs, broken after blanks and slashes if it can be."""
    lines = [""]
    for word in re.findall(r"[^ /]*[ /]?", text):
        if lines[-1] and len((lines[-1] + word).rstrip()) > width:
            lines.append("")
        lines[-1] += word
    return [line.rstrip() for line in lines]


def _cell(text: str, width: int, number: bool) -> str:
    if len(text) > width:
        # The middle goes: names that begin alike differ at their end, and the other way round.
        kept = max(width - 1, 0)
        text = text[: kept - kept // 2] + "…" + text[len(text) - kept // 2 :]
    return text.rjust(width) if number else text.ljust(width)
