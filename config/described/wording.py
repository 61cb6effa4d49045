"""Phrases for error messages."""

from __future__ import annotations

import difflib
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, assert_never

import yaml

from ..text.interpolate import MalformedReference, Reference, escape, parse
from ..text.values import Invalid, Plain, Scalar, Sequence, Table, Value, quoted, shortened
from .shape import (
    AnyScalar,
    Anything,
    Choice,
    Flag,
    ListOf,
    MapOf,
    Number,
    Section,
    Shape,
    Text,
    Variants,
    in_range,
    keys_of,
    short_for,
)


def nearest(word: str, known: Iterable[str]) -> str | None:
    """A hint with the most similar word."""
    close = difflib.get_close_matches(word[:64].lower(), list(known), n=1)
    return f"did you mean {quoted(close[0])}?" if close else None


_SYNONYMS = (
    frozenset({"ask", "approve", "approval", "confirm", "prompt", "review"}),
    frozenset({"run", "accept", "allow", "auto", "permit"}),
    frozenset({"deny", "reject", "refuse", "block", "forbid", "never"}),
)


def meant(word: str, words: tuple[str, ...]) -> str | None:
    """A hint with the word that was probably meant: a synonym, or the most similar word."""
    for group in _SYNONYMS:
        if word.lower() in group and (same := [each for each in words if each in group]):
            return f"did you mean {quoted(same[0])}?"
    return nearest(word, words)


def section_with(key: str, cls: type, top: type) -> str | None:
    """A hint at the place of a misplaced key: sections of this section, or the top level of the file."""
    if cls is not top and key in keys_of(top):
        return f"{key} belongs at the top level of the file"
    keys = keys_of(cls).values()
    sections = [each for each in keys if isinstance(each.shape, Section) and key in keys_of(each.shape.cls)]
    return f"write {' or '.join(f'{each.name}: {{{key}: ...}}' for each in sections)}" if sections else None


def describe(shape: Shape) -> str:
    """A shape in words, to follow "expected"."""
    match shape:
        case Text():
            return shape.meaning or "text"
        case Number():
            noun = "a whole number" if shape.whole else "a number"
            return f"{noun}{_range(shape)}"
        case Choice():
            return one_of(shape.words)
        case Flag():
            return "true or false"
        case AnyScalar():
            return "text, a number, or true or false"
        case Anything():
            return "a JSON value"
        case ListOf() | MapOf() | Section() | Variants():
            return _collection(shape)
        case _:
            assert_never(shape)


def _collection(shape: ListOf | MapOf | Section | Variants) -> str:
    match shape:
        case ListOf(by_name=True):
            return "a list, or a mapping of names"
        case ListOf():
            return "a list"
        case Section() if short := short_for(shape.cls):
            return f"a mapping, {describe(short.shape)}"
        case MapOf(pairs=True):
            return "a mapping, or a list of KEY=VALUE"
        case MapOf() | Section() | Variants():
            return "a mapping"
        case _:
            assert_never(shape)


def _range(shape: Number) -> str:
    if shape.minimum is not None and shape.maximum is not None:
        return f" from {shape.minimum:.12g} to {shape.maximum:.12g}"
    limits = (("at least", shape.minimum), ("above", shape.above), ("at most", shape.maximum))
    given = [f"{word} {limit:.12g}" for word, limit in limits if limit is not None]
    return f" {' and '.join(given)}" if given else ""


def kind(value: Value) -> str:
    """The kind of a value in words, to follow "found"."""
    match value:
        case Scalar(value=None) | Invalid():
            return "nothing"
        case Scalar(value=bool(read), written=str(word)) if word.lower() != str(read).lower():
            return f"{word}, which YAML reads as {str(read).lower()}"
        case Scalar(value=bool()):
            return "a boolean"
        case Scalar(value=int()):
            return "a whole number"
        case Scalar(value=float()):
            return "a number"
        case Scalar():
            return "text"
        case Sequence():
            return "a list"
        case Table():
            return "a mapping"
        case _:
            assert_never(value)


_TELLING = ("model", "command", "url", "then")
"""Keys that a text in place of a mapping is likely to be the value of, in order."""
OMIT = "leave the key out for its default"


def correction(value: Value, shape: Shape) -> str | None:
    """A hint for a value of the wrong kind."""
    if isinstance(value, Table) and isinstance(shape, ListOf):
        return 'begin each item with "- "'
    if not isinstance(value, Scalar):
        return None
    match shape:
        case Text() if value.value is not None:
            return "put it in quotes"
        case Text() | Choice() if value.value is None:
            return OMIT
        case ListOf(item=Text()):
            return "write a list as [a, b]"
        case Section() if isinstance(value.value, str):
            telling = next((name for name in _TELLING if name in keys_of(shape.cls)), None)
            return None if telling is None else f"write {{{telling}: ...}}"
        case Variants() if isinstance(value.value, str):
            return "write {type: ...}"
        case Number(seconds=True) if (seconds := _seconds(value.value)) is not None:
            return f"in seconds: {seconds:.12g}" if in_range(seconds, shape) else None
        case _:
            return None


_DURATION = re.compile(
    r"([0-9]+(?:\.[0-9]+)?) *(ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?)"
)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _seconds(written: Plain) -> float | None:
    """The seconds of a text such as `1h` or `30 seconds`."""
    found = _DURATION.fullmatch(written) if isinstance(written, str) else None
    if found is None:
        return None
    return float(found[1]) * (0.001 if found[2] == "ms" else _UNITS[found[2][0]])


def shown(value: Scalar) -> str:
    """A value for an error message; of a value with references, only the names of the variables."""
    if not isinstance(value.value, str):
        return shortened(str(value.value))
    names: list[str] = []
    with suppress(MalformedReference):  # of a file without references
        names = [part.name for part in parse(value.value) if isinstance(part, Reference)]
    if names:
        return "something else in " + ", ".join(f"${{{name}}}" for name in names)
    return quoted(value.value)


def invisible(word: str) -> str | None:
    """A hint at an invisible character that YAML does not count as a space."""
    found = next(
        (c for c in word if not c.isascii() and (c.isspace() or unicodedata.category(c) == "Cf")), None
    )
    return f"it contains U+{ord(found):04X}, which is not a space in YAML; retype it" if found else None


def run_rule(server: str, tool: str = "*") -> str:
    """A rule that lets the calls of a tool run, as YAML in one line."""
    return yaml_line({"server": escape(server), "tool": escape(tool), "then": "run"})


def yaml_line(value: Mapping[str, object]) -> str:
    """A mapping as YAML in one line, so that a comment in front of the line covers all of it."""
    dump: Callable[..., Any] = partial(
        yaml.safe_dump, value, default_flow_style=True, sort_keys=False, allow_unicode=True, width=math.inf
    )
    line: str = dump().strip()
    if len(line.splitlines()) > 1:  # PyYAML writes line breaks as they are, unless it is to quote the text
        line = dump(default_style='"').strip()
    return line


def one_of(words: tuple[str, ...]) -> str:
    """The words as a choice: `a, b or c`."""
    return " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
