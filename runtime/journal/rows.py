"""What is stored becomes values here, and here it shows when it is damaged.

SQLite notices damage to its own structures; a changed character in a row it returns like any other. So every
value is checked for its type, and every body for being a JSON object. A reader of a stream gets what was
written, or `StreamDamaged`.
"""

from __future__ import annotations

from typing import Any, get_args

from .. import json_text
from .errors import Reading, shown
from .protocol import Command, Due, Event, Json, Question, QuestionState, Row, Summary

_STATES = frozenset(get_args(QuestionState))
_YEAR_10000 = 253_402_300_800.0
"""Times are shown as dates, which end there."""


def text_or_bytes(stored: bytes) -> str | bytes:
    """What a connection gives for a text. SQLite keeps any bytes as one; they must fail no other row."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def seq(value: object) -> int:
    """The last seq of a stream; 0 for none that can be meant."""
    return value if type(value) is int and value >= 0 else 0


def event(stream: str, seq: int, type: object, at: object, body: object) -> Event:
    """Raises TypeError or ValueError for a damaged value; so do the functions below unless they say
    otherwise."""
    return Event(stream, seq, _text(type), _moment(at), object_of(body))


def command(stream: str, key: object, kind: object, body: object, at: object) -> Command:
    return Command(stream, _text(key), _text(kind), object_of(body), _moment(at))


def question(found: tuple[Any, ...]) -> Question:
    """A question from its row. Raises `StreamDamaged`."""
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
    """None when its row is too damaged to tell."""
    return Due(id, stream, expires) if isinstance(id, str) and isinstance(stream, str) else None


def row(found: tuple[Any, ...]) -> Row:
    """Without a summary when anything in it is damaged."""
    name, status, title, open, body, last_seq, created, updated = found
    try:
        text = _text(json_text.load(title))
        summary = Summary(_text(status), text, bool(open), object_of(body))
        if seq(last_seq) != last_seq:
            raise ValueError("no seq")
        return Row(_text(name), summary, last_seq, _moment(created), _moment(updated))
    except Exception:  # whatever a text that is no JSON makes of its reader
        return Row(shown(name), None, seq(last_seq), 0.0, 0.0)


def object_of(text: object) -> Json:
    """The JSON object of a text."""
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
