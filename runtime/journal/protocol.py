"""What a journal promises, whoever keeps it.

A journal holds *streams*. Each has an append-only list of events with a gapless
``seq`` from 1, an inbox of commands, questions put to people, intents of work that
must not run twice, and a summary for lists. Beside the streams it holds *notes*:
small objects by kind and key. Bodies are opaque JSON objects: the journal knows
nothing of what they mean.

Rules every store keeps:

* What returns is durable. A call that was handed to the store returns its outcome, also to a caller
  that was cancelled meanwhile and learns of that at its next checkpoint.
* ``save`` writes all of it or nothing, and only for the newest owner (`Fence`).
* Every write locks the stream's row first, so calls on one stream have one order.
* ``(stream, seq)`` is the only cursor. There is no order across streams.
* Times are UTC seconds since the epoch from the store's one clock.
* A caller that reads or changes one stream gets what was written, or `StreamDamaged`. Lists leave out what is
  damaged, and say so. Delivering to a damaged stream, claiming and deleting it work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import attrs

Json: TypeAlias = Mapping[str, Any]
"""A JSON object. Treated as immutable once handed over."""

QuestionState: TypeAlias = Literal["pending", "decided", "expired", "void"]

MOST_DUE = 100
"""What `Journal.due` returns at most."""
LONGEST_NOTE = 4096
"""Characters of the JSON of a note, and of its key."""

# ------------------------------------------------------------------ what is kept


@attrs.frozen
class NewEvent:
    """An event as its writer hands it over; the store adds stream and seq."""

    type: str
    body: Json
    at: float | None = None
    """When it happened; None: when it is saved."""


@attrs.frozen
class Event:
    """One fact of a stream, for ever."""

    stream: str
    """Id of the stream: in an agent, of the conversation."""
    seq: int
    """From 1, without gaps."""
    type: str
    """What happened, for instance ``run.finished``."""
    at: float
    """When, in UTC seconds."""
    body: Json
    """The fields of its type."""


@attrs.frozen
class Command:
    """An open row of a stream's inbox: durable, not yet acknowledged by a save."""

    stream: str
    key: str
    """Unique in its stream for as long as the stream exists."""
    kind: str
    body: Json
    at: float


@attrs.frozen
class NewQuestion:
    """A question to a person, opened by a save. Its id is unique across all streams."""

    id: str
    kind: str
    body: Json
    expires: float | None = None


@attrs.frozen
class CloseQuestion:
    """Takes a pending question away from the people it was put to.

    `patch` is merged into the question's body (for instance who supersedes it).
    """

    id: str
    state: Literal["expired", "void"]
    patch: Json = attrs.field(factory=dict)


@attrs.frozen
class Question:
    id: str
    stream: str
    kind: str
    """`tool`, for instance: what it is about."""
    state: QuestionState
    """`void`: withdrawn before a decision."""
    body: Json
    decision: Json | None
    """The decision that stands, as it is stored; None: there is none."""
    created: float
    expires: float | None
    settled: float | None
    """When it left `pending`."""


@attrs.frozen
class Due:
    """As much of a question as it takes to tell its stream that its time is up."""

    id: str
    stream: str
    expires: float


@attrs.frozen
class NewIntent:
    """Says before the work begins that attempt `attempt` of `key` begins."""

    key: str
    attempt: int
    effect: str
    body: Json


@attrs.frozen
class SettleIntent:
    key: str
    attempt: int
    state: Literal["finished", "unknown", "cancelled"]


@attrs.frozen
class Summary:
    """What the writer of a stream wants lists, `deliver` and start-up to know of it."""

    status: str
    """What `deliver(unless=...)` looks at and lists filter by."""
    title: str
    open: bool
    """There is work that nothing from outside needs to start: see `Journal.open_work`."""
    body: Json


@attrs.frozen
class Row:
    """A stream as lists show it."""

    stream: str
    summary: Summary | None
    """None when it, or anything else in the row, is damaged."""
    last_seq: int
    created: float
    updated: float
    """The time of its latest event."""


# -------------------------------------------------------------- answers of calls


@attrs.frozen(eq=False)
class Fence:
    """The right to write to a stream, until somebody else claims it. No other is equal to it."""

    stream: str
    owner: str
    epoch: int


@attrs.frozen
class Saved:
    first_seq: int
    """Of the events of this save; the stream's next seq when it had none."""
    at: float


@attrs.frozen
class Accepted:
    """The command is in the inbox."""


@attrs.frozen
class Repeated:
    """This key was delivered before, with the same kind and body."""

    reply: Json | None
    """None while the first delivery has no reply yet."""


@attrs.frozen
class KeyReused:
    """This key was delivered before, with another kind or body. Nothing was written."""


@attrs.frozen
class NotAccepted:
    """Nothing was written, and the key was not used up."""

    why: Literal["unknown_stream", "full", "status", "behind"]
    status: str | None = None
    """The summary's status, for `why == "status"`."""


@attrs.frozen
class Won:
    """This decision is the one that counts; its command is in the stream's inbox."""

    question: Question


@attrs.frozen
class Already:
    """The question was not open any more; or, still pending but past `expires`, it may not be decided."""

    question: Question


