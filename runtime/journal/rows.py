"""Conversion of database rows to values, with checks for damage.

SQLite detects damage to its own structures, but returns a changed character in a row like any other. So the
type of every value is checked, and every body must be a JSON object. A reader of a stream gets the data that
was written, or `StreamDamaged`.
"""

from __future__ import annotations

from typing import Any, get_args

from .. import json_text
from .errors import Reading, shown
from .protocol import Command, Due, Event, Json, Question, QuestionState, Row, Summary

_STATES = frozenset(get_args(QuestionState))
_YEAR_10000 = 253_402_300_800.0
"""The upper limit of times, because they are shown as dates, which end there."""


def text_or_bytes(stored: bytes) -> str | bytes:
    """Convert a stored text. SQLite stores any bytes as text, and invalid UTF-8 must not fail other rows."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def seq(value: object) -> int:
    """Return the last seq of a stream, or 0 if the stored value is damaged."""
    return value if type(value) is int and value >= 0 else 0


def event(stream: str, seq: int, type: object, at: object, body: object) -> Event:
    """Raises TypeError or ValueError for a damaged value, as do the functions below unless stated."""
    return Event(stream, seq, _text(type), _moment(at), object_of(body))


def command(stream: str, key: object, kind: object, body: object, at: object) -> Command:
    return Command(stream, _text(key), _text(kind), object_of(body), _moment(at))


def question(found: tuple[Any, ...]) -> Question:
    """Convert the row of a question. Raises `StreamDamaged`."""
    _, id, stream, kind, state, body, decision, created, expires, settled = found
    with Reading(stream, f"question {shown(id)}"):
        if state not in _STATES or (decision is not None and settled is None):
            raise ValueError("no such state")
        return Question(
            _text(id),
            _text(stream),
            _text(kind),
            state,
            object_of(body),
            None if decision is None else object_of(decision),
            _moment(created),
            None if expires is None else _moment(expires),
            None if settled is None else _moment(settled),
        )


def due(id: object, stream: object, expires: float) -> Due | None:
    """Return None when the row is damaged."""
    return Due(id, stream, expires) if isinstance(id, str) and isinstance(stream, str) else None


def row(found: tuple[Any, ...]) -> Row:
    """Convert the row of a stream, without its summary if any value is damaged."""
    name, status, title, open, body, last_seq, created, updated = found
    try:
        text = _text(json_text.load(title))
        summary = Summary(_text(status), text, bool(open), object_of(body))
        if seq(last_seq) != last_seq:
            raise ValueError("no seq")
        return Row(_text(name), summary, last_seq, _moment(created), _moment(updated))
    except Exception:  # a damaged text can make the JSON parser raise anything
        return Row(shown(name), None, seq(last_seq), 0.0, 0.0)


def object_of(text: object) -> Json:
    """Parse a text that holds a JSON object."""
    value = json_text.load(_text(text))
    if type(value) is not dict:
        raise TypeError(f"a {type(value).__name__} is no body")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{type(value).__name__} is no text")
    return value


def _moment(value: object) -> float:
    if type(value) is not float or not 0.0 <= value < _YEAR_10000:
        raise ValueError("no moment in time")
    return value


def fold(text: str) -> str:
    """The form of a title or a query in which a search ignores case."""
    return text.casefold().encode(errors="replace").decode()
