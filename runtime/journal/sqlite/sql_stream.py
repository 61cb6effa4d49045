"""The tables of streams, events, intents and the tally, and the owners of streams."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from functools import cache
from typing import Any

import attrs

from ... import json_text
from .. import cursor as cursors
from .. import rows
from ..errors import IntentExists, JournalError, Reading, UnknownStream
from ..protocol import Event, Marks, NewIntent, SettleIntent, StreamMark
from ..summary import AFTER_HEX, MOST_BEGINNING, Among, Census, NamedKind, Page, Row, Summary

_HEADS = 1024
"""Maximum number of heads in the cache: more than the streams that are written at the same time."""


@attrs.frozen
class StreamHead:
    """The part of a stream's row that writes need, cached in memory."""

    id: int
    last_seq: int
    status: str
    work: int
    """`open` and `rests` of the summary, as stored (`rows.work`)."""
    title: str
    body: str
    """Title and body are the stored JSON texts."""
    owner: str
    epoch: int
    """Of the latest save."""
    demands: int
    """The lowest version of a member that may own the stream."""

    @property
    def starts(self) -> bool:
        """Whether the first command in the inbox is about to be executed."""
        return self.last_seq > 0 and not self.work

    @property
    def listed(self) -> str | None:
        """The status under which the tally counts the stream; None if it has no events."""
        return self.status if self.last_seq else None

    def after(self, last_seq: int, epoch: int, version: int) -> StreamHead:
        """The head after a save by a member of this version."""
        return attrs.evolve(self, last_seq=last_seq, epoch=epoch, demands=max(version, self.demands))

    def with_summary(self, summary: Summary, body: str) -> StreamHead:
        """The head with a new summary; `body` is the text of its body."""
        return attrs.evolve(
            self,
            status=summary.status,
            work=rows.work(summary.open, summary.rests),
            title=json_text.dump(summary.title),
            body=body,
            owner=summary.owner,
        )


class Streams:
    """The rows of streams, written through a cache of heads.

    After a rollback, `forget` must be called, because the cache may hold values that were rolled back.
    """

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._heads: dict[str, StreamHead] = {}

    def forget(self) -> None:
        """Empty the cache after a rollback."""
        self._heads.clear()

    def find(self, name: str) -> StreamHead | None:
        head = self._heads.get(name)
        if head is None:
            found = self._db.execute(
                "SELECT id, last_seq, status, open, title, body, owner, epoch, demands FROM stream"
                " WHERE name = ?",
                (name,),
            ).fetchone()
            if found is not None:
                if len(self._heads) >= _HEADS:
                    del self._heads[next(iter(self._heads))]
                id, last_seq, *others = found
                head = self._heads[name] = StreamHead(id, rows.seq(last_seq), *others)
        return head

    def existing(self, name: str) -> StreamHead:
        """Raises `UnknownStream`."""
        head = self.find(name)
        if head is None:
            raise UnknownStream(f"stream {name!r} does not exist")
        return head

    def create(self, name: str, now: float) -> StreamHead:
        self._db.execute("INSERT INTO stream (name, created, updated) VALUES (?, ?, ?)", (name, now, now))
        return self.existing(name)

    def advance(self, name: str, head: StreamHead, latest: float, summary: Summary | None = None) -> None:
        """Update a stream's row after a save, to the head and the summary, if it has a new one.

        `latest` is the latest time among the new events, or 0 without events.
        """
        before = self.existing(name)
        changes = _changes(before, head, latest, summary)
        if not changes:
            return
        self._db.execute(_update(tuple(changes)), (*changes.values(), head.id))
        self._heads[name] = head
        if (before.listed, before.owner) != (head.listed, head.owner):
            self._count(before.owner, before.listed, -1)
            self._count(head.owner, head.listed, +1)

    def delete(self, name: str) -> None:
        """Delete a stream and all rows that refer to it."""
        head = self.existing(name)
        self._db.execute("DELETE FROM stream WHERE id = ?", (head.id,))
        self._count(head.owner, head.listed, -1)
        del self._heads[name]

    def _count(self, owner: str, status: str | None, change: int) -> None:
        if status is None:
            return
        self._db.execute(
            "INSERT INTO tally VALUES (?, ?)"
            " ON CONFLICT (status) DO UPDATE SET streams = streams + excluded.streams",
            (status, change),
        )
        if owner:
            self._db.execute(
                "INSERT INTO owner_tally VALUES (?, ?, ?)"
                " ON CONFLICT (owner, status) DO UPDATE SET streams = streams + excluded.streams",
                (owner, status, change),
            )


