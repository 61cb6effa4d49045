"""`Journal.save` as one statement, which is one round trip and one transaction.

Its first part changes the row of the stream if the fence and the seq are right, and thereby locks it. The
other parts read the id of the stream from the first: without it, they do nothing. They all see the database
as it was when the statement began, so no row may be changed by two of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import psycopg

from ... import json_text
from .. import repeated_save, rows
from ..errors import Fenced, IntentExists, JournalError, QuestionTaken, UnknownStream
from ..ownership import Fence
from ..protocol import REFUSAL_SECONDS, Commit, Json, NewEvent, NewIntent, Saved, SettleIntent
from ..question import CloseQuestion, NewQuestion
from ..summary import Summary
from . import reads
from .tables import NOT_BEGUN, NOT_PENDING, Connection, sql

_STREAM = """done AS (UPDATE stream SET saved = epoch, demands = greatest(demands, %(version)s){}
    WHERE name = %(stream)s AND node = %(node)s AND epoch = %(epoch)s AND last_seq = %(expected)s
    RETURNING id)"""
_EVENTS = """, last_seq = %(last)s, updated = greatest(updated, %(latest)s,
    CASE WHEN %(is_new)s THEN journal_now() ELSE 0 END)"""
_SUMMARY = """, status = %(status)s, title = %(title)s, folded_title = %(folded)s, work = %(work)s,
    body = %(body)s, owner = %(owner)s"""
_APPEND = """appended AS (INSERT INTO event (stream, seq, type, at, body)
    SELECT done.id, %(expected)s + place, type, coalesce(at, journal_now()), body
    FROM done, unnest(%(types)s::text[], %(ats)s::float8[], %(bodies)s::text[])
    WITH ORDINALITY AS new (type, at, body, place))"""
_BEGIN = """begun AS (INSERT INTO intent (stream, key, attempt, effect, body)
    SELECT done.id, key, attempt, effect, body FROM done, unnest(%(begun)s::text[], %(attempts)s::int[],
    %(effects)s::text[], %(works)s::text[]) AS new (key, attempt, effect, body))"""
_SETTLE = """settled AS (UPDATE intent SET state = ended.state
    FROM done, unnest(%(settled)s::text[], %(ended)s::int[], %(ends)s::text[])
    AS ended (key, attempt, state) WHERE intent.stream = done.id
    AND intent.key = ended.key AND intent.attempt = ended.attempt RETURNING 1)"""
_ASK = """asked AS (INSERT INTO question (id, stream, kind, body, created, expires)
    SELECT new.id, done.id, kind, body, journal_now(), expires FROM done, unnest(%(asked)s::text[],
    %(kinds)s::text[], %(subjects)s::text[], %(expires)s::float8[]) AS new (id, kind, body, expires))"""
_CLOSE = """closed AS (UPDATE question SET state = closed.state, patch = closed.patch, settled = journal_now()
    FROM done, unnest(%(closed)s::text[], %(states)s::text[], %(patches)s::text[])
    AS closed (id, state, patch)
    WHERE question.id = closed.id AND stream = done.id AND question.state = 'pending' RETURNING 1)"""
# The first reply to a command is kept, unless it is refused.
_REPLY = """replied AS (UPDATE inbox SET open = coalesce(change.open, inbox.open),
    at = CASE WHEN change.open = 2 THEN journal_now() ELSE at END,
    reply = CASE WHEN change.open = 2 THEN change.reply ELSE coalesce(inbox.reply, change.reply) END
    FROM done, unnest(%(keys)s::text[], %(opens)s::smallint[], %(replies)s::text[])
    AS change (key, open, reply) WHERE stream = done.id AND inbox.key = change.key)"""
_FORGET = f"""forgotten AS (DELETE FROM inbox USING done WHERE stream = done.id AND inbox.open = 2
    AND at < journal_now() - {REFUSAL_SECONDS} AND key <> ALL(%(keys)s::text[]))"""
_REFUSE = "refuse(CASE WHEN (SELECT count(*) FROM {0}) < cardinality(%({0})s) THEN '{1}' END)"


@attrs.frozen
class Save:
    """A save as a statement, made before it waits, because the caller may change its objects then."""

    fence: Fence
    expected_seq: int
    events: Sequence[NewEvent]
    statement: str
    values: Mapping[str, Any]


def prepare(commit: Commit, version: int) -> Save:
    """`version`: that of the member."""
    fence, parts = commit.fence, _Parts()
    parts.values |= {"stream": fence.stream, "node": fence.owner, "epoch": fence.epoch}
    parts.values |= {"expected": commit.expected_seq, "version": version}
    copies = parts.append(commit.expected_seq, commit.events)
    if commit.summary is not None:
        parts.summarize(commit.summary)
    if commit.intents:
        parts.begin(commit.intents)
    if commit.settle:
        parts.settle(commit.settle)
    if asked := [each for each in commit.questions if isinstance(each, NewQuestion)]:
        parts.ask(asked)
    if closed := [each for each in commit.questions if isinstance(each, CloseQuestion)]:
        parts.close(closed)
    if replies := _replies(commit):
        parts.reply(replies, forgets=bool(commit.refuse))
    return Save(fence, commit.expected_seq, copies, parts.statement(), parts.values)


@attrs.define(eq=False)
class _Parts:
    """The parts of a statement, as they are added."""

    values: dict[str, Any] = attrs.field(factory=dict)
    _changes: str = ""
    """Of the row of the stream."""
    _others: list[str] = attrs.field(factory=list)
    _results: list[str] = attrs.field(factory=lambda: ["journal_now()"])
    _texts: dict[int, str] = attrs.field(factory=dict)

    def _text(self, body: Json) -> str:
        # The body of an intent or a question is usually that of an event of the same save.
        known = self._texts.get(id(body))
        if known is None:
            known = self._texts[id(body)] = json_text.dump(body)
        return known

    def append(self, expected_seq: int, events: Sequence[NewEvent]) -> Sequence[NewEvent]:
        """Return copies of the events, to recognize a repetition."""
        if not events:
            return ()
        bodies, given = [self._text(each.body) for each in events], [each.at for each in events]
        self.values |= {"types": [each.type for each in events], "ats": given, "bodies": bodies}
        self.values |= {"last": expected_seq + len(events), "is_new": None in given}
        self.values["latest"] = max((at for at in given if at is not None), default=0.0)
        self._changes += _EVENTS
        self._others.append(_APPEND)
        return [
            attrs.evolve(each, body=json_text.load(body)) for each, body in zip(events, bodies, strict=True)
        ]

    def summarize(self, summary: Summary) -> None:
        self.values |= {
            "status": summary.status,
            "title": json_text.dump(summary.title),
            "folded": rows.fold(summary.title),
            "work": rows.work(summary.open, summary.rests),
            "body": json_text.dump(summary.body),
            "owner": summary.owner,
        }
        self._changes += _SUMMARY

    def begin(self, intents: Sequence[NewIntent]) -> None:
        self.values |= {
            "begun": [each.key for each in intents],
            "attempts": [each.attempt for each in intents],
        }
        self.values["effects"] = [each.effect for each in intents]
        self.values["works"] = [self._text(each.body) for each in intents]
        self._others.append(_BEGIN)

    def settle(self, ends: Sequence[SettleIntent]) -> None:
        self.values |= {"settled": [each.key for each in ends], "ended": [each.attempt for each in ends]}
        self.values["ends"] = [each.state for each in ends]
        self._others.append(_SETTLE)
        self._results.append(_REFUSE.format("settled", NOT_BEGUN))

    def ask(self, questions: Sequence[NewQuestion]) -> None:
        self.values |= {"asked": [each.id for each in questions], "kinds": [each.kind for each in questions]}
        self.values["subjects"] = [self._text(each.body) for each in questions]
        self.values["expires"] = [each.expires for each in questions]
        self._others.append(_ASK)

    def close(self, questions: Sequence[CloseQuestion]) -> None:
        self.values |= {
            "closed": [each.id for each in questions],
            "states": [each.state for each in questions],
        }
        self.values["patches"] = [self._text(each.patch) for each in questions]
        self._others.append(_CLOSE)
        self._results.append(_REFUSE.format("closed", NOT_PENDING))

    def reply(self, changes: Mapping[str, tuple[int | None, Json | None]], *, forgets: bool) -> None:
        """`forgets`: delete the refusals that are old."""
        replies = [reply for _, reply in changes.values()]
        self.values |= {"keys": list(changes), "opens": [open for open, _ in changes.values()]}
        self.values["replies"] = [None if reply is None else json_text.dump(reply) for reply in replies]
        self._others += [_REPLY, _FORGET] if forgets else [_REPLY]

    def statement(self) -> str:
        parts = ", ".join([_STREAM.format(self._changes), *self._others])
        return f"WITH {parts} SELECT {', '.join(self._results)} FROM done"


def _replies(commit: Commit) -> Mapping[str, tuple[int | None, Json | None]]:
    """The new values of `open` and `reply`, by the keys of the commands; None: as before."""
    acknowledged = set(commit.ack)
    found: dict[str, tuple[int | None, Json | None]] = {
        key: (0, commit.replies.get(key)) for key in commit.ack
    }
    found |= {key: (0 if key in acknowledged else None, reply) for key, reply in commit.replies.items()}
    return found | {key: (2, reply) for key, reply in commit.refuse.items()}


def save(db: Connection, it: Save) -> Saved:
    try:
        done = db.execute(sql(it.statement), it.values).fetchone()
    except psycopg.Error as error:
        raise _meaning(db, it, error) or error from None
    if done is None:
        return _repeated(db, it)
    return Saved(it.expected_seq + 1, done[0])


def _meaning(db: Connection, it: Save, error: psycopg.Error) -> JournalError | None:
    match error:
        case psycopg.errors.UniqueViolation(diag=diag) if diag.constraint_name == "intent_pkey":
            attempts = zip(it.values["attempts"], it.values["begun"], strict=True)
            named = ", ".join(f"attempt {attempt} of {key!r}" for attempt, key in attempts)
            return IntentExists(f"{named} has already begun")
        case psycopg.errors.UniqueViolation(diag=diag) if diag.constraint_name == "question_id_key":
            return JournalError(f"question {_named(it.values['asked'])} already exists")
        case psycopg.Error(sqlstate=code) if code == NOT_BEGUN:
            return JournalError(f"an attempt of {_named(it.values['settled'])} has not begun")
        case psycopg.Error(sqlstate=code) if code == NOT_PENDING:
            closed = it.values["closed"]
            query = "SELECT FROM question WHERE id = ANY(%s) AND state = 'decided'"
            if db.execute(query, (closed,)).rowcount:
                return QuestionTaken(f"question {_named(closed)} was decided")
            return JournalError(f"question {_named(closed)} is not pending in stream {it.fence.stream!r}")
        case _:
            return None


def _named(names: Sequence[str]) -> str:
    """The names in a message; one of them is meant."""
    return " or ".join(map(repr, names))


def _repeated(db: Connection, it: Save) -> Saved:
    fence, expected = it.fence, it.expected_seq
    found = db.execute(
        "SELECT node, epoch, saved, last_seq FROM stream WHERE name = %s", (fence.stream,)
    ).fetchone()
    if found is None:
        raise UnknownStream(f"stream {fence.stream!r} does not exist")
    member, epoch, saved, last_seq = found
    if (member, epoch) != (fence.owner, fence.epoch):
        raise Fenced(f"stream {fence.stream!r} was claimed by another owner")
    if saved == epoch:
        stored = reads.events(db, fence.stream, None, expected, len(it.events) + 1)[1]
        if first := repeated_save.outcome(expected, stored, it.events):
            return first
    raise Fenced(f"stream {fence.stream!r} is at {last_seq}, not at {expected}")
