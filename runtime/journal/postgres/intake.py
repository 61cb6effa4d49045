"""Commands and decisions: the transactions that put a command into an inbox.

Both are two round trips. The first locks the row of the stream and reads what the rules of `summary.py` and
`vote.py` need; the second writes, and commits. No other writer of the stream comes between the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs

from ... import json_text
from .. import rows
from .. import vote as votes
from ..errors import JournalUnavailable, Reading, needs_newer
from ..protocol import (
    Accepted,
    DecisionOutcome,
    DeliveryOutcome,
    Json,
    KeyReused,
    NewCommand,
    NotAccepted,
    Repeated,
)
from ..question import Unknown, Won
from ..summary import is_full
from ..vote import Vote, Voted
from .owners import OTHER_LIVES, OwnMember, newest
from .reads import QUESTION, question
from .tables import Connection, sql

_HEAD = "SELECT id, last_seq, status, work, demands, journal_now() FROM stream"
_KNOWN = "SELECT kind, body, reply FROM inbox WHERE stream = ({}) AND key = %(key)s AND open <> 2"
_KINDS = "SELECT kind FROM inbox WHERE stream = ({}) AND open = 1"
_BY_NAME = "SELECT id FROM stream WHERE name = %(stream)s"
_BY_QUESTION = "SELECT stream FROM question WHERE id = %(question)s"

_CREATE = """INSERT INTO stream (name, created, updated) VALUES (%(stream)s, journal_now(), journal_now())
    ON CONFLICT (name) DO NOTHING"""
# A refused command has given its key back. The new one is the last in the inbox.
_PUT = """INSERT INTO inbox (stream, key, kind, body, at, node)
    VALUES (%(id)s, %(key)s, %(kind)s, %(body)s, journal_now(), %(node)s)
    ON CONFLICT (stream, key) DO UPDATE SET id = DEFAULT, kind = excluded.kind, body = excluded.body,
    at = excluded.at, node = excluded.node, open = 1, reply = NULL"""
_FOLLOW = f"""UPDATE stream SET node = %(node)s, epoch = nextval('epoch')
    WHERE id = %(id)s AND demands <= %(version)s AND node IS DISTINCT FROM %(node)s
    AND (%(at_rest)s OR NOT {OTHER_LIVES})"""


@attrs.frozen
class _Locked:
    """A stream whose row this transaction has locked."""

    id: int
    last_seq: int
    status: str
    work: int
    demands: int
    now: float
    known: tuple[Any, ...] | None
    """The first command with the same key."""
    kinds: Sequence[str]
    """The kinds of the open commands."""

    @property
    def starts(self) -> bool:
        """Whether the first command in the inbox is about to be executed."""
        return self.last_seq > 0 and not self.work


def deliver(db: Connection, member: OwnMember, new: NewCommand, text: str) -> DeliveryOutcome:
    """`text`: of the body."""
    values = {"stream": new.stream, "key": new.key}
    with db.pipeline():
        db.execute("BEGIN")
        if new.new:
            db.execute(_CREATE, values)
        read = _lock(db, "name = %(stream)s", _BY_NAME, values)
    kept = read()
    if kept is None:
        if new.new:
            raise JournalUnavailable(f"stream {new.stream!r} was deleted while it was created")
        return NotAccepted("unknown_stream")

    def is_same(kind: str, body: str) -> bool:
        return kind == new.kind and json_text.same(body, text)

    refused = _repeated(new.stream, new.key, kept, is_same) or _refused(kept, new)
    if refused is None:
        _check_version(db, member, new.stream, kept)
        with db.pipeline():
            _put(db, member, kept, new.key, new.kind, text, follow=new.follow)
            db.execute("COMMIT")
    return refused or Accepted()


def decide(
    db: Connection,
    member: OwnMember,
    id: str,
    decision: Json,
    adds: Json,
    key: str,
    vote: Vote | None,
    *,
    follow: bool,
) -> DecisionOutcome:
    values = {"question": id, "key": key}
    with db.pipeline():
        db.execute("BEGIN")
        read = _lock(db, f"id = ({_BY_QUESTION})", _BY_QUESTION, values)
        found = db.execute(f"{QUESTION} WHERE question.id = %(question)s", values)
    kept, row = read(), found.fetchone()
    if kept is None or row is None:
        return Unknown()
    asked = question(row)

    def is_same(kind: str, body: str) -> bool:
        return votes.is_repeat(kind, rows.object_of(body), id, decision)

    if known := _repeated(asked.stream, key, kept, is_same):
        return known
    result = votes.outcome(asked, {**decision, **adds}, vote, kept.now)
    if isinstance(result, Won | Voted):
        _check_version(db, member, asked.stream, kept)
        new = result.question
        kind, body = votes.command(result, decision, adds, vote)
        with db.pipeline():
            db.execute(
                "UPDATE question SET state = %s, decision = %s, settled = %s, votes = %s WHERE id = %s",
                (
                    new.state,
                    None if new.decision is None else json_text.dump(new.decision),
                    new.settled,
                    rows.text_of_votes(new.votes),
                    id,
                ),
            )
            _put(db, member, kept, key, kind, json_text.dump(body), follow=follow)
            db.execute("COMMIT")
    return result


def _lock(db: Connection, condition: str, id: str, values: dict[str, str]) -> Callable[[], _Locked | None]:
    """Lock a stream in a pipeline, and return a function that reads the result after it. `id` is a query."""
    # The statements after the first see what the transactions have written that it waited for.
    head = db.execute(sql(f"{_HEAD} WHERE {condition} FOR NO KEY UPDATE"), values)
    known = db.execute(sql(_KNOWN.format(id)), values)
    kinds = db.execute(sql(_KINDS.format(id)), values)

    def read() -> _Locked | None:
        found = head.fetchone()
        if found is None:
            return None
        id, last_seq, status, work, demands, now = found
        waiting = [kind for (kind,) in kinds]
        return _Locked(id, last_seq, status, work, demands, now, known.fetchone(), waiting)

    return read


def _repeated(
    stream: str, key: str, kept: _Locked, is_same: Callable[[str, str], bool]
) -> Repeated | KeyReused | None:
    if kept.known is None:
        return None
    kind, body, reply = kept.known
    with Reading(stream, f"command {key}"):
        if is_same(kind, body):
            return Repeated(None if reply is None else rows.object_of(reply))
    return KeyReused()


def _refused(kept: _Locked, new: NewCommand) -> NotAccepted | None:
    if kept.status in new.unless:
        return NotAccepted("status", kept.status)
    if not new.not_behind.isdisjoint(kept.kinds):
        return NotAccepted("behind")
    if is_full(new.limit, kept.kinds.count(new.kind), starts=kept.starts):
        return NotAccepted("full")
    return None


def _check_version(db: Connection, member: OwnMember, stream: str, kept: _Locked) -> None:
    """Raises `NeedsNewer`."""
    if kept.demands > member.version and kept.demands > newest(db, member):
        raise needs_newer(stream, kept.demands)


def _put(
    db: Connection, member: OwnMember, kept: _Locked, key: str, kind: str, body: str, *, follow: bool
) -> None:
    """Add a command whose key is free, and claim the stream, if `follow` says so and it can be claimed."""
    values = {"id": kept.id, "key": key, "kind": kind, "body": body, "node": member.name}
    db.execute(_PUT, values)
    if follow:
        at_rest = kept.work != rows.OPEN and not kept.kinds
        db.execute(_FOLLOW, {**values, "version": member.version, "at_rest": at_rest})
