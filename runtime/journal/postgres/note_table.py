"""Notes, and their revisions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .tables import Connection


def read(db: Connection, kind: str, after: int) -> Mapping[str, str]:
    found = db.execute(
        "SELECT key, body FROM note WHERE kind = %s AND (%s = 0 OR revision > %s)", (kind, after, after)
    )
    return dict(found.fetchall())


def revisions(db: Connection) -> Mapping[str, int]:
    return dict(db.execute("SELECT kind, revision FROM note_kind").fetchall())


def write(
    db: Connection, kind: str, texts: Mapping[str, str], at: int | None, told: Sequence[str] = ()
) -> bool:
    """See `Journal.write_notes`."""
    written = db.execute(
        """WITH next AS (
            INSERT INTO note_kind SELECT %(kind)s, 1 WHERE coalesce(%(at)s, 0) = 0 OR EXISTS
                (SELECT FROM note_kind WHERE kind = %(kind)s)
            ON CONFLICT (kind) DO UPDATE SET revision = note_kind.revision + 1
                WHERE coalesce(%(at)s, note_kind.revision) = note_kind.revision
            RETURNING revision
        ), written AS (
            INSERT INTO note SELECT %(kind)s, key, body, revision
                FROM next, unnest(%(keys)s::text[], %(bodies)s::text[]) AS given (key, body)
            ON CONFLICT (kind, key) DO UPDATE SET body = excluded.body, revision = excluded.revision
        ), told AS (
            INSERT INTO outbox (body, at) SELECT body, journal_now()
                FROM next, unnest(%(told)s::text[]) AS given (body)
        ) SELECT FROM next""",
        {"kind": kind, "at": at, "keys": list(texts), "bodies": list(texts.values()), "told": list(told)},
    )
    return written.rowcount == 1


def take(db: Connection, kind: str, key: str) -> Sequence[str]:
    """Delete a note, and return its body."""
    taken = db.execute("DELETE FROM note WHERE kind = %s AND key = %s RETURNING body", (kind, key))
    return [body for (body,) in taken]
