"""The protocol of a journal, and the values that it stores and returns.

A journal holds *streams*. A stream has an append-only list of events with a gapless ``seq`` from 1, an inbox
of commands, questions to people, intents of work that must not run twice, and a summary for lists. Beside the
streams, a journal holds *notes*: small objects by kind and key. The journal does not interpret bodies.

Rules that every implementation follows:

* When a write returns, it is durable. Once the store has begun a call, the call returns its outcome even if
  the caller is cancelled in the meantime; the cancellation is raised at the caller's next checkpoint.
* ``save`` writes everything or nothing, and only for the newest owner (`Fence`).
* All writes to one stream have one order.
* ``(stream, seq)`` is the only cursor. Events of different streams have no order.
* Times are UTC seconds since the epoch, from the store's clock.
* Reading or changing one stream returns the data that was written, or raises `StreamDamaged`. Lists leave out
  damaged rows and name them. A damaged stream can still be claimed and deleted, and commands can be delivered
  to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from .question import (
    Already,
    CloseQuestion,
    Due,
    NewQuestion,
    Question,
    QuestionPage,
    QuestionState,
    Unknown,
    Won,
)
from .vote import Outdated, Vote, Voted

Json: TypeAlias = Mapping[str, Any]
"""A JSON object. It must not be changed after it was passed to a journal."""

LONGEST_NOTE = 4096
"""Maximum length of the JSON of a note, and of its key, in characters."""

# ---------------------------------------------------------------- stored values


@attrs.frozen
class NewEvent:
    """An event to append. The store adds stream and seq."""

    type: str
    body: Json
    at: float | None = None
    """The time of the event; None: the time of the save."""


@attrs.frozen
class Event:
    """An immutable, numbered fact in a stream."""

    stream: str
    """The id of the stream. In an agent, the id of the conversation."""
    seq: int
    """The position in the stream, from 1 and without gaps."""
    type: str
    """The event type, for example ``run.finished``."""
    at: float
    """The time, in UTC seconds since the epoch."""
    body: Json
    """The fields, which depend on `type`."""


@attrs.frozen
class Command:
    """A durable request in a stream's inbox that no save has acknowledged yet."""

    stream: str
    key: str
    """Unique in its stream as long as the stream exists."""
    kind: str
    body: Json
    at: float


@attrs.frozen
class NewIntent:
    """A record, saved before the work begins, that attempt `attempt` of `key` begins."""

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
    """The state of a stream as its writer states it, for lists, `deliver` and start-up."""

    status: str
    """The status for `deliver(unless=...)` and for the filter of lists."""
    title: str
    open: bool
    """Whether the stream has work to continue at start-up: see `Journal.open_work`."""
    body: Json
    owner: str = ""
    """The owner of the stream, for `Among`; empty: it has none."""


@attrs.frozen
class Row:
    """A stream, as in lists."""

    stream: str
    summary: Summary | None
    """None if any value of the row is damaged."""
    last_seq: int
    created: float
    updated: float
    """The time of the latest event."""


# --------------------------------------------------------------- results of calls


@attrs.frozen(eq=False)
class Fence:
    """Proof of the right to write to a stream, until another owner claims it. Compared by identity."""

    stream: str
    owner: str
    epoch: int


@attrs.frozen
class Saved:
    first_seq: int
    """The seq of the first event of this save, or the next seq of the stream if the save had no events."""
    at: float


@attrs.frozen
class Accepted:
    """The command is in the inbox."""


@attrs.frozen
class Repeated:
    """The key was delivered before, with the same kind and body."""

    reply: Json | None
    """None if the first delivery has no reply yet."""


@attrs.frozen
class KeyReused:
    """The key was delivered before, with a different kind or body. Nothing was written."""


@attrs.frozen
class NotAccepted:
    """The command was refused. Nothing was written, and the key can be used again."""

    why: Literal["unknown_stream", "full", "status", "behind"]
    status: str | None = None
    """The status of the summary, if `why` is ``"status"``."""


@attrs.frozen
class Among:
    """A filter of lists: the streams of an owner, and the streams with these names."""

    owner: str
    """Empty: no stream matches it, so streams without an owner are in no list."""
    streams: tuple[str, ...] = ()

    def matches(self, stream: str, owner: str) -> bool:
        return (owner != "" and owner == self.owner) or stream in self.streams


