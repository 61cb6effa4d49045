"""The rows that a copy of a journal has: all of a store but the owners of streams, and counters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeAlias

import attrs

CopiedRow: TypeAlias = tuple[Any, ...]

COLUMNS: Mapping[str, str] = {
    "stream": "id, name, status, title, folded_title, open, body, owner, last_seq, created, updated, demands",
    "event": "stream_id, seq, type, at, body",
    "inbox": "id, stream_id, key, kind, body, at, node, open, reply",
    "question": "number, id, stream_id, kind, state, body, decision, created, expires, settled, votes",
    "intent": "stream_id, key, attempt, effect, state, body",
    "note": "kind, key, body",
    "outbox": "id, body, at",
}
"""The tables in the order in which they are copied. The columns have their names in SQLite."""


@attrs.frozen
class LivingMember:
    """A member whose lease has not run out."""

    name: str
    about: str
    """A text about the process, which it gave itself."""
    seconds: float
    """Seconds until its lease runs out."""


class CopiedRows(Protocol):
    """The rows of a store, read or written in one transaction. No operation has all rows in memory."""

    def living(self) -> Sequence[LivingMember]:
        """The members that work with the store. A directory has none, because the copy has locked it."""
        ...

    def count(self, table: str) -> int:
        """The number of rows."""
        ...

    def read(self, table: str) -> AbstractContextManager[Iterator[CopiedRow]]:
        """All rows, in any order. A text that is none comes as bytes."""
        ...

    def write(self, table: str, rows: Iterable[CopiedRow]) -> None:
        """Write the rows of a table, which is empty."""

    def name(self, stream: int) -> str:
        """The name of the stream with this id."""
        ...

    def complete(self) -> None:
        """Write the counters that a store keeps beside the rows. All rows have been written."""
