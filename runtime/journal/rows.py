"""Conversion of database rows to values, with checks for damage.

SQLite detects damage to its own structures, but not a changed character in a value. So the type of every
value is checked, and every body must be a JSON object. A reader of a stream gets the data that was written,
or `StreamDamaged`.
"""

from __future__ import annotations

from typing import Any, get_args

import attrs

from .. import json_text
from .errors import Reading, shown
from .protocol import Command, Event, Json
from .question import CastVote, Due, Question, QuestionState
from .summary import Row, Summary

_STATES = frozenset(get_args(QuestionState))
_YEAR_10000 = 253_402_300_800.0
"""The upper limit of times, because `datetime` ends there."""


def text_or_bytes(stored: bytes) -> str | bytes:
    """Decode a stored text. Invalid UTF-8 remains bytes, because an error would fail the whole query."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def seq(value: object) -> int:
    """Return the last seq of a stream, or 0 if the stored value is damaged."""
    return value if type(value) is int and value >= 0 else 0


def event(stream: str, seq: int, type: object, at: object, body: object) -> Event:
    """Convert the row of an event.

    Like the functions below, raises TypeError or ValueError for a damaged value, unless stated otherwise.
    """
    return Event(stream, seq, _text(type), _time(at), object_of(body))


def command(stream: str, key: object, kind: object, body: object, at: object, member: object) -> Command:
    return Command(stream, _text(key), _text(kind), object_of(body), _time(at), _text(member))


def question(columns: tuple[Any, ...]) -> Question:
    """Convert the row of a question. Raises `StreamDamaged`."""
    _, id, stream, kind, state, body, decision, created, expires, settled, votes = columns
    with Reading(stream, f"question {shown(id)}"):
        if state not in _STATES:
            raise ValueError(f"{state!r} is not a state")
        if decision is not None and settled is None:
            raise ValueError("it has a decision, but no time of the decision")
        return Question(
            _text(id),
            _text(stream),
            _text(kind),
            state,
            object_of(body),
            None if decision is None else object_of(decision),
            _time(created),
            None if expires is None else _time(expires),
            None if settled is None else _time(settled),
            () if votes is None else _votes(votes),
        )


def text_of_votes(votes: tuple[CastVote, ...]) -> str | None:
    """The stored form of votes."""
    return json_text.dump([attrs.asdict(each, recurse=False) for each in votes]) if votes else None


def _votes(text: object) -> tuple[CastVote, ...]:
    votes = json_text.load(_text(text))
    return tuple(
        CastVote(
            _text(each["voter"]),
            _text(each["credential"]),
            _text(each["subject"]),
            _time(each["at"]),
            _object(each["decision"]),
        )
        for each in votes
    )


def due(id: object, stream: object, expires: float, number: int) -> Due | None:
    """Return None when the row is damaged."""
    return Due(id, stream, expires, number) if isinstance(id, str) and isinstance(stream, str) else None


OPEN, RESTS = 1, 2


def work(open: bool, rests: bool) -> int:
    """The stored form of the two fields of a summary."""
    return OPEN if open else RESTS * rests


def row(columns: tuple[Any, ...]) -> Row:
    """Convert the row of a stream. If any value is damaged, the summary is None."""
    name, status, title, open, body, owner, last_seq, created, updated = columns
    try:
        text = _text(json_text.load(title))
        summary = Summary(_text(status), text, open == OPEN, object_of(body), _text(owner), open == RESTS)
        if seq(last_seq) != last_seq:
            raise ValueError(f"{last_seq!r} is not a seq")
        return Row(_text(name), summary, last_seq, _time(created), _time(updated))
    except Exception:  # a damaged text can make the JSON parser raise anything
        return Row(shown(name), None, seq(last_seq), 0.0, 0.0)


def object_of(text: object) -> Json:
    """Parse a text that holds a JSON object."""
    return _object(json_text.load(_text(text)))


def _object(value: Any) -> Json:
    if type(value) is not dict:
        raise TypeError(f"expected a JSON object, not {type(value).__name__}")
    return value


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"expected text, not {type(value).__name__}")
    return value


def _time(value: object) -> float:
    if type(value) is not float or not 0.0 <= value < _YEAR_10000:
        raise ValueError(f"{value!r} is not a time")
    return value


def fold(text: str) -> str:
    """Return the form of a title or a query in which a search ignores case. Lone surrogates become `?`."""
    return text.casefold().encode(errors="replace").decode()
