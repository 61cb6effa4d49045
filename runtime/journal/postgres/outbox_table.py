"""The table of the outbox."""

from __future__ import annotations

from collections.abc import Sequence

from ..outbox import OutboxRow, outbox_row
from .tables import Connection

ADD = "INSERT INTO outbox (body, at) SELECT body, journal_now() FROM unnest(%s::text[]) AS given (body)"
"""Adds the result of `outbox_texts`."""


def read(db: Connection, limit: int) -> Sequence[OutboxRow]:
    found = db.execute("SELECT id, body, at FROM outbox ORDER BY id LIMIT %s", (limit,))
    return [outbox_row(*row) for row in found]


def drop(db: Connection, numbers: Sequence[int]) -> None:
    db.execute("DELETE FROM outbox WHERE id = ANY(%s::bigint[])", (list(numbers),))
