"""Passages of the journal on PostgreSQL."""

from __future__ import annotations

from ..passage import MOST_STREAMS, Passage, PassagePlace, WantedEvents, passage, spans
from .tables import Connection

_ROWS = """SELECT part.stream, seq, type, at, body
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS part (stream, after, until)
    JOIN event ON event.stream = part.stream AND seq > part.after AND seq <= part.until
    WHERE type = ANY(%s::text[]) ORDER BY part.stream DESC, seq"""


def read(db: Connection, wanted: WantedEvents, at: PassagePlace | None) -> Passage:
    """The next passage."""
    heads = db.execute(
        "SELECT id, name, last_seq FROM stream WHERE id <= %s AND id %% %s = %s AND updated >= %s"
        " AND last_seq <> 0 ORDER BY id DESC LIMIT %s",
        (2**63 - 1 if at is None else at.stream, wanted.of, wanted.part, wanted.since, MOST_STREAMS),
    ).fetchall()
    if not heads:
        return Passage((), None)
    chosen, next = spans(heads, at)
    columns = [[getattr(each, name) for each in chosen] for name in ("stream", "after", "until")]
    return passage(chosen, next, db.execute(_ROWS, (*columns, list(wanted.types))))
