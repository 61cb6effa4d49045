"""The queries of the journal on PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from ... import json_text
from .. import cursor as cursors
from .. import rows
from ..errors import Reading, StreamDamaged, UnknownCommand, UnknownStream, shown
from ..protocol import Command, Event, Json
from ..question import MOST_DUE, Due, DuePage, Question, QuestionPage, QuestionState, fitting
from ..summary import AFTER_HEX, MOST_BEGINNING, Among, Census, NamedKind, Page, Row
from . import tally
from .tables import Connection, sql

_MOST_EVENTS = 500
"""Maximum number of events of one query."""
_MOST_SEARCHED = 10_000
"""Maximum number of streams that one page of a search reads."""

QUESTION = """SELECT question.number, question.id, stream.name, question.kind, question.state, question.body,
    question.decision, question.created, question.expires, question.settled, question.votes, question.patch
    FROM question JOIN stream ON stream.id = question.stream"""
_ROW = "name, status, title, work, body, owner, last_seq, created, updated"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction in which all queries see the same commits."""


# ----------------------------------------------------------------- one stream


def reply(db: Connection, stream: str, key: str) -> Json | None:
    """Raises `UnknownStream`, `UnknownCommand`."""
    found = db.execute(
        "SELECT inbox.key, inbox.reply FROM stream LEFT JOIN inbox ON inbox.stream = stream.id AND key = %s"
        " WHERE name = %s",
        (key, stream),
    ).fetchone()
    if found is None:
        raise UnknownStream(f"stream {stream!r} does not exist")
    if found[0] is None:
        raise UnknownCommand(f"stream {stream!r} has no command {key!r}")
    with Reading(stream, f"the reply to {key}"):
        return None if found[1] is None else rows.object_of(found[1])


def inbox(db: Connection, stream: str, *, skip_damaged: bool) -> tuple[Command, ...]:
    commands: list[Command] = []
    for key, *others in db.execute(
        "SELECT key, kind, inbox.body, at, inbox.node FROM stream JOIN inbox ON inbox.stream = stream.id"
        " WHERE name = %s AND open = 1 ORDER BY inbox.id",
        (stream,),
    ):
        try:
            with Reading(stream, f"command {shown(key)}"):
                commands.append(rows.command(stream, key, *others))
        except StreamDamaged:
            if not skip_damaged:
                raise
    return tuple(commands)


def events(
    db: Connection, stream: str, id: int | None, after: int, limit: int | None
) -> tuple[int | None, list[Event], bool]:
    """Return the id of a stream, its next events after a seq, and whether there may be more.

    Raises:
        StreamDamaged: an event cannot be read, or is missing.
    """
    most = _MOST_EVENTS if limit is None else min(limit, _MOST_EVENTS)
    column, value = ("stream.name", stream) if id is None else ("stream.id", id)
    found = db.execute(
        "SELECT stream.id, last_seq, seq, type, at, event.body FROM stream LEFT JOIN event"
        f" ON event.stream = stream.id AND seq > %s WHERE {column} = %s ORDER BY seq LIMIT %s",
        (after, value, most),
    ).fetchall()
    read: list[Event] = []
    last = expected = after
    with Reading(stream, f"an event after {after}"):
        for id, last, seq, *others in found:  # noqa: B007
            if seq is None:  # the join found no event
                break
            expected += 1
            if seq != expected:
                raise LookupError(f"event {expected} is missing")
            read.append(rows.event(stream, seq, *others))
        if (read and expected > last) or (len(read) < most and expected < last):
            raise LookupError(f"the stream ends at event {expected}, but its last seq is {last}")
    return id, read, len(read) == _MOST_EVENTS


def row(db: Connection, stream: str) -> Row | None:
    found = db.execute(f"SELECT {_ROW} FROM stream WHERE name = %s", (stream,)).fetchone()
    return None if found is None else rows.row(found)


def beginning(db: Connection, text: str, of: NamedKind) -> tuple[str, ...]:
    column = "name" if of == "stream" else "id"
    # The index has the order of the database, which may ignore hyphens. Between the bounds are all names that
    # are wanted, in each order in which letters follow digits; some others may be there, too.
    found = db.execute(
        sql(f"SELECT {column} FROM {of} WHERE {column} >= %s AND {column} < %s LIMIT %s"),
        (text, text + AFTER_HEX, MOST_BEGINNING),
    )
    return tuple(name for (name,) in found if name.startswith(text))


# ------------------------------------------------------------------------ lists


def page(
    db: Connection, status: str | None, q: str | None, among: Among | None, limit: int, before: int | None
) -> Page:
    """Return a page of the streams with events and a number below `before`, newest first, and the tally."""
    values = {
        "status": status,
        "q": rows.fold(q or ""),
        "before": before,
        "limit": limit + 1,
        "owner": among and among.owner,
        "names": among and list(among.streams),
        "searched": _MOST_SEARCHED,
    }
    listed = "last_seq <> 0"
    if among is not None:
        listed += " AND ((owner = %(owner)s AND owner <> '') OR name = ANY(%(names)s::text[]))"
    wanted = listed
    if status is not None:
        wanted += " AND status = %(status)s"
    if before is not None:
        wanted += " AND id < %(before)s"
    source = f"stream WHERE {wanted}"
    if q:
        # All titles are never read at once, because that takes a time without a bound.
        source = f"(SELECT * FROM {source} ORDER BY id DESC LIMIT %(searched)s) AS searched"
        source += " WHERE strpos(folded_title, %(q)s) > 0"
    with db.pipeline():
        db.execute(_SNAPSHOT)
        found = db.execute(f"SELECT id, {_ROW} FROM {source} ORDER BY id DESC LIMIT %(limit)s", values)
        counted = db.execute(sql(tally.query(among)), values)
        end = f"SELECT id FROM stream WHERE {wanted} ORDER BY id DESC LIMIT 1 OFFSET %(searched)s - 1"
        searched = db.execute(end, values) if q else None
        db.execute("COMMIT")
    newest = found.fetchall()
    shown, last = newest[:limit], None
    if len(newest) > limit:
        last = shown[-1][0]
    elif searched is not None and (ended := searched.fetchone()):
        last = ended[0]
    return Page(
        rows=tuple(rows.row(each[1:]) for each in shown),
        next_cursor=None if last is None else cursors.write("streams", last),
        after=tuple(cursors.write("streams", each[0]) for each in shown),
        tally=dict(counted.fetchall()),
    )


