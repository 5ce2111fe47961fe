"""A command that somebody else starts elsewhere: how it has ended it tells by itself.

What starts it has a status of its own, and says in words that change with its version why it could
not: those of the command must not be taken for them, nor the other way round.
"""

from __future__ import annotations

import re

ENDED = "strata-step-ended"
# Of a shell, with the command as its first argument: the last line of its standard error is ours.
SHELL = f'/bin/sh -c "$1"; echo "{ENDED} $?" >&2'


def ended(stderr: bytes) -> tuple[int | None, bytes]:
    """How the command has ended, and its own standard error.

    None where it has not: it was never there, or went with what it ran in.
    """
    found = list(re.finditer(rb"^" + ENDED.encode() + rb" (\d+)\n?", stderr, re.MULTILINE))
    # What a program wrote without a last newline stands before it on the line.
    found = found or list(re.finditer(ENDED.encode() + rb" (\d+)\n?", stderr))
    if not found:
        return None, stderr
    last = found[-1]
    return int(last[1]), stderr[: last.start()] + stderr[last.end() :]
