"""A name is a name: what may become part of a path, checked where it is written and read."""

from __future__ import annotations

import re

# With what is put before and after it (`.NAME.part`, `against-NAME.html`), a file name: 255 bytes.
LONGEST = 128
LONGEST_HOST = 200
RULE = (
    "a name is made of letters, digits, '.', '_' and '-', begins with a letter, a digit or '_', "
    f"and has at most {LONGEST} characters"
)
HOST_RULE = f"a host's name is at most {LONGEST_HOST} letters, digits, and any of . : % _ -"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_HOST = re.compile(r"[A-Za-z0-9_:][A-Za-z0-9._:%-]*")


def is_name(text: str) -> bool:
    """Whether `text` can name a run, a trial, a slot: it never leads out of its folder."""
    return len(text) <= LONGEST and bool(_NAME.fullmatch(text))


def is_host(text: str) -> bool:
    """Whether `text` can name a host: a name, or an address."""
    return len(text) <= LONGEST_HOST and bool(_HOST.fullmatch(text))