def _changes(
    before: StreamHead, head: StreamHead, latest: float, summary: Summary | None
) -> dict[str, object]:
    """The changed columns only: SQLite updates an index even for an equal value, and texts are long."""
    changes: dict[str, object] = {}
    if summary is not None or head.last_seq != before.last_seq:
        changes |= {"last_seq": head.last_seq, "updated": latest}
    columns = (
        ("epoch", before.epoch, head.epoch),  # with the first save of an owner: a claim alone writes nothing
        ("demands", before.demands, head.demands),
        ("title", before.title, head.title),
        ("status", before.status, head.status),
        ("open", before.work, head.work),
        ("body", before.body, head.body),
        ("owner", before.owner, head.owner),
    )
    changes |= {column: new for column, old, new in columns if new != old}
    if summary is not None and "title" in changes:
        changes["folded_title"] = rows.fold(summary.title)
    return changes


@cache
def _update(columns: tuple[str, ...]) -> str:
    # max, because an event may have an earlier time than the event before it.
    changes = (f"{name} = {'max(updated, ?)' if name == 'updated' else '?'}" for name in columns)
    return f"UPDATE stream SET {', '.join(changes)} WHERE id = ?"


# ------------------------------------------------------------------------ reads


def find_id(db: sqlite3.Connection, name: str) -> int | None:
    found = db.execute("SELECT id FROM stream WHERE name = ?", (name,)).fetchone()
    return found[0] if found else None


MOST_SEARCHED = 10_000
"""Maximum number of streams that one page of a search reads."""
_ROW = "name, status, title, open, body, owner, last_seq, created, updated"
_ALL = "stream WHERE last_seq <> 0"
# The second condition lets SQLite use the index, which has no streams without an owner.
_OWNED = "stream INDEXED BY stream_of_owner WHERE owner = ? AND owner <> '' AND last_seq <> 0"
# CROSS JOIN keeps the order: SQLite would otherwise read all streams, because that gives them sorted.
_NAMED = (
    "(SELECT DISTINCT value AS wanted FROM json_each(?)) CROSS JOIN stream ON name = wanted"
    " WHERE last_seq <> 0"
)


def row(db: sqlite3.Connection, name: str) -> Row | None:
    with Reading(name, "the stream"):
        found = db.execute(f"SELECT {_ROW} FROM stream WHERE name = ?", (name,)).fetchone()
    return rows.row(found) if found else None


def marks(db: sqlite3.Connection, streams: Collection[str], commands: Collection[tuple[str, str]]) -> Marks:
    found: dict[str, StreamMark] = {}
    for name in streams:
        mark = db.execute(
            "SELECT created, last_seq, (SELECT key FROM inbox WHERE stream_id = stream.id AND open = 1"
            " ORDER BY inbox.id DESC LIMIT 1) FROM stream WHERE name = ?",
            (name,),
        ).fetchone()
        if mark is not None:
            found[name] = StreamMark(*mark)
    answered: list[tuple[str, str]] = []
    for command in commands:
        waiting = db.execute(
            "SELECT 1 FROM stream JOIN inbox ON stream_id = stream.id"
            " WHERE name = ? AND key = ? AND reply IS NULL",
            command,
        )
        if waiting.fetchone() is None:
            answered.append(command)
    return Marks(found, frozenset(answered))


def beginning(db: sqlite3.Connection, text: str, of: NamedKind) -> tuple[str, ...]:
    column = "name" if of == "stream" else "id"
    found = db.execute(
        f"SELECT {column} FROM {of} WHERE {column} >= ? AND {column} < ? LIMIT ?",
        (text, text + AFTER_HEX, MOST_BEGINNING),
    )
    return tuple(name for (name,) in found)


