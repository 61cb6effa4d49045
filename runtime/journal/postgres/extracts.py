"""The table of extracts.

Unlike the others it has a foreign key, because members of earlier versions delete streams and do not know it.
"""

from __future__ import annotations

from ..ownership import Fence
from ..stream_extract import Extract, extract_of
from .tables import Connection


def keep(db: Connection, fence: Fence, extract: Extract) -> None:
    db.execute(
        "INSERT INTO extract (stream, seq, form, body) SELECT id, %(seq)s, %(form)s, %(text)s FROM stream"
        " WHERE name = %(stream)s AND node = %(node)s AND epoch = %(epoch)s AND last_seq >= %(seq)s"
        " ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, form = excluded.form, body = excluded.body",
        {
            "stream": fence.stream,
            "node": fence.owner,
            "epoch": fence.epoch,
            "seq": extract.seq,
            "form": extract.form,
            "text": extract.text,
        },
    )


def read(db: Connection, stream: str, form: str) -> Extract | None:
    found = db.execute(
        "SELECT seq, form, extract.body FROM stream JOIN extract ON extract.stream = stream.id"
        " WHERE name = %s AND form = %s AND seq <= last_seq",
        (stream, form),
    ).fetchone()
    return extract_of(found)
