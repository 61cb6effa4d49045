"""Passages of the journal on PostgreSQL."""

from __future__ import annotations

from .. import passage as module
from ..passage import MOST_STREAMS, Passage, PassagePlace, WantedEvents, passage, spans
from .tables import Connection

_ROWS = """SELECT stream, seq, type, at, body, total FROM (
    SELECT part.stream, seq, type, at, body, count(*) OVER () AS total,
        sum(octet_length(body)) OVER (ORDER BY part.stream DESC, seq ROWS UNBOUNDED PRECEDING)
            - octet_length(body) AS before
    FROM unnest(%s::bigint[], %s::bigint[], %s::bigint[]) AS part (stream, after, until)
    JOIN event ON event.stream = part.stream AND seq > part.after AND seq <= part.until
    WHERE type = ANY(%s::text[]) OR %s::text[] <> '{}' AND type <> ALL(%s::text[])) AS chosen
    WHERE before < %s ORDER BY stream DESC, seq"""


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
    known = list(wanted.known)
    wishes = (*columns, list(wanted.types), known, known, module.MOST_BYTES)
    rows = db.execute(_ROWS, wishes).fetchall()
    return passage(chosen, next, [row[:5] for row in rows], bool(rows) and len(rows) < rows[0][5])
