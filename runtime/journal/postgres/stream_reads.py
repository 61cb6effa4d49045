"""The queries about one stream, as values: they run on a pipeline, or on a connection of the pool."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import attrs
import psycopg
from psycopg import pq

from .. import rows
from ..errors import Reading, StreamDamaged, UnknownCommand, UnknownStream, shown
from ..ownership import Fence
from ..protocol import Command, Event, Json, Marks, StreamMark
from ..summary import Row
from .binary import BinaryQuery, query, rows_of
from .tables import Connection, sql

T = TypeVar("T")

_MOST_EVENTS = 500
"""Maximum number of events of one query."""
ROW = "name, status, title, work, body, owner, last_seq, created, updated"
"""The columns that `rows.row` reads."""

_Rows: TypeAlias = Sequence[tuple[Any, ...]]


@attrs.frozen
class PipelinedRead(Generic[T]):
    queries: Sequence[BinaryQuery]
    """In one transaction, in which each sees what was committed before it."""
    result: Callable[[Sequence[_Rows]], T]
    """Makes it from their rows."""


@attrs.frozen
class EventPage:
    id: int | None
    """The id of the stream; None: it does not exist."""
    events: list[Event]
    has_more: bool
    """Whether there may be more."""


def executed(db: Connection, read: PipelinedRead[T]) -> T:
    """Raises psycopg.Error, and the errors of the read."""
    found: list[_Rows] = []
    for each in read.queries:
        formats = [pq.Format.BINARY] * len(each.values)
        result = db.pgconn.exec_params(sql(each.text), each.values, each.types, formats, pq.Format.BINARY)
        if result.status != pq.ExecStatus.TUPLES_OK:
            if db.pgconn.status != pq.ConnStatus.OK:  # such a result has no code of an error
                raise psycopg.OperationalError("the connection was lost")
            raise psycopg.errors.error_from_result(result)
        found.append(rows_of(result))
    return read.result(found)


def reply(stream: str, key: str) -> PipelinedRead[Json | None]:
    """Raises `UnknownStream`, `UnknownCommand`."""

    def result(found: Sequence[_Rows]) -> Json | None:
        if not found[0]:
            raise UnknownStream(f"stream {stream!r} does not exist")
        [(known, text)] = found[0]
        if known is None:
            raise UnknownCommand(f"stream {stream!r} has no command {key!r}")
        with Reading(stream, f"the reply to {key}"):
            return None if text is None else rows.object_of(text)

    text = """SELECT inbox.key, inbox.reply
        FROM stream LEFT JOIN inbox ON inbox.stream = stream.id AND key = $1 WHERE name = $2"""
    return PipelinedRead([query(text, ("text", key), ("text", stream))], result)


def inbox(stream: str, *, skip_damaged: bool) -> PipelinedRead[tuple[Command, ...]]:
    def result(found: Sequence[_Rows]) -> tuple[Command, ...]:
        commands: list[Command] = []
        for key, *others in found[0]:
            try:
                with Reading(stream, f"command {shown(key)}"):
                    commands.append(rows.command(stream, key, *others))
            except StreamDamaged:
                if not skip_damaged:
                    raise
        return tuple(commands)

    text = """SELECT key, kind, inbox.body, at, inbox.node
        FROM stream JOIN inbox ON inbox.stream = stream.id WHERE name = $1 AND open = 1 ORDER BY inbox.id"""
    return PipelinedRead([query(text, ("text", stream))], result)


def events(stream: str, id: int | None, after: int, limit: int | None) -> PipelinedRead[EventPage]:
    """The next events after a seq. `id`: of the stream, if it is known.

    Raises:
        StreamDamaged: an event cannot be read, or is missing.
    """
    most = _MOST_EVENTS if limit is None else min(limit, _MOST_EVENTS)

    def result(found: Sequence[_Rows]) -> EventPage:
        known, read = id, list[Event]()
        last = expected = after
        with Reading(stream, f"an event after {after}"):
            for known, last, seq, *others in found[0]:  # noqa: B007
                if seq is None:  # the join found no event
                    break
                expected += 1
                if seq != expected:
                    raise LookupError(f"event {expected} is missing")
                read.append(rows.event(stream, seq, *others))
            if (read and expected > last) or (len(read) < most and expected < last):
                raise LookupError(f"the stream ends at event {expected}, but its last seq is {last}")
        return EventPage(known, read, len(read) == _MOST_EVENTS)

    condition = "stream.name = $3" if id is None else "stream.id = $3"
    text = f"""SELECT stream.id, last_seq, seq, type, at, event.body FROM stream
        LEFT JOIN event ON event.stream = stream.id AND seq > $1 WHERE {condition} ORDER BY seq LIMIT $2"""
    which = query(text, ("int8", after), ("int8", most), ("text", stream) if id is None else ("int8", id))
    return PipelinedRead([which], result)


def row(stream: str) -> PipelinedRead[Row | None]:
    def result(found: Sequence[_Rows]) -> Row | None:
        return rows.row(found[0][0]) if found[0] else None

    return PipelinedRead([query(f"SELECT {ROW} FROM stream WHERE name = $1", ("text", stream))], result)


def marks(streams: Collection[str], commands: Collection[tuple[str, str]]) -> PipelinedRead[Marks]:
    text = """SELECT name, created, last_seq, (SELECT key FROM inbox
            WHERE inbox.stream = stream.id AND open = 1 ORDER BY inbox.id DESC LIMIT 1)
        FROM stream WHERE name = ANY($1)"""
    answered = """SELECT given.name, given.key FROM unnest($1, $2) AS given (name, key)
        LEFT JOIN stream ON stream.name = given.name
        LEFT JOIN inbox ON inbox.stream = stream.id AND inbox.key = given.key
        WHERE inbox.key IS NULL OR inbox.reply IS NOT NULL"""
    queries = [
        query(text, ("text[]", list(streams))),
        query(
            answered,
            ("text[]", [stream for stream, _ in commands]),
            ("text[]", [key for _, key in commands]),
        ),
    ]

    def result(found: Sequence[_Rows]) -> Marks:
        of_streams, answered = found
        return Marks({name: StreamMark(*mark) for name, *mark in of_streams}, frozenset(answered))

    return PipelinedRead(queries, result)


def owns(fence: Fence) -> PipelinedRead[bool]:
    """Whether the fence is the newest."""
    text = "SELECT id FROM stream WHERE name = $1 AND node = $2 AND epoch = $3"
    which = query(text, ("text", fence.stream), ("text", fence.owner), ("int8", fence.epoch))
    return PipelinedRead([which], lambda found: bool(found[0]))
