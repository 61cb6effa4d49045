"""Deliveries, claims and releases as parts of a group: each is a statement of its own. Pure.

A group locks the rows of its streams first, and passes over those that others have locked. Each statement
after that sees what was committed before the lock, so its conditions are exact. It returns a row if the
operation is done. If not, the code for one, in `intake.py` and `owners.py`, finds out why.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import attrs

from ..ownership import Fence
from ..protocol import NewCommand
from .binary import ArgumentType, BinaryQuery, query
from .owners import OwnMember

_CREATE = """INSERT INTO stream (name, created, updated) SELECT name, journal_now(), journal_now()
    FROM unnest($1) AS name ORDER BY name ON CONFLICT (name) DO NOTHING"""
_LOCK = """SELECT set_config('stopgo.locked', ',' || coalesce(string_agg(id::text, ','), '') || ',', true)
    FROM (SELECT id FROM stream WHERE name = ANY($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED) AS locked"""
_LOCKED = "strpos(current_setting('stopgo.locked'), ',' || stream.id || ',') > 0"
"""Whether the group has locked the row. A text, because the list would be parsed in each statement."""
_OTHER_LIVES = """EXISTS (SELECT FROM node AS other
    WHERE other.name = stream.node AND other.name <> $1 AND other.until > journal_now())"""

# As `intake.deliver`.
_DELIVER = f"""WITH kept AS MATERIALIZED (SELECT id, work,
        EXISTS (SELECT FROM inbox WHERE inbox.stream = stream.id AND open = 1) AS waits
    FROM stream WHERE name = $3 AND {_LOCKED} AND demands <= $2 AND status <> ALL($8)
    AND NOT EXISTS (SELECT FROM inbox WHERE inbox.stream = stream.id AND inbox.key = $4 AND open <> 2)
    AND NOT EXISTS (SELECT FROM inbox
        WHERE inbox.stream = stream.id AND open = 1 AND inbox.kind = ANY($9))
    AND ($7 IS NULL OR (SELECT count(*) FROM inbox
        WHERE inbox.stream = stream.id AND open = 1 AND inbox.kind = $5)
        < $7 + CASE WHEN $7 > 0 AND last_seq > 0 AND work = 0 THEN 1 ELSE 0 END)),
put AS (INSERT INTO inbox (stream, key, kind, body, at, node)
    SELECT id, $4, $5, $6, journal_now(), $1 FROM kept
    ON CONFLICT (stream, key) DO UPDATE SET id = DEFAULT, kind = excluded.kind, body = excluded.body,
    at = excluded.at, node = excluded.node, open = 1, reply = NULL),
followed AS (UPDATE stream SET node = $1, epoch = nextval('epoch') FROM kept
    WHERE $10 AND stream.id = kept.id AND stream.node IS DISTINCT FROM $1
    AND ((kept.work <> 1 AND NOT kept.waits) OR NOT {_OTHER_LIVES}))
SELECT id FROM kept"""

# As `owners.claim`.
_CLAIM = f"""UPDATE stream SET node = $1, epoch = nextval('epoch')
    WHERE name = $3 AND {_LOCKED} AND demands <= $2 AND NOT {_OTHER_LIVES} RETURNING epoch"""

# As `owners.release`.
_RELEASE = f"""UPDATE stream SET node = NULL WHERE name = $1 AND {_LOCKED} AND node = $2 AND epoch = $3
    AND NOT EXISTS (SELECT FROM inbox WHERE inbox.stream = stream.id AND open = 1 AND key <> ALL($4))
    RETURNING id"""

_Argument: TypeAlias = tuple[ArgumentType, Any]


@attrs.frozen
class GroupedWrite:
    stream: str
    query: BinaryQuery
    """Returns a row with a number if it is done."""
    size: int
    """In bytes."""
    creates: bool
    """Whether a missing stream is created."""


def deliver(member: OwnMember, new: NewCommand, text: str) -> GroupedWrite | None:
    """`text`: of the body. None: it is nothing for a group, like the functions below."""
    if new.new and (new.limit == 0 or "" in new.unless):
        return None  # a stream that is created for it would stay
    return _write(
        new.stream,
        _DELIVER,
        [
            *_of_member(member, new.stream),
            ("text", new.key),
            ("text", new.kind),
            ("text", text),
            ("int8", new.limit),
            ("text[]", sorted(new.unless)),
            ("text[]", sorted(new.not_behind)),
            ("bool", new.follow),
        ],
        creates=new.new,
    )


def claim(member: OwnMember, stream: str) -> GroupedWrite | None:
    """Its number is the epoch."""
    return _write(stream, _CLAIM, _of_member(member, stream))


def release(fence: Fence, leave: Collection[str]) -> GroupedWrite | None:
    values: Sequence[_Argument] = (
        ("text", fence.stream),
        ("text", fence.owner),
        ("int8", fence.epoch),
        ("text[]", list(leave)),
    )
    return _write(fence.stream, _RELEASE, values)


def statements(group: Sequence[GroupedWrite]) -> list[BinaryQuery]:
    """Those of a group, of which the last are those of the writes. Streams are created in the order of their
    names, and before any is locked, so that two groups never wait for each other."""
    created = sorted({each.stream for each in group if each.creates})
    locked = sorted({each.stream for each in group})
    first = [query(_CREATE, ("text[]", created))] if created else []
    return [*first, query(_LOCK, ("text[]", locked)), *(each.query for each in group)]


def _of_member(member: OwnMember, stream: str) -> Sequence[_Argument]:
    return ("text", member.name), ("int8", member.version), ("text", stream)


def _write(
    stream: str, text: str, values: Sequence[_Argument], *, creates: bool = False
) -> GroupedWrite | None:
    try:
        made = query(text, *values)
    except (UnicodeEncodeError, struct.error):  # a lone surrogate, a number that is too large
        return None
    return GroupedWrite(stream, made, sum(len(each) for each in made.values if each is not None), creates)
