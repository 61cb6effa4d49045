"""The question table: open, decide and close questions."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, assert_never

from ... import json_text
from .. import cursor as cursors
from .. import rows
from .. import vote as votes
from ..errors import JournalError, QuestionTaken, Reading, StreamDamaged
from ..protocol import Json, KeyReused, Repeated
from ..question import (
    MOST_DUE,
    Already,
    CloseQuestion,
    Due,
    DuePage,
    NewQuestion,
    Question,
    QuestionState,
    Unknown,
    Won,
    fitting,
)
from ..vote import Outdated, Vote, Voted
from . import sql_inbox

_QUESTION = (
    "question.number, question.id, stream.name, question.kind, question.state, question.body,"
    " question.decision, question.created, question.expires, question.settled, question.votes"
)

_PIECE_CHARACTERS = 65_536
"""How much text to parse without a checkpoint; it takes about a millisecond."""


def change(
    db: sqlite3.Connection,
    stream_id: int,
    stream: str,
    changes: Sequence[tuple[NewQuestion | CloseQuestion, str]],
    now: float,
) -> None:
    """Open and close questions, each given with the text of its body or patch."""
    for each, text in changes:
        match each:
            case NewQuestion():
                _open(db, stream_id, each, text, now)
            case CloseQuestion():
                _close(db, stream_id, stream, each, text, now)
            case _:
                assert_never(each)


def _open(db: sqlite3.Connection, stream_id: int, new: NewQuestion, body: str, now: float) -> None:
    made = db.execute(
        "INSERT OR IGNORE INTO question (id, stream_id, kind, body, created, expires)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        (new.id, stream_id, new.kind, body, now, new.expires),
    )
    if made.rowcount == 0:
        raise JournalError(f"question {new.id!r} already exists")


def _close(
    db: sqlite3.Connection, stream_id: int, stream: str, close: CloseQuestion, patch: str, now: float
) -> None:
    found = db.execute(
        "SELECT number, state, body FROM question WHERE id = ? AND stream_id = ?", (close.id, stream_id)
    ).fetchone()
    if found is not None and found[1] == "decided":
        raise QuestionTaken(f"question {close.id!r} was decided")
    if found is None or found[1] != "pending":
        raise JournalError(f"question {close.id!r} is not pending in this stream")
    number, _, body = found
    with Reading(stream, f"question {close.id}"):
        merged = json_text.dump({**rows.object_of(body), **json_text.load(patch)})
    db.execute(
        "UPDATE question SET state = ?, body = ?, settled = ? WHERE number = ?",
        (close.state, merged, now, number),
    )


def decide(
    db: sqlite3.Connection,
    id: str,
    decision: Json,
    adds: Json,
    key: str,
    vote: Vote | None,
    at: float,
    member: str,
) -> Won | Voted | Already | Outdated | Repeated | KeyReused | Unknown:
    """Decide a pending question with a compare-and-set, or store a vote. `at` is the time of the write."""
    found = db.execute(
        f"SELECT question.stream_id, {_QUESTION} FROM question"
        " JOIN stream ON stream.id = question.stream_id WHERE question.id = ?",
        (id,),
    ).fetchone()
    if found is None:
        return Unknown()
    stream_id, asked = found[0], rows.question(found[1:])

    def is_same(kind: str, body: str) -> bool:
        return votes.is_repeat(kind, rows.object_of(body), id, decision)

    if known := sql_inbox.repeated(db, stream_id, asked.stream, key, is_same):
        return known
    result = votes.outcome(asked, {**decision, **adds}, vote, at)
    if isinstance(result, Won | Voted):
        new = result.question
        text = None if new.decision is None else json_text.dump(new.decision)
        db.execute(
            "UPDATE question SET state = ?, decision = ?, settled = ?, votes = ? WHERE id = ?",
            (new.state, text, new.settled, rows.text_of_votes(new.votes), id),
        )
        kind, body = votes.command(result, decision, adds, vote)
        sql_inbox.put(db, stream_id, key, kind, json_text.dump(body), at, member)
    return result


# ------------------------------------------------------------------------ reads


def get(db: sqlite3.Connection, id: str) -> Question | None:
    found = db.execute(
        f"SELECT {_QUESTION} FROM question JOIN stream ON stream.id = question.stream_id"
        " WHERE question.id = ?",
        (id,),
    ).fetchone()
    return rows.question(found) if found else None


_SIZE = "length(body) + ifnull(length(decision), 0)"


def page(
    db: sqlite3.Connection,
    state: QuestionState | None,
    kind: str | None,
    streams: Sequence[str] | None,
    limit: int,
    after: int,
) -> tuple[list[tuple[Any, ...]], str | None]:
    """Return rows of questions with a number above `after`, oldest first, for `parsed`, and the cursor of the
    next page. Their sizes are read first, so that no more rows are in memory than fit on a page."""
    conditions = ["question.number > ?"]
    values: list[object] = [after]
    if state is not None:
        conditions.append("question.state = ?")
        values.append(state)
    if kind is not None:
        conditions.append("question.kind = ?")
        values.append(kind)
    if streams is not None:
        conditions.append("stream.name IN (SELECT value FROM json_each(?))")
        values.append(json_text.dump(list(streams)))
    # Start the join with the smaller side: the requested streams, otherwise the questions in order.
    joined = "question CROSS JOIN stream" if streams is None else "stream CROSS JOIN question"
    # Select numbers first; otherwise SQLite would sort rows together with their bodies.
    sized = db.execute(
        f"SELECT chosen, {_SIZE} FROM (SELECT question.number AS chosen FROM {joined}"
        f" ON stream.id = question.stream_id WHERE {' AND '.join(conditions)} ORDER BY chosen LIMIT ?)"
        " CROSS JOIN question ON question.number = chosen",
        (*values, limit + 1),
    ).fetchall()
    sized.sort(key=itemgetter(0))
    shown = fitting(sized, limit)
    found = _numbered(db, shown)
    found.sort(key=itemgetter(0))
    return found, cursors.write("questions", shown[-1]) if len(sized) > len(shown) else None


def _numbered(db: sqlite3.Connection, numbers: Sequence[int]) -> list[tuple[Any, ...]]:
    """Return the rows with these numbers, in any order."""
    return db.execute(
        f"SELECT {_QUESTION} FROM (SELECT value AS chosen FROM json_each(?))"
        " CROSS JOIN question ON question.number = chosen"
        " CROSS JOIN stream ON stream.id = question.stream_id",
        (json_text.dump(numbers),),
    ).fetchall()


def decided(db: sqlite3.Connection, limit: int) -> list[tuple[Any, ...]]:
    """Return rows of decided questions, newest question first, for `parsed`."""
    # The index by state has the numbers in order, so only the requested rows are read.
    sized = db.execute(
        f"SELECT chosen, {_SIZE} FROM (SELECT question.number AS chosen FROM question"
        " WHERE question.state = 'decided' ORDER BY chosen DESC LIMIT ?)"
        " CROSS JOIN question ON question.number = chosen",
        (limit,),
    ).fetchall()
    sized.sort(key=itemgetter(0), reverse=True)
    found = _numbered(db, fitting(sized, limit))
    found.sort(key=itemgetter(0), reverse=True)
    return found


def parsed(found: Sequence[tuple[Any, ...]]) -> Iterator[tuple[list[Question], dict[str, str]]]:
    """Parse rows of questions, in pieces because their texts may be long. Each piece comes with its damaged
    streams and the reasons."""
    piece: list[Question] = []
    damaged: dict[str, str] = {}
    characters = 0
    for each in found:
        if characters > _PIECE_CHARACTERS:
            yield piece, damaged
            piece, damaged, characters = [], {}, 0
        try:
            piece.append(rows.question(each))
        except StreamDamaged as error:
            damaged[error.stream] = error.why
        else:
            characters += len(each[5])
    yield piece, damaged


def due(db: sqlite3.Connection, now: float, after: Due | None) -> DuePage:
    # INDEXED BY, because the planner would otherwise scan every pending question, with or without expiry.
    pending = "question INDEXED BY question_due WHERE question.state = 'pending' AND question.expires"
    start = (-math.inf, 0) if after is None else (after.expires, after.number)
    found = db.execute(
        "SELECT id, (SELECT name FROM stream WHERE stream.id = stream_id), expires, number"
        f" FROM {pending} BETWEEN ? AND ? AND (question.expires, question.number) > (?, ?)"
        " ORDER BY question.expires, question.number LIMIT ?",
        (start[0], now, *start, MOST_DUE),
    )
    questions = tuple(each for each in (rows.due(*row) for row in found) if each is not None)
    (following,) = db.execute(f"SELECT min(question.expires) FROM {pending} > ?", (now,)).fetchone()
    return DuePage(questions, math.inf if following is None else following - now)
