"""The inbox table: commands, their keys and their replies."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from .. import json_text
from . import rows
from .errors import Reading, StreamDamaged, shown
from .protocol import Accepted, Command, KeyReused, NotAccepted, Repeated
from .sql_stream import Streams


def deliver(
    db: sqlite3.Connection,
    streams: Streams,
    name: str,
    key: str,
    kind: str,
    body: str,
    *,
    new: bool,
    limit: int | None,
    unless: frozenset[str],
    not_behind: frozenset[str],
    now: float,
) -> Accepted | Repeated | KeyReused | NotAccepted:
    head = streams.find(name)
    if head is None and not new:
        return NotAccepted("unknown_stream")
    refused: NotAccepted | None = None
    status = head.status if head else ""
    if status in unless:
        refused = NotAccepted("status", status)
    elif limit is not None or not_behind:
        kinds = _waiting(db, head.id) if head else []
        if not not_behind.isdisjoint(kinds):
            refused = NotAccepted("behind")
        elif limit is not None and kinds.count(kind) >= limit:
            refused = NotAccepted("full")
    if refused is None:
        head = head or streams.create(name, now)
        if put(db, head.id, key, kind, body, now):
            return Accepted()

    def is_same(first_kind: str, first_body: str) -> bool:
        return first_kind == kind and json_text.same(first_body, body)

    known = repeated(db, head.id, name, key, is_same) if head else None
    answer = known or refused
    assert answer is not None
    return answer


def repeated(
    db: sqlite3.Connection, stream_id: int, stream: str, key: str, is_same: Callable[[str, str], bool]
) -> Repeated | KeyReused | None:
    """Return the answer for a key that was used before, or None for a new key. `is_same` compares the command
    with the kind and body of the first.

    Raises:
        StreamDamaged
    """
    first = db.execute(
        "SELECT kind, body, reply FROM inbox WHERE stream_id = ? AND key = ?", (stream_id, key)
    ).fetchone()
    if first is None:
        return None
    first_kind, first_body, reply = first
    with Reading(stream, f"command {key}"):
        if is_same(first_kind, first_body):
            return Repeated(rows.object_of(reply) if reply is not None else None)
    return KeyReused()


def put(db: sqlite3.Connection, stream_id: int, key: str, kind: str, body: str, now: float) -> bool:
    """Add a command. Return False if its key was used before."""
    made = db.execute(
        "INSERT OR IGNORE INTO inbox (stream_id, key, kind, body, at) VALUES (?, ?, ?, ?, ?)",
        (stream_id, key, kind, body, now),
    )
    return made.rowcount == 1


def acknowledge(db: sqlite3.Connection, stream_id: int, keys: Sequence[str]) -> None:
    for key in keys:
        db.execute("UPDATE inbox SET open = 0 WHERE stream_id = ? AND key = ?", (stream_id, key))


def answer(db: sqlite3.Connection, stream_id: int, replies: Mapping[str, str]) -> None:
    """Store replies. A command that has a reply keeps it."""
    for key, reply in replies.items():
        db.execute(
            "UPDATE inbox SET reply = ? WHERE stream_id = ? AND key = ? AND reply IS NULL",
            (reply, stream_id, key),
        )


def forget(db: sqlite3.Connection, stream_id: int, keys: Sequence[str]) -> None:
    for key in keys:
        db.execute("DELETE FROM inbox WHERE stream_id = ? AND key = ?", (stream_id, key))


def _waiting(db: sqlite3.Connection, stream_id: int) -> list[str]:
    """Return the kinds of the open commands."""
    found = db.execute("SELECT kind FROM inbox WHERE stream_id = ? AND open = 1", (stream_id,))
    return [kind for (kind,) in found]


# ------------------------------------------------------------------------ reads


def waiting(db: sqlite3.Connection, name: str, *, skip_damaged: bool) -> tuple[Command, ...]:
    """Return the open commands. Raises `StreamDamaged`, unless `skip_damaged` leaves out the damaged ones."""
    commands: list[Command] = []
    with Reading(name, "the inbox"):
        found = db.execute(
            "SELECT inbox.key, inbox.kind, inbox.body, inbox.at FROM stream"
            " JOIN inbox ON inbox.stream_id = stream.id AND inbox.open = 1"
            " WHERE stream.name = ? ORDER BY inbox.id",
            (name,),
        ).fetchall()
        for key, kind, body, at in found:
            try:
                with Reading(name, f"command {shown(key)}"):
                    commands.append(rows.command(name, key, kind, body, at))
            except StreamDamaged:
                if not skip_damaged:
                    raise
    return tuple(commands)


def open_keys(db: sqlite3.Connection, stream_id: int) -> tuple[str, ...]:
    found = db.execute("SELECT key FROM inbox WHERE stream_id = ? AND open = 1 ORDER BY id", (stream_id,))
    return tuple(key for (key,) in found if isinstance(key, str))
