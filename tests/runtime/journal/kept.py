"""Rows that journals must hold although no part of the product reads them back."""

from __future__ import annotations

import sqlite3
from typing import Any

from stopgo.runtime import json_text
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.memory.memory_stream import Intent
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.postgres.journal import PostgresJournal
from stopgo.runtime.journal.protocol import Journal, Json
from stopgo.runtime.journal.question import Question
from stopgo.runtime.journal.sqlite.sqlite_journal import SqliteJournal
from stopgo.runtime.journal.summary import Row


async def claimed(journal: Journal, stream: str) -> Fence:
    """The fence of a stream that is free."""
    fence = await journal.claim(stream)
    assert isinstance(fence, Fence), fence
    return fence


async def row_of(journal: Journal, stream: str) -> Row:
    """The row of a stream that exists."""
    row = await journal.row(stream)
    assert row is not None
    return row


async def question_of(journal: Journal, id: str) -> Question:
    """A question that exists."""
    question = await journal.question(id)
    assert question is not None
    return question


async def intents_of(journal: Journal, stream: str) -> tuple[Intent, ...]:
    """The intents of a stream, in the order they were begun."""
    match _store(journal):
        case MemoryJournal() as store:
            kept = store._streams.get(stream)
            return tuple(kept.intents.values()) if kept else ()
        case SqliteJournal() as store:
            found = await _select(
                store,
                "SELECT key, attempt, effect, intent.state, intent.body FROM intent"
                " JOIN stream ON stream.id = stream_id WHERE name = ? ORDER BY intent.id",
                stream,
            )
            return tuple(
                Intent(key, attempt, effect, state, json_text.load(body))
                for key, attempt, effect, state, body in found
            )
        case PostgresJournal() as store:
            found = await _fetch(
                store,
                "SELECT key, attempt, effect, intent.state, intent.body FROM intent"
                " JOIN stream ON stream.id = stream WHERE name = %s ORDER BY key, attempt",
                stream,
            )
            return tuple(
                Intent(key, attempt, effect, state, json_text.load(body))
                for key, attempt, effect, state, body in found
            )
        case other:
            raise TypeError(other)


async def reply_of(journal: Journal, stream: str, key: str) -> Json | None:
    """The reply to a command, if it has one."""
    match _store(journal):
        case MemoryJournal() as store:
            kept = store._streams.get(stream)
            return kept.inbox[key].reply if kept and key in kept.inbox else None
        case SqliteJournal() as store:
            found = await _select(
                store,
                "SELECT reply FROM inbox JOIN stream ON stream.id = stream_id"
                " WHERE name = ? AND key = ? AND reply IS NOT NULL",
                stream,
                key,
            )
            return json_text.load(found[0][0]) if found else None
        case PostgresJournal() as store:
            found = await _fetch(
                store,
                "SELECT reply FROM inbox JOIN stream ON stream.id = stream"
                " WHERE name = %s AND key = %s AND reply IS NOT NULL",
                stream,
                key,
            )
            return json_text.load(found[0][0]) if found else None
        case other:
            raise TypeError(other)


def _store(journal: Journal) -> object:
    """The store itself, below what tests put around it."""
    below = getattr(journal, "_journal", None)
    return journal if below is None else _store(below)


async def _select(store: SqliteJournal, query: str, *values: str) -> list[tuple[Any, ...]]:
    def run(db: sqlite3.Connection) -> list[tuple[Any, ...]]:
        return db.execute(query, values).fetchall()

    return await store._reader.quick(run)


async def _fetch(store: PostgresJournal, query: str, *values: str) -> list[tuple[Any, ...]]:
    return await store._pool.run(lambda db: db.execute(query, values).fetchall())
