"""YAML that a person wrote: read strictly, and refused in plain words.

Runs on the controller only (PyYAML). What YAML 1.1 and 1.2 read differently is not guessed at
but refused, and so is what could only be a slip (a key that stands twice) or an attack.
"""

from __future__ import annotations

import contextlib
import math
import re
import stat
import unicodedata
from pathlib import Path
from typing import Any

import yaml
from strata.errors import Refused, nearest

# Ten times what the largest experiment or campaign needs, and read within a second.
BYTES = 64 * 1024
DEPTH = 20
NODES = 5_000  # once aliases are followed
DIGITS = 15  # beyond them a number is not the same in every program that reads it
TEXT_TAG = "tag:yaml.org,2002:str"
MERGE_TAG = "tag:yaml.org,2002:merge"
SHOWN = 80  # characters of what was given
# How texts may be steered that look like others: the bidirectional controls.
STEERING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Plain scalars, in the order in which they are tried. All others are text, dates too.
PLAIN = {
    "null": r"~|null|Null|NULL|",
    "bool": r"true|True|TRUE|false|False|FALSE",
    "int": r"[-+]?(?:0|[1-9][0-9]*)",
    "float": r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?",
    "merge": r"<<",
}
# A boolean or a number to one reader of YAML, a text or another number to the next.
UNCLEAR = re.compile(
    r"(?i:yes|no|on|off)"
    r"|[-+]?(?:0[0-9_]+|0x[0-9a-fA-F_]+|0o[0-7_]+|0b[01_]+)"
    r"|[-+]?[0-9]+(?:(?:_[0-9]+)+|(?::[0-5]?[0-9])+)(?:\.[0-9_]*)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


def read(path: Path, what: str) -> dict[str, Any]:
    """The mapping in the file `path`, which is to be `what`: "experiment", say. Raises Refused."""
    try:
        return parse(_text(path, what), path.name)
    except OSError as error:
        raise Refused(
            f"{path} cannot be read",
            given=error.strerror or str(error),
            then="make it readable for your account, or give another file",
        ) from error


def parse(text: str, where: str) -> dict[str, Any]:
    """The mapping in `text`; `where` names it in errors. Raises Refused."""
    try:
        found = _Strict(text, where).get_single_data()
    except yaml.YAMLError as error:
        raise Refused(f"{where} is not YAML", given=_said(error)) from error
    if not isinstance(found, dict):
        raise Refused(
            f"{where} is a mapping of names and values", example="name: quick", given=_short(found)
        )
    return found


def _text(path: Path, what: str) -> str:
    """Raises OSError, Refused."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise _missing(path, what) from None
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no ordinary file"
        raise Refused(
            f"an {what} is a file of YAML" if what[0] in "aeiou" else f"a {what} is a file of YAML",
            example=f"{what}s/mine.yml",
            given=f"{path}, which is {kind}",
        )
    with path.open("rb") as file:
        data = file.read(BYTES + 1)
    if len(data) > BYTES:
        raise Refused(
            f"{path.name} is too large: a file of YAML has at most {BYTES // 1024} KiB",
            given=f"{path.stat().st_size} bytes",
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(
            f"{path.name} is not text in UTF-8",
            given=f"byte {error.start} is 0x{data[error.start]:02x}",
            then="save it as UTF-8",
        ) from error


def _missing(path: Path, what: str) -> Refused:
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(p.stem for p in path.parent.glob("*.yml"))
    then = nearest(path.stem, names) if names else f"there is none in {path.parent}"
    return Refused(f"there is no {what} at {path}", given=path.stem, then=then)


class _Strict(yaml.SafeLoader):
    """YAML's reader with limits, and with the scalars of PLAIN.

    Everything is checked while nodes are composed, before a value is made of them.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own form

    def __init__(self, text: str, where: str) -> None:
        super().__init__(text)
        self._where, self._depth = where, 0
        self._weights: dict[int, int] = {}  # of each node that is whole: the nodes in it

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None):
            raise self._refusal("values have no tags", event, str(event.tag))
        if self._depth == DEPTH:
            raise self._refusal(f"values are nested at most {DEPTH} deep", event, "deeper ones")
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(event, yaml.AliasEvent) and id(node) not in self._weights:
            raise self._refusal("a value does not hold itself", event, f"*{event.anchor}")
        self._weigh(node)
        return node

    def _weigh(self, node: Any) -> None:
        """What a node becomes when every alias in it is followed."""
        if id(node) in self._weights:
            return
        parts = node.value if isinstance(node, yaml.CollectionNode) else []
        flat = [part for pair in parts for part in (pair if isinstance(pair, tuple) else [pair])]
        weight = 1 + sum(self._weights[id(part)] for part in flat)
        if max(weight, len(self._weights)) > NODES:
            rule = f"a file has at most {NODES} values, aliases followed"
            raise self._refusal(rule, node, "more of them")
        self._weights[id(node)] = weight

    def compose_scalar_node(self, anchor: Any) -> Any:
        node: Any = super().compose_scalar_node(anchor)
        if node.style is None:
            node.tag = self._tag(node)
        bad = [c for c in node.value if not _printable(c)]
        if bad:
            raise self._refusal("text has no control characters", node, f"U+{ord(bad[0]):04X}")
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node: Any = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag not in (TEXT_TAG, MERGE_TAG):
                raise self._refusal("a name is text", key, _short(key.value), "put it in quotes")
            if key.value in seen:
                raise self._refusal("a name stands once", key, key.value, "remove one of them")
            seen.add(key.value)
        return node

    def _tag(self, node: Any) -> str:
        """Of a plain scalar. Raises Refused."""
        if UNCLEAR.fullmatch(node.value):
            raise self._refusal(
                f"{_short(node.value)} means different things to different readers",
                node,
                node.value,
                'put text in quotes ("no"), write true or false, and finite numbers in decimals',
            )
        kind = next((k for k, form in PLAIN.items() if re.fullmatch(form, node.value)), "str")
        if kind in ("int", "float") and not _fits(node.value):
            rule = f"a number is finite and has at most {DIGITS} digits"
            raise self._refusal(rule, node, node.value)
        return f"tag:yaml.org,2002:{kind}"

    def construct_yaml_float(self, node: Any) -> float:
        return float(node.value)

    def _refusal(self, rule: str, at: Any, given: str, then: str = "") -> Refused:
        line = at.start_mark.line + 1
        return Refused(f"{self._where}, line {line}: {rule}", given=_short(given), then=then)


_Strict.add_constructor("tag:yaml.org,2002:float", _Strict.construct_yaml_float)


def _fits(number: str) -> bool:
    digits = re.sub(r"[eE].*", "", number)
    return sum(map(str.isdigit, digits)) <= DIGITS and math.isfinite(float(number))


def _printable(character: str) -> bool:
    kind = unicodedata.category(character)
    return character in "\n\t" or (kind not in ("Cc", "Cs") and character not in STEERING)


def _said(error: yaml.YAMLError) -> str:
    """Where YAML's reader stopped, and why, in a line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark:
        return f"line {error.problem_mark.line + 1}: {error.problem}"
    if isinstance(error, yaml.reader.ReaderError):
        return f"character {error.position} is U+{int(error.character):04X}"
    return str(error)


def _short(given: object) -> str:
    text = given if isinstance(given, str) else repr(given)
    return repr(text[:SHOWN] + "…") if len(text) > SHOWN else repr(text)