@attrs.frozen
class Unknown:
    """There is no such question."""


@attrs.frozen
class Page:
    rows: tuple[Row, ...]
    next_cursor: str | None
    tally: Mapping[str, int]
    """Streams of every status, over all pages and filters."""


@attrs.frozen
class QuestionPage:
    questions: tuple[Question, ...]
    next_cursor: str | None
    damaged: Mapping[str, str] = attrs.field(factory=dict)
    """Streams with questions that belong here and cannot be read, and why."""


# ---------------------------------------------------------------------- protocol


class Notes(Protocol):
    """Small objects by kind and key; no kind of theirs is another's."""

    async def notes(self, kind: str) -> Mapping[str, Json | None]:
        """All notes of a kind by key; None for one that cannot be read."""
        ...

    async def write_notes(self, kind: str, notes: Mapping[str, Json]) -> None:
        """Keep these notes in one commit, each in the place of the one that its key had before.

        Raises:
            NoteTooLong
        """
        ...


class Journal(Notes, Protocol):
    """See the module's docstring for the rules all of these keep."""

    async def deliver(
        self,
        stream: str,
        key: str,
        kind: str,
        body: Json,
        *,
        new: bool = False,
        limit: int | None = None,
        unless: frozenset[str] = frozenset(),
        not_behind: frozenset[str] = frozenset(),
    ) -> Accepted | Repeated | KeyReused | NotAccepted:
        """Put a command into a stream's inbox.

        A known key is answered with `Repeated` or `KeyReused` before anything else is looked at.
        `new` makes the stream if there is none (a summary with empty status and title, `open` false;
        lists leave it out until its first save). `limit` is how many open commands of this kind the
        inbox may hold. `unless` are summary statuses in which the command is not accepted, `not_behind`
        kinds of open commands after which it is not.
        """
        ...

    async def decide(
        self, question: str, decision: Json, key: str, now: float
    ) -> Won | Already | Repeated | KeyReused | Unknown:
        """Decide a question, once.

        One compare-and-set from `pending`; the same commit puts the command
        ``(key, "decision", {"question": id, "decision": decision})`` into the stream's inbox.
        The key is looked at first, as in `deliver`. A question is `Already` when it has expired at `now`,
        or by the time it is written, which may be later: what is kept never says that it was decided
        after it had expired.
        """
        ...

    async def claim(self, stream: str, owner: str) -> Fence:
        """Become the stream's only writer; whoever was it before is fenced. Raises `UnknownStream`."""
        ...

    async def save(
        self,
        fence: Fence,
        expected_seq: int,
        events: Sequence[NewEvent] = (),
        *,
        intents: Sequence[NewIntent] = (),
        settle: Sequence[SettleIntent] = (),
        questions: Sequence[NewQuestion | CloseQuestion] = (),
        ack: Sequence[str] = (),
        replies: Mapping[str, Json] | None = None,
        forget: Sequence[str] = (),
        summary: Summary | None = None,
    ) -> Saved:
        """Write all of this in one commit, or nothing.

        `expected_seq` is the last seq the writer has folded. `ack` takes commands out of the inbox.
        `replies` stores the answers to commands by key (open or acknowledged); the first reply to a
        key stays. `forget` takes commands out as if they had never come: their keys are free again.
        Unknown keys are ignored.

        Raises:
            Fenced: the fence is not the newest, or `expected_seq` is not the stream's last seq.
            UnknownStream: it was deleted.
            QuestionTaken, IntentExists: see there.
            JournalBroken
        """
        ...

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        """Open commands, oldest first. Empty for an unknown stream.

        `skip_damaged` leaves out those that cannot be read, in place of raising `StreamDamaged`.
        """
        ...

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        """Events after `seq`, in order. Empty for an unknown stream."""
        ...

    async def row(self, stream: str) -> Row | None:
        """None when there is no such stream; a stream that has no event yet has `last_seq` 0."""
        ...

    async def list(
        self, *, status: str | None = None, q: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page:
        """Streams with at least one event, newest (`created`) first. `q` is found anywhere in the title,
        ignoring case; it is text, not a pattern. A page of a search may have fewer than `limit`, or
        none, and yet a cursor. Raises `BadCursor`."""
        ...

    async def question(self, id: str) -> Question | None: ...

    async def questions(
        self,
        *,
        state: QuestionState | None = "pending",
        kind: str | None = None,
        streams: Sequence[str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> QuestionPage:
        """Questions across streams, oldest first.

        Raises:
            BadCursor
        """
        ...

    async def decided(self, limit: int) -> QuestionPage:
        """Decided questions across streams, the one that was put last first: `limit` at most, and no further
        page."""
        ...

    async def due(self, now: float) -> tuple[Due, ...]:
        """Pending questions with ``expires <= now``, the most overdue first, `MOST_DUE` at most."""
        ...

    async def open_work(self) -> tuple[str, ...]:
        """Streams with an open inbox or an open summary: those to wake at start-up. Oldest first."""
        ...

    async def delete(self, fence: Fence) -> tuple[str, ...]:
        """Forget everything about a stream. Returns the keys of its open commands: nobody else answers them.

        Raises:
            Fenced
        """
        ...
