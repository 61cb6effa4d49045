"""`Journal.save`: one save, or a group of them, as one statement: one round trip, and one transaction.

The only answer of the statement is which saves are done. Why one is not, `save` finds out, on a connection of
the pool. An error undoes all saves of a statement, so those of a group are then made alone.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import psycopg
from psycopg.pq.abc import PGresult

from ... import json_text
from .. import repeated_save, rows
from ..errors import Fenced, IntentExists, JournalError, QuestionTaken, UnknownStream
from ..outbox import outbox_texts
from ..ownership import Fence
from ..protocol import Commit, Json, NewEvent, Saved
from ..question import CloseQuestion, NewQuestion
from ..summary import Summary
from . import stream_reads
from .binary import TYPES, BinaryQuery
from .save_statement import ARGUMENTS, statement, types
from .stream_reads import executed
from .tables import NOT_BEGUN, NOT_PENDING, Connection, sql


@attrs.frozen
class Save:
    """A save, made before it waits, because the caller may change its objects then."""

    fence: Fence
    expected_seq: int
    rows: Mapping[str, Sequence[tuple[Any, ...]]]
    """The rows of the tables of arguments, without `n`. Each has some."""


def prepare(commit: Commit, version: int) -> Save:
    """`version`: that of the member."""
    fence, text = commit.fence, _Texts()
    given = [each.at for each in commit.events]
    dated = (max((at for at in given if at is not None), default=None), None in given)
    head = (fence.stream, fence.owner, fence.epoch, commit.expected_seq, version, len(given), *dated)
    asked = [each for each in commit.questions if isinstance(each, NewQuestion)]
    closed = [each for each in commit.questions if isinstance(each, CloseQuestion)]
    found: Mapping[str, Sequence[tuple[Any, ...]]] = {
        "save": [head + _summarized(commit.summary)],
        "added": [
            (place, each.type, each.at, text.of(each.body)) for place, each in enumerate(commit.events, 1)
        ],
        "replying": _replies(commit),
        "refusing": [()] if commit.refuse else [],
        "beginning": [(each.key, each.attempt, each.effect, text.of(each.body)) for each in commit.intents],
        "ending": [(each.key, each.attempt, each.state) for each in commit.settle],
        "asking": [(each.id, each.kind, text.of(each.body), each.expires) for each in asked],
        "closing": [(each.id, each.state, text.of(each.patch)) for each in closed],
        "telling": [(told,) for told in outbox_texts(commit.outbox)],
    }
    return Save(fence, commit.expected_seq, {name: rows for name, rows in found.items() if rows})


@attrs.define(eq=False)
class _Texts:
    """The texts of bodies. That of an intent or a question is usually that of an event of the same save."""

    _known: dict[int, str] = attrs.field(factory=dict)

    def of(self, body: Json) -> str:
        known = self._known.get(id(body))
        if known is None:
            known = self._known[id(body)] = json_text.dump(body)
        return known


def _summarized(summary: Summary | None) -> tuple[Any, ...]:
    """The last columns of `save`. None: as before."""
    if summary is None:
        return (None,) * 6
    return (
        summary.status,
        json_text.dump(summary.title),
        rows.fold(summary.title),
        rows.work(summary.open, summary.rests),
        json_text.dump(summary.body),
        summary.owner,
    )


def _replies(commit: Commit) -> Sequence[tuple[str, int | None, str | None]]:
    """The new values of `open` and `reply`, by the keys of the commands; None: as before."""
    acknowledged = set(commit.ack)
    found: dict[str, tuple[int | None, Json | None]] = {
        key: (0, commit.replies.get(key)) for key in commit.ack
    }
    found |= {key: (0 if key in acknowledged else None, reply) for key, reply in commit.replies.items()}
    found |= {key: (2, reply) for key, reply in commit.refuse.items()}
    return [
        (key, open, None if reply is None else json_text.dump(reply)) for key, (open, reply) in found.items()
    ]


def save(db: Connection, it: Save) -> Saved:
    given = tuple(it.rows)
    values = [
        list(column) for rows in it.rows.values() for column in ([1] * len(rows), *zip(*rows, strict=True))
    ]
    try:
        done = psycopg.RawCursor(db).execute(sql(statement(given, is_group=False)), values).fetchone()
    except psycopg.Error as error:
        raise _meaning(db, it, error) or error from None
    if done is None:
        return _repeated(db, it)
    return Saved(it.expected_seq + 1, done[1])


def _meaning(db: Connection, it: Save, error: psycopg.Error) -> JournalError | None:
    def named(table: str) -> Sequence[str]:
        return [row[0] for row in it.rows[table]]

    match error:
        case psycopg.errors.UniqueViolation(diag=diag) if diag.constraint_name == "intent_pkey":
            attempts = ", ".join(f"attempt {row[1]} of {row[0]!r}" for row in it.rows["beginning"])
            return IntentExists(f"{attempts} has already begun")
        case psycopg.errors.UniqueViolation(diag=diag) if diag.constraint_name == "question_id_key":
            return JournalError(f"question {_either(named('asking'))} already exists")
        case psycopg.Error(sqlstate=code) if code == NOT_BEGUN:
            return JournalError(f"an attempt of {_either(named('ending'))} has not begun")
        case psycopg.Error(sqlstate=code) if code == NOT_PENDING:
            closed = named("closing")
            query = "SELECT FROM question WHERE id = ANY(%s) AND state = 'decided'"
            if db.execute(query, (closed,)).rowcount:
                return QuestionTaken(f"question {_either(closed)} was decided")
            return JournalError(f"question {_either(closed)} is not pending in stream {it.fence.stream!r}")
        case _:
            return None


def _either(names: Sequence[str]) -> str:
    """The names in a message; one of them is meant."""
    return " or ".join(map(repr, names))


def _repeated(db: Connection, it: Save) -> Saved:
    fence, expected = it.fence, it.expected_seq
    found = db.execute(
        "SELECT node, epoch, saved, last_seq FROM stream WHERE name = %s", (fence.stream,)
    ).fetchone()
    if found is None:
        raise UnknownStream(f"stream {fence.stream!r} does not exist")
    member, epoch, saved, last_seq = found
    if (member, epoch) != (fence.owner, fence.epoch):
        raise Fenced(f"stream {fence.stream!r} was claimed by another owner")
    if saved == epoch:
        events = [NewEvent(type, json_text.load(body), at) for _, type, at, body in it.rows.get("added", ())]
        stored = executed(db, stream_reads.events(fence.stream, None, expected, len(events) + 1)).events
        if first := repeated_save.outcome(expected, stored, events):
            return first
    raise Fenced(f"stream {fence.stream!r} is at {last_seq}, not at {expected}")


# ------------------------------------------------------------------ a group


@attrs.frozen
class EncodedSave:
    """A save as a part of a group."""

    stream: str
    columns: Mapping[str, tuple[int, Sequence[bytes]]]
    """The number of rows of each table of arguments, and its columns without `n`."""
    size: int
    """In bytes."""


def encoded(it: Save) -> EncodedSave | None:
    """None: PostgreSQL cannot store it. `save` says why."""
    columns: dict[str, tuple[int, Sequence[bytes]]] = {}
    size = 0
    try:
        for name, found in it.rows.items():
            kinds = ARGUMENTS[name].columns.values()
            joined = [
                TYPES[kind].elements(values)
                for kind, values in zip(kinds, zip(*found, strict=True), strict=True)
            ]
            columns[name] = len(found), joined
            size += sum(map(len, joined))
    except (UnicodeEncodeError, struct.error):  # a lone surrogate, a number that is too large
        return None
    return EncodedSave(it.fence.stream, columns, size)


def grouped(group: Sequence[EncodedSave]) -> BinaryQuery:
    """The statement for a group, with at most one save of each stream."""
    given = tuple(name for name in ARGUMENTS if any(name in each.columns for each in group))
    numbers = [TYPES["int8"].elements([n]) for n in range(1, len(group) + 1)]
    oids: list[int] = []
    values: list[bytes | None] = []
    for name in given:
        found = [
            (n, each.columns[name]) for n, each in zip(numbers, group, strict=True) if name in each.columns
        ]
        total = sum(rows for _, (rows, _) in found)
        joined = [b"".join(n * rows for n, (rows, _) in found)]
        joined += map(b"".join, zip(*(columns for _, (_, columns) in found), strict=True))
        kinds = [TYPES[each] for each in types(name)]
        oids += [each.array for each in kinds]
        values += [each.joined(total, column) for each, column in zip(kinds, joined, strict=True)]
    return BinaryQuery(statement(given, is_group=True), tuple(oids), values)


def done(answer: PGresult) -> Iterator[tuple[int, float]]:
    """The saves of a group that are done: their numbers in the group, from 1, and times."""
    for row in range(answer.ntuples):
        n, at = answer.get_value(row, 0), answer.get_value(row, 1)
        assert n is not None
        assert at is not None
        yield int.from_bytes(n, "big"), struct.unpack(">d", at)[0]