def page(
    db: sqlite3.Connection,
    status: str | None,
    q: str | None,
    limit: int,
    before: int | None,
    among: Among | None = None,
) -> Page:
    """Return a page of the streams with events and a number below `before`, newest first, and the tally.

    A search (`q`) reads at most `MOST_SEARCHED` streams of each source, because reading all titles has no
    bound in time.
    """
    sources: list[tuple[str, list[object]]] = [(_ALL, [])]
    if among is not None:
        sources = [(_OWNED, [among.owner])]
        if among.streams:
            sources.append((_NAMED, [json_text.dump(among.streams)]))
    # In one transaction, so that rows and tally are from the same commit.
    db.execute("BEGIN")
    try:
        parts = [_newest(db, *source, status, q, limit + 1, before) for source in sources]
        tally = _tally(db, among)
    finally:
        db.execute("COMMIT")
    last_searched = max((last for _, last in parts if last is not None), default=None)
    # By number, because a stream can be in both sources. Below `last_searched`, a source may be incomplete.
    found = {each[0]: each for part, _ in parts for each in part if each[0] >= (last_searched or 0)}
    numbers = sorted(found, reverse=True)
    shown = numbers[:limit]
    last = shown[-1] if len(numbers) > limit else last_searched
    return Page(
        rows=tuple(rows.row(found[each][1:]) for each in shown),
        next_cursor=None if last is None else cursors.write("streams", last),
        after=tuple(cursors.write("streams", each) for each in shown),
        tally=tally,
    )


def census(db: sqlite3.Connection) -> Census:
    db.execute("BEGIN")
    try:
        streams = _tally(db, None)
        (commands,) = db.execute("SELECT count(*) FROM inbox WHERE open = 1").fetchone()
        (pending,) = db.execute("SELECT count(*) FROM question WHERE state = 'pending'").fetchone()
        # The lowest number and not the lowest time, which no index has.
        oldest = db.execute(
            "SELECT created FROM question WHERE state = 'pending' AND typeof(created) = 'real'"
            " ORDER BY number LIMIT 1"
        ).fetchone()
    finally:
        db.execute("COMMIT")
    return Census(streams, commands, pending, None if oldest is None else oldest[0])


def _newest(
    db: sqlite3.Connection,
    source: str,
    values: list[object],
    status: str | None,
    q: str | None,
    limit: int,
    before: int | None,
) -> tuple[list[tuple[Any, ...]], int | None]:
    """Return the first rows of a source, with their numbers, and the number of the last stream that the
    search has read; None if it has read all."""
    last_searched: int | None = None
    if before is not None:
        source, values = f"{source} AND stream.id < ?", [*values, before]
    if status is not None:
        source, values = f"{source} AND status = ?", [*values, status]
    if q:
        found = db.execute(
            f"SELECT stream.id FROM {source} ORDER BY stream.id DESC LIMIT 1 OFFSET ?",
            (*values, MOST_SEARCHED - 1),
        ).fetchone()
        if found is not None:
            (last_searched,) = found
            source, values = f"{source} AND stream.id >= ?", [*values, last_searched]
        source, values = f"{source} AND instr(folded_title, ?) > 0", [*values, rows.fold(q)]
    newest = db.execute(
        f"SELECT stream.id, {_ROW} FROM {source} ORDER BY stream.id DESC LIMIT ?", (*values, limit)
    )
    return newest.fetchall(), last_searched


def _tally(db: sqlite3.Connection, among: Among | None) -> Mapping[str, int]:
    sound = "typeof(streams) = 'integer' AND streams > 0"
    if among is None:
        return dict(db.execute(f"SELECT status, streams FROM tally WHERE {sound}"))
    counted = f"SELECT status, streams FROM owner_tally WHERE owner = ? AND {sound}"
    tally = Counter(dict(db.execute(counted, (among.owner,))))
    if among.streams:
        others = f"SELECT status, count(*) FROM {_NAMED} AND (owner = '' OR owner <> ?) GROUP BY status"
        tally.update(dict(db.execute(others, (json_text.dump(among.streams), among.owner))))
    return tally


