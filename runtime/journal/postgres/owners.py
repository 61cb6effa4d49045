"""Members and the streams that they own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from ..errors import Fenced, UnknownStream
from ..ownership import Fence, Fleet, Member, Owned, Renewed
from . import outbox_table
from .tables import Connection

_FORGOTTEN = 3600.0
"""Seconds after which a member whose lease has run out is deleted."""

OTHER_LIVES = """EXISTS (SELECT FROM node AS other WHERE other.name = stream.node
    AND other.name <> %(node)s AND other.until > journal_now())"""
"""Whether another member owns a stream."""


@attrs.frozen
class OwnMember:
    """This member."""

    name: str
    version: int
    about: str


_LOCK = "SELECT id FROM stream WHERE name = %(stream)s FOR NO KEY UPDATE"
"""The statement after it sees what the transactions have written that it waited for."""
_OWNED = "name = %(stream)s AND node = %(node)s AND epoch = %(epoch)s"


def _values(fence: Fence) -> dict[str, object]:
    return {"stream": fence.stream, "node": fence.owner, "epoch": fence.epoch}


def claim(db: Connection, member: OwnMember, stream: str) -> Fence | Owned:
    values = {"stream": stream, "node": member.name, "version": member.version}
    with db.pipeline():
        db.execute(_LOCK, values)
        taken = db.execute(
            "UPDATE stream SET node = %(node)s, epoch = nextval('epoch')"
            f" WHERE name = %(stream)s AND demands <= %(version)s AND NOT {OTHER_LIVES} RETURNING epoch",
            values,
        )
        found = db.execute("SELECT node, demands FROM stream WHERE name = %(stream)s", values)
    if (epoch := taken.fetchone()) is not None:
        return Fence(stream, member.name, epoch[0])
    row = found.fetchone()
    if row is None:
        raise UnknownStream(f"stream {stream!r} does not exist")
    owner, demands = row
    return Owned("" if demands > member.version else owner)


def release(db: Connection, fence: Fence, leave: list[str]) -> bool | None:
    """Whether the stream was given up; None if the fence is not valid."""
    values = _values(fence) | {"leave": leave}
    with db.pipeline():
        db.execute(_LOCK, values)
        owned = db.execute(f"SELECT FROM stream WHERE {_OWNED}", values)
        released = db.execute(
            f"UPDATE stream SET node = NULL WHERE {_OWNED} AND NOT EXISTS (SELECT FROM inbox"
            " WHERE inbox.stream = stream.id AND open = 1 AND key <> ALL(%(leave)s::text[]))",
            values,
        )
    return released.rowcount == 1 if owned.rowcount else None


def delete(db: Connection, fence: Fence, told: Sequence[str]) -> tuple[str, ...]:
    with db.pipeline():
        db.execute("BEGIN")
        found = db.execute(
            "SELECT id, node, epoch FROM stream WHERE name = %(stream)s FOR UPDATE", {"stream": fence.stream}
        )
    locked = found.fetchone()
    if locked is None:
        return ()
    id, member, epoch = locked
    if (member, epoch) != (fence.owner, fence.epoch):
        raise Fenced(f"stream {fence.stream!r} was claimed by another owner")
    with db.pipeline():
        waiting = db.execute("SELECT key FROM inbox WHERE stream = %s AND open = 1 ORDER BY id", (id,))
        db.execute("DELETE FROM event WHERE stream = %s", (id,))
        db.execute("DELETE FROM inbox WHERE stream = %s", (id,))
        db.execute("DELETE FROM question WHERE stream = %s", (id,))
        db.execute("DELETE FROM intent WHERE stream = %s", (id,))
        db.execute("DELETE FROM stream WHERE id = %s", (id,))
        if told:
            db.execute(outbox_table.ADD, (list(told),))
        db.execute("COMMIT")
    return tuple(key for (key,) in waiting)


def renew(db: Connection, member: OwnMember, lease: float) -> Renewed:
    with db.pipeline():
        renewed = db.execute(
            "INSERT INTO node (name, about, until, version) VALUES (%s, %s, journal_now() + %s, %s)"
            " ON CONFLICT (name) DO UPDATE SET until = excluded.until RETURNING journal_now()",
            (member.name, member.about, lease, member.version),
        )
        db.execute("DELETE FROM node WHERE until < journal_now() - %s", (_FORGOTTEN,))
    ((now,),) = renewed.fetchall()
    return Renewed(lease, now)


def newest(db: Connection, member: OwnMember) -> int:
    """The highest version of this member and of the living members."""
    ((version,),) = db.execute(
        "SELECT greatest(%s, max(version)) FROM node WHERE until > journal_now()", (member.version,)
    ).fetchall()
    return int(version)


def need_newer(db: Connection, member: OwnMember) -> int:
    demanded = db.execute("SELECT count(*) FROM stream WHERE demands > %s", (newest(db, member),))
    ((count,),) = demanded.fetchall()
    return int(count)


_BUSY = "(work = 1 OR EXISTS (SELECT FROM inbox WHERE inbox.stream = stream.id AND inbox.open = 1))"


def fleet(db: Connection, member: OwnMember) -> Fleet:
    waiting = need_newer(db, member)
    with db.pipeline():
        store = db.execute(
            "SELECT split_part(current_setting('server_version'), ' ', 1),"
            " current_setting('synchronous_standby_names')"
        )
        unowned = db.execute(
            """SELECT count(*) FROM stream WHERE node IS NULL AND id IN
            (SELECT id FROM stream WHERE work = 1 UNION SELECT stream FROM inbox WHERE open = 1)"""
        )
        members = db.execute(
            f"""SELECT node.name, about, greatest(0, until - journal_now()),
                coalesce(streams, 0), coalesce(busy, 0)
            FROM node LEFT JOIN (
                SELECT node AS name, count(*) AS streams, count(*) FILTER (WHERE {_BUSY}) AS busy
                FROM stream WHERE node IS NOT NULL GROUP BY node
            ) AS owned USING (name)
            WHERE until > journal_now() OR busy > 0 ORDER BY node.name"""
        )
    ((version, standbys),), ((count,),) = store.fetchall(), unowned.fetchall()
    return Fleet(f"PostgreSQL {version}", standbys, count, waiting, [Member(*each) for each in members])


def living(db: Connection) -> Mapping[str, float]:
    return dict(db.execute("SELECT name, until FROM node WHERE until > journal_now()").fetchall())


def owners(db: Connection, streams: list[str]) -> Mapping[str, str]:
    found = db.execute(
        "SELECT stream.name, node.name FROM stream JOIN node ON node.name = stream.node"
        " WHERE stream.name = ANY(%s::text[]) AND until > journal_now()",
        (streams,),
    )
    return dict(found.fetchall())
