"""Streams in SQL: their rows, owners, lists and tally."""

from __future__ import annotations

import sqlite3
from typing import Any

import attrs

from stopgo.runtime.journal import cursor as cursors
from stopgo.runtime.journal import json_text
from stopgo.runtime.journal.errors import Fenced, UnknownStream
from stopgo.runtime.journal.protocol import Fence, Page, Row, Summary


@attrs.frozen
class Head:
    """What a write needs to know of its stream."""

    id: int
    last_seq: int
    status: str
    open: int


@attrs.frozen
class SummaryText:
    """A summary, ready to be stored."""

    status: str
    title: str
    folded_title: str
    open: bool
    body: str

    @classmethod
    def of(cls, summary: Summary) -> SummaryText:
        return cls(
            status=summary.status,
            title=json_text.dump(summary.title),
            folded_title=json_text.fold(summary.title),
            open=summary.open,
            body=json_text.dump(summary.body),
        )


def find(db: sqlite3.Connection, name: str) -> Head | None:
    found = db.execute("SELECT id, last_seq, status, open FROM stream WHERE name = ?", (name,)).fetchone()
    return Head(*found) if found else None


def create(db: sqlite3.Connection, name: str, now: float) -> int:
    """Make a stream nobody has written to; return its id."""
    made = db.execute("INSERT INTO stream (name, created, updated) VALUES (?, ?, ?)", (name, now, now))
    assert made.lastrowid is not None
    return made.lastrowid


def claim(db: sqlite3.Connection, name: str, owner: str) -> Fence:
    db.execute("UPDATE last_epoch SET epoch = epoch + 1")
    found = db.execute(
        "SELECT stream.id, last_epoch.epoch FROM stream, last_epoch WHERE name = ?", (name,)
    ).fetchone()
    if found is None:
        raise UnknownStream(f"there is no stream {name!r}")
    id, epoch = found
    db.execute("UPDATE stream SET owner = ?, epoch = ? WHERE id = ?", (owner, epoch, id))
    return Fence(name, owner, epoch)


def owned(db: sqlite3.Connection, fence: Fence) -> Head:
    """The stream, if the fence is still its newest.

    Raises:
        UnknownStream, Fenced
    """
    found = db.execute(
        "SELECT id, last_seq, status, open, owner, epoch FROM stream WHERE name = ?", (fence.stream,)
    ).fetchone()
    if found is None:
        raise UnknownStream(f"there is no stream {fence.stream!r}")
    if found[4:] != (fence.owner, fence.epoch):
        raise Fenced(f"stream {fence.stream!r} was claimed by another owner")
    return Head(*found[:4])


def advance(
    db: sqlite3.Connection, head: Head, last_seq: int, summary: SummaryText | None, now: float
) -> None:
    """Move a stream on to `last_seq` and, if there is one, to its new summary."""
    if summary is None:
        db.execute("UPDATE stream SET last_seq = ?, updated = ? WHERE id = ?", (last_seq, now, head.id))
    else:
        db.execute(
            "UPDATE stream SET last_seq = ?, updated = ?, title = ?, folded_title = ?, body = ? WHERE id = ?",
            (last_seq, now, summary.title, summary.folded_title, summary.body, head.id),
        )
        # Each has an index, which would be written for the same value, too.
        if summary.status != head.status:
            db.execute("UPDATE stream SET status = ? WHERE id = ?", (summary.status, head.id))
        if summary.open != head.open:
            db.execute("UPDATE stream SET open = ? WHERE id = ?", (summary.open, head.id))
    was = head.status if head.last_seq else None
    now_is = (summary.status if summary else head.status) if last_seq else None
    if was != now_is:
        _count(db, was, -1)
        _count(db, now_is, +1)


def delete(db: sqlite3.Connection, fence: Fence) -> None:
    """Take the stream away, and with it whatever refers to it."""
    try:
        head = owned(db, fence)
    except UnknownStream as gone:
        raise Fenced(str(gone)) from None
    db.execute("DELETE FROM stream WHERE id = ?", (head.id,))
    _count(db, head.status if head.last_seq else None, -1)


def _count(db: sqlite3.Connection, status: str | None, change: int) -> None:
    if status is None:
        return
    db.execute("INSERT OR IGNORE INTO tally VALUES (?, 0)", (status,))
    db.execute("UPDATE tally SET streams = streams + ? WHERE status = ?", (change, status))


# ------------------------------------------------------------------------ reads

_ROW = "name, status, title, open, body, last_seq, created, updated"


def _row(found: tuple[Any, ...]) -> Row:
    name, status, title, open, body, last_seq, created, updated = found
    summary = Summary(status, json_text.load(title), bool(open), json_text.load(body))
    return Row(name, summary, last_seq, created, updated)


def row(db: sqlite3.Connection, name: str) -> Row | None:
    found = db.execute(f"SELECT {_ROW} FROM stream WHERE name = ?", (name,)).fetchone()
    return _row(found) if found else None


def page(db: sqlite3.Connection, status: str | None, q: str | None, limit: int, before: int | None) -> Page:
    """Written streams, newest first: those made before number `before`, with the tally of all."""
    conditions = ["last_seq > 0"]
    values: list[object] = []
    if before is not None:
        conditions.append("id < ?")
        values.append(before)
    if status is not None:
        conditions.append("status = ?")
        values.append(status)
    if q:
        conditions.append("instr(folded_title, ?) > 0")
        values.append(json_text.fold(q))
    # In one transaction, so that rows and tally tell of the same moment.
    db.execute("BEGIN")
    try:
        found = db.execute(
            f"SELECT id, {_ROW} FROM stream WHERE {' AND '.join(conditions)} ORDER BY id DESC LIMIT ?",
            (*values, limit + 1),
        ).fetchall()
        tally = dict(db.execute("SELECT status, streams FROM tally WHERE streams > 0"))
    finally:
        db.execute("COMMIT")
    shown = found[:limit]
    return Page(
        rows=tuple(_row(each[1:]) for each in shown),
        next_cursor=cursors.write("streams", shown[-1][0]) if len(found) > limit else None,
        tally=tally,
    )


def check(db: sqlite3.Connection) -> None:
    """Return if the tables can be read."""
    db.execute("SELECT epoch FROM last_epoch").fetchone()


def open_work(db: sqlite3.Connection) -> tuple[str, ...]:
    found = db.execute(
        "SELECT name FROM stream WHERE id IN"
        " (SELECT id FROM stream WHERE open = 1 UNION SELECT stream_id FROM inbox WHERE open = 1)"
        " ORDER BY id"
    )
    return tuple(name for (name,) in found)