def need_newer(db: sqlite3.Connection, newest: int) -> int:
    """Return the number of streams that demand a newer version."""
    (count,) = db.execute("SELECT count(*) FROM stream WHERE demands > ?", (newest,)).fetchone()
    return int(count)


def open_work(db: sqlite3.Connection) -> list[tuple[str, int, bool]]:
    """Return the streams with an open summary or an open command, the versions that they demand, and whether
    they have an open command."""
    found = db.execute(
        "SELECT name, demands, EXISTS (SELECT 1 FROM inbox WHERE stream_id = stream.id AND inbox.open = 1)"
        " FROM stream WHERE id IN"
        " (SELECT id FROM stream WHERE open = 1 UNION SELECT stream_id FROM inbox WHERE open = 1)"
        " ORDER BY id"
    )
    return [
        (name, demands if isinstance(demands, int) else 0, bool(has_command))
        for name, demands, has_command in found
        if isinstance(name, str)
    ]


# ----------------------------------------------------------------- events

_PAGE_ROWS = 100
_PAGE_CHARACTERS = 65_536
"""How much text to read and parse without a checkpoint; it takes one or two milliseconds."""


def append_events(
    db: sqlite3.Connection,
    stream_id: int,
    last_seq: int,
    events: Sequence[tuple[str, float | None, str]],
    now: float,
) -> None:
    """Append events, given as (type, at, body), after `last_seq`."""
    db.executemany(
        "INSERT INTO event (stream_id, seq, type, at, body) VALUES (?, ?, ?, ?, ?)",
        [
            (stream_id, seq, type, now if at is None else at, body)
            for seq, (type, at, body) in enumerate(events, last_seq + 1)
        ],
    )


def page_of_events(
    db: sqlite3.Connection, stream_id: int, name: str, after: int, limit: int | None
) -> tuple[list[Event], bool]:
    """Return the next events after a seq, and whether there may be more.

    Raises:
        StreamDamaged: one of them cannot be read, or is missing.
    """
    most = _PAGE_ROWS if limit is None else min(limit, _PAGE_ROWS)
    events: list[Event] = []
    characters = 0
    with Reading(name, f"an event after {after}"):
        # One statement for the events and the last seq, so that both are from the same commit.
        found = db.execute(
            "SELECT last_seq, seq, type, at, event.body FROM stream LEFT JOIN event"
            " ON event.stream_id = stream.id AND seq > ? WHERE stream.id = ? ORDER BY seq LIMIT ?",
            (after, stream_id, most),
        )
        last, expected = after, after
        # An open cursor would keep this connection at an old snapshot.
        with closing(found):
            for last_seq, seq, type, at, body in found:
                last = last_seq
                if seq is None:  # the join found no event
                    break
                expected += 1
                if seq != expected:
                    raise LookupError(f"event {expected} is missing")
                events.append(rows.event(name, seq, type, at, body))
                characters += len(body)
                if characters > _PAGE_CHARACTERS:
                    return events, True
        if (events and expected > last) or (len(events) < most and expected < last):
            raise LookupError(f"the stream ends at event {expected}, but its last seq is {last}")
    return events, len(events) == _PAGE_ROWS


# ----------------------------------------------------------------- intents


def begin_intents(db: sqlite3.Connection, stream_id: int, intents: Sequence[tuple[NewIntent, str]]) -> None:
    """Store intents, each given with the text of its body."""
    for intent, body in intents:
        made = db.execute(
            "INSERT OR IGNORE INTO intent (stream_id, key, attempt, effect, body) VALUES (?, ?, ?, ?, ?)",
            (stream_id, intent.key, intent.attempt, intent.effect, body),
        )
        if made.rowcount == 0:
            raise IntentExists(f"attempt {intent.attempt} of {intent.key!r} has already begun")


def settle_intents(db: sqlite3.Connection, stream_id: int, ends: Sequence[SettleIntent]) -> None:
    for end in ends:
        changed = db.execute(
            "UPDATE intent SET state = ? WHERE stream_id = ? AND key = ? AND attempt = ?",
            (end.state, stream_id, end.key, end.attempt),
        )
        if changed.rowcount == 0:
            raise JournalError(f"attempt {end.attempt} of {end.key!r} has not begun")
