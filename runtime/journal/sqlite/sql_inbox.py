"""The inbox table: commands, their keys and their replies."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence

from ... import json_text
from .. import rows
from ..errors import Reading, StreamDamaged, UnknownCommand, UnknownStream, shown
from ..protocol import (
    REFUSAL_SECONDS,
    Accepted,
    Command,
    DeliveryOutcome,
    Json,
    KeyReused,
    NewCommand,
    NotAccepted,
    Repeated,
)
from ..summary import is_full
from .sql_stream import StreamHead, Streams


def deliver(
    db: sqlite3.Connection, streams: Streams, new: NewCommand, body: str, at: float, member: str
) -> DeliveryOutcome:
    """Put a command with this text of its body into the inbox, unless it is refused."""
    head = streams.find(new.stream)
    if head is None and not new.new:
        return NotAccepted("unknown_stream")
    refused = _refused(db, head, new)
    if refused is None:
        head = head or streams.create(new.stream, at)
        if put(db, head.id, new.key, new.kind, body, at, member):
            return Accepted()

    def is_same(first_kind: str, first_body: str) -> bool:
        return first_kind == new.kind and json_text.same(first_body, body)

    known = repeated(db, head.id, new.stream, new.key, is_same) if head else None
    outcome = known or refused
    assert outcome is not None
    return outcome


def _refused(db: sqlite3.Connection, head: StreamHead | None, new: NewCommand) -> NotAccepted | None:
    status, starts = (head.status, head.starts) if head else ("", False)
    if status in new.unless:
        return NotAccepted("status", status)
    if new.limit is not None or new.not_behind:
        kinds = waiting_kinds(db, head.id) if head else []
        if not new.not_behind.isdisjoint(kinds):
            return NotAccepted("behind")
        if is_full(new.limit, kinds.count(new.kind), starts=starts):
            return NotAccepted("full")
    return None


def repeated(
    db: sqlite3.Connection, stream_id: int, stream: str, key: str, is_same: Callable[[str, str], bool]
) -> Repeated | KeyReused | None:
    """Return the answer for a key that was used before, or None for a new key. `is_same` compares the command
    with the kind and body of the first.

    Raises:
        StreamDamaged
    """
    first = db.execute(
        "SELECT kind, body, reply FROM inbox WHERE stream_id = ? AND key = ? AND open <> 2", (stream_id, key)
    ).fetchone()
    if first is None:
        return None
    first_kind, first_body, reply = first
    with Reading(stream, f"command {key}"):
        if is_same(first_kind, first_body):
            return Repeated(rows.object_of(reply) if reply is not None else None)
    return KeyReused()


def put(
    db: sqlite3.Connection, stream_id: int, key: str, kind: str, body: str, now: float, member: str
) -> bool:
    """Add a command. Return False if its key is in use."""
    values = (stream_id, key, kind, body, now, member)
    while True:
        made = db.execute(
            "INSERT OR IGNORE INTO inbox (stream_id, key, kind, body, at, node) VALUES (?, ?, ?, ?, ?, ?)",
            values,
        )
        if made.rowcount == 1:
            return True
        # A refused command has given its key back. The new one is the last in the inbox.
        freed = db.execute("DELETE FROM inbox WHERE stream_id = ? AND key = ? AND open = 2", (stream_id, key))
        if freed.rowcount == 0:
            return False


def acknowledge(db: sqlite3.Connection, stream_id: int, keys: Sequence[str]) -> None:
    for key in keys:
        db.execute("UPDATE inbox SET open = 0 WHERE stream_id = ? AND key = ?", (stream_id, key))


def save_replies(db: sqlite3.Connection, stream_id: int, replies: Mapping[str, str]) -> None:
    """Store replies. A command that has a reply keeps it."""
    for key, reply in replies.items():
        db.execute(
            "UPDATE inbox SET reply = ? WHERE stream_id = ? AND key = ? AND reply IS NULL",
            (reply, stream_id, key),
        )


def refuse(db: sqlite3.Connection, stream_id: int, refusals: Mapping[str, str], now: float) -> None:
    """Close commands with a refusal, and delete the refusals that are old."""
    for key, reply in refusals.items():
        db.execute(
            "UPDATE inbox SET open = 2, reply = ?, at = ? WHERE stream_id = ? AND key = ?",
            (reply, now, stream_id, key),
        )
    db.execute(
        "DELETE FROM inbox WHERE stream_id = ? AND open = 2 AND at < ?", (stream_id, now - REFUSAL_SECONDS)
    )


def waiting_kinds(db: sqlite3.Connection, stream_id: int) -> list[str]:
    """Return the kinds of the open commands."""
    found = db.execute("SELECT kind FROM inbox WHERE stream_id = ? AND open = 1", (stream_id,))
    return [kind for (kind,) in found]


# ------------------------------------------------------------------------ reads


def waiting(db: sqlite3.Connection, name: str, *, skip_damaged: bool) -> tuple[Command, ...]:
    """Return the open commands. Raises `StreamDamaged`, unless `skip_damaged` leaves out the damaged ones."""
    commands: list[Command] = []
    with Reading(name, "the inbox"):
        found = db.execute(
            "SELECT inbox.key, inbox.kind, inbox.body, inbox.at, inbox.node FROM stream"
            " JOIN inbox ON inbox.stream_id = stream.id AND inbox.open = 1"
            " WHERE stream.name = ? ORDER BY inbox.id",
            (name,),
        ).fetchall()
        for key, *others in found:
            try:
                with Reading(name, f"command {shown(key)}"):
                    commands.append(rows.command(name, key, *others))
            except StreamDamaged:
                if not skip_damaged:
                    raise
    return tuple(commands)


def reply(db: sqlite3.Connection, name: str, key: str) -> Json | None:
    """Return the reply to a command, or its refusal; None if it has none yet.

    Raises:
        UnknownStream, UnknownCommand, StreamDamaged
    """
    found = db.execute(
        "SELECT inbox.key, inbox.reply FROM stream"
        " LEFT JOIN inbox ON inbox.stream_id = stream.id AND inbox.key = ? WHERE stream.name = ?",
        (key, name),
    ).fetchone()
    if found is None:
        raise UnknownStream(f"stream {name!r} does not exist")
    if found[0] is None:
        raise UnknownCommand(f"stream {name!r} has no command {key!r}")
    with Reading(name, f"the reply to {shown(key)}"):
        return None if found[1] is None else rows.object_of(found[1])


def open_keys(db: sqlite3.Connection, stream_id: int) -> tuple[str, ...]:
    found = db.execute("SELECT key FROM inbox WHERE stream_id = ? AND open = 1 ORDER BY id", (stream_id,))
    return tuple(key for (key,) in found if isinstance(key, str))