@attrs.frozen
class Page:
    rows: tuple[Row, ...]
    next_cursor: str | None
    tally: Mapping[str, int]
    """The number of streams by status, regardless of page and filters other than `Among`."""


# ---------------------------------------------------------------------- protocol


class Notes(Protocol):
    """The part of a journal that stores notes. Each kind has its own keys."""

    async def notes(self, kind: str) -> Mapping[str, Json | None]:
        """Return all notes of a kind by key. The value of a damaged note is None."""
        ...

    async def write_notes(self, kind: str, notes: Mapping[str, Json]) -> None:
        """Store notes in one commit. Each replaces the earlier note of its key.

        Raises:
            NoteTooLong
        """
        ...


class Journal(Notes, Protocol):
    """The protocol of a journal. The module's docstring has the rules for all methods."""

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

        A key that was used before is answered with `Repeated` or `KeyReused`, regardless of the other
        conditions. With `new`, a missing stream is created, with an empty status and title and `open` false;
        lists leave it out until its first save. `limit` is the maximum number of open commands of this kind
        in the inbox. The command is refused if the stream's status is in `unless`, or if the inbox has an
        open command of a kind in `not_behind`.
        """
        ...

    async def decide(
        self,
        question: str,
        decision: Json,
        key: str,
        now: float,
        *,
        adds: Json | None = None,
        vote: Vote | None = None,
    ) -> Won | Voted | Already | Outdated | Repeated | KeyReused | Unknown:
        """Decide a pending question, or vote for its decision. At most one decision is accepted.

        `vote.py` has the rules, and the command that the same commit puts into the stream's inbox: without a
        vote, ``(key, "decision", {"question": id, "decision": decision})``. `adds` are fields to store with
        the decision; a repetition with the same key may have others. The key is checked first, as in
        `deliver`. The result is `Already` if the question has expired at `now` or at the time of the write,
        so that no stored decision is later than the expiry.
        """
        ...

    async def claim(self, stream: str, owner: str) -> Fence:
        """Become the only writer of a stream. Earlier fences become invalid. Raises `UnknownStream`."""
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
        """Write all arguments in one commit, or nothing.

        `expected_seq` is the last seq that the writer has folded. `ack` closes commands of the inbox.
        `replies` stores the replies to commands by key, whether open or acknowledged; the first reply to a
        key is kept. `forget` deletes commands, so that their keys can be used again. Unknown keys are
        ignored.

        Raises:
            Fenced: the fence is not the newest, or `expected_seq` is not the stream's last seq.
            UnknownStream: the stream was deleted.
            QuestionTaken: a question to close is decided.
            IntentExists: an attempt has already begun.
            JournalBroken: a commit failed.
        """
        ...

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        """Return the open commands, oldest first. Empty for an unknown stream.

        `skip_damaged` leaves out damaged commands instead of raising `StreamDamaged`.
        """
        ...

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        """Return the events after `seq`, in order. Empty for an unknown stream."""
        ...

    async def row(self, stream: str) -> Row | None:
        """Return the row of a stream; None for an unknown stream. `last_seq` is 0 before the first event."""
        ...

    async def list(
        self,
        *,
        status: str | None = None,
        q: str | None = None,
        among: Among | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        """Return a page of the streams with at least one event, newest (`created`) first.

        `among` restricts rows and tally. `q` is a text, not a pattern, to find anywhere in the title,
        ignoring case. A page of a search may have fewer than `limit` rows, or none, and still have a next
        page. Raises `BadCursor`.
        """
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
        """Return a page of questions of all streams, or of `streams`, oldest first.

        Raises:
            BadCursor
        """
        ...

    async def decided(self, limit: int) -> QuestionPage:
        """Return at most `limit` decided questions of all streams, newest question first. There is no next
        page."""
        ...

    async def due(self, now: float) -> tuple[Due, ...]:
        """Return pending questions with ``expires <= now``, earliest expiry first, at most `MOST_DUE`."""
        ...

    async def open_work(self) -> tuple[str, ...]:
        """Return the streams to wake at start-up: with an open command or an open summary. Oldest first."""
        ...

    async def delete(self, fence: Fence) -> tuple[str, ...]:
        """Delete a stream. Return the keys of its open commands, which the caller must answer.

        Raises:
            Fenced
        """
        ...
