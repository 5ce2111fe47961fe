"""Text on its way to a person: nothing in it moves a cursor or turns the reading round.

Titles, messages, logs and names come from experiments, inventories, workloads and hosts. Every
exit goes through here: the terminal (`lines`, and Strata's callback), the page, the figures.
"""

from __future__ import annotations

import os
import sys
import traceback
import unicodedata
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

# Status of a program that a closed pipe ended: 128 + SIGPIPE.
PIPE_CLOSED = 141
# Controls (C0, DEL, C1), invisible format characters (bidi overrides, too), halves of surrogate
# pairs, and what ends a line or a paragraph.
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def shown(text: str, keep: str = "\n\t") -> str:
    r"""`text` with every character that is not seen as itself escaped: `\x1b`, `\u202e`.

    Those in `keep` stay: none where a text has to fit into one line.
    """
    if text.isprintable():
        return text
    return "".join(_seen(character, keep) for character in text)


def _seen(character: str, keep: str) -> str:
    if character in keep or unicodedata.category(character) not in _HIDDEN:
        return character
    return character.encode("unicode_escape").decode()


def lines(found: Iterable[str], stream: TextIO | None = None) -> int:
    """Print lines; the exit status that this leaves: 0, or 141 when the reader went away.

    What the terminal has no letters for is escaped.
    """
    stream = stream or sys.stdout
    try:
        for line in found:
            print(_encodable(shown(line), stream), file=stream)
        stream.flush()
    except BrokenPipeError:
        # Python flushes once more at its end, and would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return PIPE_CLOSED
    return 0


def broken(error: Exception) -> str:
    """What broke, in a sentence, and where: it is a fault of Strata's own."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    where = f"{Path(last.filename).name}, line {last.lineno}"
    return f"a fault of Strata itself: {type(error).__name__}: {error} ({where})"


def _encodable(text: str, stream: TextIO) -> str:
    encoding = stream.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
