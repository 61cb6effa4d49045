"""Intents in SQL: work that was begun, and how it ended."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from stopgo.runtime.journal.errors import IntentExists, JournalError
from stopgo.runtime.journal.protocol import NewIntent, SettleIntent


def begin(db: sqlite3.Connection, stream_id: int, intents: Sequence[tuple[NewIntent, str]]) -> None:
    """Write down intents, each with the text of its body."""
    for intent, body in intents:
        made = db.execute(
            "INSERT OR IGNORE INTO intent (stream_id, key, attempt, effect, body) VALUES (?, ?, ?, ?, ?)",
            (stream_id, intent.key, intent.attempt, intent.effect, body),
        )
        if made.rowcount == 0:
            raise IntentExists(f"attempt {intent.attempt} of {intent.key!r} was begun before")


def settle(db: sqlite3.Connection, stream_id: int, ends: Sequence[SettleIntent]) -> None:
    for end in ends:
        changed = db.execute(
            "UPDATE intent SET state = ? WHERE stream_id = ? AND key = ? AND attempt = ?",
            (end.state, stream_id, end.key, end.attempt),
        )
        if changed.rowcount == 0:
            raise JournalError(f"attempt {end.attempt} of {end.key!r} was never begun")