def census(db: Connection) -> Census:
    with db.pipeline():
        db.execute(_SNAPSHOT)
        streams = db.execute(sql(tally.query(None)))
        commands = db.execute("SELECT count(*) FROM inbox WHERE open = 1")
        pending = db.execute("SELECT count(*) FROM question WHERE state = 'pending'")
        # The lowest number and not the lowest time, which no index has.
        first = db.execute("SELECT created FROM question WHERE state = 'pending' ORDER BY number LIMIT 1")
        db.execute("COMMIT")
    ((waiting,),), ((asked,),) = commands.fetchall(), pending.fetchall()
    oldest = first.fetchone()
    return Census(dict(streams.fetchall()), waiting, asked, None if oldest is None else oldest[0])


def open_work(db: Connection, member: str, version: int, but: Collection[str]) -> tuple[str, ...]:
    found = db.execute(
        """SELECT name FROM stream WHERE demands <= %(version)s AND id IN
        (SELECT stream FROM inbox WHERE open = 1
        UNION SELECT id FROM stream WHERE work = 1 AND name <> ALL(%(but)s::text[]))
        AND NOT EXISTS (SELECT FROM node AS other
        WHERE other.name = stream.node AND other.name <> %(node)s AND other.until > journal_now())
        ORDER BY id""",
        {"node": member, "version": version, "but": list(but)},
    )
    return tuple(name for (name,) in found)


# -------------------------------------------------------------------- questions


def question(columns: tuple[Any, ...]) -> Question:
    """Convert a row of `QUESTION`. Raises `StreamDamaged`."""
    *others, patch = columns
    if patch is not None:
        with Reading(others[2], f"question {others[1]}"):
            others[5] = json_text.dump({**rows.object_of(others[5]), **rows.object_of(patch)})
    return rows.question(tuple(others))


def one_question(db: Connection, id: str) -> Question | None:
    found = db.execute(f"{QUESTION} WHERE question.id = %s", (id,)).fetchone()
    return None if found is None else question(found)


_SIZE = "octet_length(question.body) + coalesce(octet_length(question.decision), 0)"


def questions(
    db: Connection,
    state: QuestionState | None,
    kind: str | None,
    streams: Sequence[str] | None,
    limit: int,
    after: int,
) -> QuestionPage:
    conditions = ["question.number > %(after)s"]
    if state is not None:
        conditions.append("question.state = %(state)s")
    if kind is not None:
        conditions.append("question.kind = %(kind)s")
    if streams is not None:
        conditions.append("stream.name = ANY(%(streams)s::text[])")
    # Their sizes first, so that no more rows are in memory than fit on a page.
    sized = db.execute(
        sql(
            f"SELECT question.number, {_SIZE} FROM question JOIN stream ON stream.id = question.stream"
            f" WHERE {' AND '.join(conditions)} ORDER BY question.number LIMIT %(limit)s"
        ),
        {
            "state": state,
            "kind": kind,
            "streams": None if streams is None else list(streams),
            "after": after,
            "limit": limit + 1,
        },
    ).fetchall()
    shown = fitting(sized, limit)
    return _page_of(
        _numbered(db, shown), cursors.write("questions", shown[-1]) if len(sized) > len(shown) else None
    )


def decided(db: Connection, limit: int) -> QuestionPage:
    query = f"SELECT number, {_SIZE} FROM question WHERE state = 'decided' ORDER BY number DESC LIMIT %s"
    shown = fitting(db.execute(sql(query), (limit,)).fetchall(), limit)
    return _page_of(_numbered(db, shown)[::-1], None)


def _numbered(db: Connection, numbers: Sequence[int]) -> Sequence[tuple[Any, ...]]:
    """Return the rows with these numbers, oldest first."""
    query = f"{QUESTION} WHERE question.number = ANY(%s::bigint[]) ORDER BY question.number"
    return db.execute(sql(query), (list(numbers),)).fetchall()


def _page_of(found: Sequence[tuple[Any, ...]], following: str | None) -> QuestionPage:
    read: list[Question] = []
    damaged: dict[str, str] = {}
    for each in found:
        try:
            read.append(question(each))
        except StreamDamaged as error:
            damaged[error.stream] = error.why
    return QuestionPage(tuple(read), following, damaged)


def due(db: Connection, after: Due | None) -> DuePage:
    place = (-math.inf, 0) if after is None else (after.expires, after.number)
    with db.pipeline():
        db.execute(_SNAPSHOT)
        found = db.execute(
            "SELECT question.id, stream.name, expires, number FROM question JOIN stream ON stream.id = stream"
            " WHERE state = 'pending' AND expires <= journal_now() AND (expires, number) > (%s::float8, %s)"
            " ORDER BY expires, number LIMIT %s",
            (*place, MOST_DUE),
        )
        following = db.execute(
            "SELECT min(expires) - journal_now() FROM question"
            " WHERE state = 'pending' AND expires > journal_now()"
        )
        db.execute("COMMIT")
    ((next_in,),) = following.fetchall()
    return DuePage(tuple(Due(*each) for each in found), math.inf if next_in is None else next_in)
