"""What is stored becomes values here, and here it shows when it is damaged.

SQLite notices damage to its own structures; a changed character in a row it returns like any other. So every
value is checked for its type, and every body for being a JSON object. Whoever reads a stream gets what was
written, or `StreamDamaged`.
"""

from __future__ import annotations

import sqlite3
from types import TracebackType
from typing import Any, get_args

from . import json_text
from .errors import JournalError, StreamDamaged
from .protocol import Command, Due, Event, Json, Question, QuestionState, Row, Summary

_STATES = frozenset(get_args(QuestionState))
_YEAR_10000 = 253_402_300_800.0
"""Times are shown as dates, which end there."""


class Sound:
    """A block in which something of a stream is read: whatever goes wrong there is `StreamDamaged`."""

    __slots__ = ("stream", "what")

    def __init__(self, stream: object, what: str) -> None:
        self.stream = shown(stream)
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, JournalError) or not isinstance(error, Exception):
            return
        if isinstance(error, sqlite3.Error) and not _is_damage(error):
            return
        why = f"{type(error).__name__}: {error}"
        raise StreamDamaged(self.stream, f"{self.what} cannot be read ({why})") from error


def _is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CORRUPT


def text_or_bytes(stored: bytes) -> str | bytes:
    """What a connection gives for a text. SQLite keeps any bytes as one; they must fail no other row."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def shown(name: object) -> str:
    """The name of a stream for people, even when it is damaged itself."""
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def seq(value: object) -> int:
    """The last seq of a stream; 0 for none that can be meant."""
    return value if type(value) is int and value >= 0 else 0


def event(stream: str, seq: int, type: object, at: object, body: object) -> Event:
    """Raises what `Sound` expects, as do all below that say nothing else."""
    return Event(stream, seq, _text(type), _moment(at), object_of(body))


def command(stream: str, key: object, kind: object, body: object, at: object) -> Command:
    return Command(stream, _text(key), _text(kind), object_of(body), _moment(at))


def question(found: tuple[Any, ...]) -> Question:
    """Raises:
    StreamDamaged
    """
    _, id, stream, kind, state, body, decision, created, expires, settled = found
    with Sound(stream, f"question {shown(id)}"):
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
    """None when nobody could be told of it."""
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
