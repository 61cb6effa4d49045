"""The queries about many streams, and about questions. Those about one stream are in `stream_reads.py`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from ... import json_text
from .. import cursor as cursors
from .. import rows
from ..errors import Reading, StreamDamaged
from ..question import MOST_DUE, Due, DuePage, Question, QuestionPage, QuestionState, fitting
from ..summary import AFTER_HEX, MOST_BEGINNING, Among, Census, NamedKind, Page
from . import tally
from .binary import query
from .stream_reads import ROW, PipelinedRead, executed
from .tables import Connection, sql

_MOST_SEARCHED = 10_000
"""Maximum number of streams that one page of a search reads."""

QUESTION = """SELECT question.number, question.id, stream.name, question.kind, question.state, question.body,
    question.decision, question.created, question.expires, question.settled, question.votes, question.patch
    FROM question JOIN stream ON stream.id = question.stream"""
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Begins a transaction in which all queries see the same commits."""


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
        found = db.execute(f"SELECT id, {ROW} FROM {source} ORDER BY id DESC LIMIT %(limit)s", values)
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
    return question_page(executed(db, numbered(shown)), sized, shown)


def sized(stream: str, after: int, limit: int) -> PipelinedRead[Sequence[tuple[int, int]]]:
    """The numbers and sizes of questions of a stream, as many as are needed for a page."""
    # Materialized: otherwise the planner may read the questions of all streams in the order of their numbers.
    text = f"""WITH of_stream AS MATERIALIZED (SELECT number, {_SIZE} AS size FROM question
        WHERE stream = (SELECT id FROM stream WHERE name = $1) AND number > $2)
        SELECT number, size::int8 FROM of_stream ORDER BY number LIMIT $3"""
    which = query(text, ("text", stream), ("int8", after), ("int8", limit + 1))
    return PipelinedRead([which], lambda found: [(number, size) for number, size in found[0]])


def numbered(numbers: Sequence[int]) -> PipelinedRead[Sequence[tuple[Any, ...]]]:
    """The rows with these numbers, oldest first."""
    text = f"{QUESTION} WHERE question.number = ANY($1) ORDER BY question.number"
    return PipelinedRead([query(text, ("int8[]", numbers))], lambda found: found[0])


def question_page(
    found: Sequence[tuple[Any, ...]], sized: Sequence[tuple[int, int]], shown: Sequence[int]
) -> QuestionPage:
    """`found`: the rows with the numbers `shown`, which are those of `sized` that fit on the page."""
    return _page_of(found, cursors.write("questions", shown[-1]) if len(sized) > len(shown) else None)


def decided(db: Connection, limit: int) -> QuestionPage:
    text = f"SELECT number, {_SIZE} FROM question WHERE state = 'decided' ORDER BY number DESC LIMIT %s"
    shown = fitting(db.execute(sql(text), (limit,)).fetchall(), limit)
    return _page_of(executed(db, numbered(shown))[::-1], None)


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
