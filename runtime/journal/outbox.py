"""The outbox of a journal: rows about changes that somebody wants to hear of.

A row is written in the commit of the change, so it exists exactly if the change does. Whoever tells of the
changes reads the rows, stores what follows from them, and drops them. The journal does not interpret bodies.

Rows are taken because they are there, never by a cursor over their numbers: a number is given before its
commit, so a row with a lower number can appear later.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import attrs

from .. import json_text


@attrs.frozen
class OutboxRow:
    number: int
    """Unique in the journal."""
    body: Mapping[str, Any] | None
    """None if it is damaged."""
    at: float
    """The time of the commit; 0 if it is damaged."""


class Outbox(Protocol):
    """The part of a journal that has the outbox. `Commit`, `Journal.delete` and `write_notes` add rows."""

    async def outbox(self, limit: int) -> Sequence[OutboxRow]:
        """Return at most `limit` rows. The rows of one stream come in the order of their commits."""
        ...

    async def drop_outbox(self, numbers: Sequence[int]) -> None:
        """Delete rows. Those that do not exist are ignored."""
        ...


def outbox_texts(bodies: Iterable[Mapping[str, Any]]) -> Sequence[str]:
    """The stored form of bodies."""
    return [json_text.dump(body) for body in bodies]


def outbox_row(number: int, text: str, at: object) -> OutboxRow:
    """Convert a stored row."""
    try:
        body = json_text.load(text)
    except ValueError:
        body = None
    when = at if isinstance(at, float) else 0.0
    return OutboxRow(number, body if isinstance(body, dict) else None, when)
