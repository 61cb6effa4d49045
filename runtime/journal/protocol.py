"""The protocol of a journal, and the values that it stores and returns.

A journal holds *streams*. A stream has an append-only list of events with a gapless ``seq`` from 1, an inbox
of commands, questions to people, intents of work that must not run twice, and a summary for lists. Beside the
streams, a journal holds *notes*: small objects by kind and key. The journal does not interpret bodies.

Rules that every implementation follows:

* When a write returns, it is durable. Once the store has begun a call, the call returns its outcome even if
  the caller is cancelled in the meantime; the cancellation is raised at the caller's next checkpoint.
* ``save`` writes everything or nothing, and only for the newest owner (`ownership.py`).
* A write whose answer was lost can be repeated: ``deliver`` and ``decide`` by their keys, and ``save`` and
  ``delete`` by the same arguments, before any other write with the same fence.
* All writes to one stream have one order.
* ``(stream, seq)`` is the only cursor. Events of different streams have no order.
* Times are UTC seconds since the epoch, from the store's clock.
* Bodies and titles may have lone surrogates; all other texts are valid Unicode.
* Reading or changing one stream returns the data that was written, or raises `StreamDamaged`. Lists leave out
  damaged rows and name them. A damaged stream can still be claimed and deleted, and commands can be delivered
  to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from ..event_bus import Subscription
from .outbox import Outbox
from .ownership import Fence, Fleet, Owned, Renewed
from .passage import Passage, PassagePlace, WantedEvents
from .question import (
    Already,
    CloseQuestion,
    Due,
    DuePage,
    NewQuestion,
    Question,
    QuestionPage,
    QuestionState,
    Unknown,
    Won,
)
from .stream_extract import Extract
from .summary import Among, Census, NamedKind, Page, Row, Summary
from .vote import Outdated, Vote, Voted

Json: TypeAlias = Mapping[str, Any]
"""A JSON object. It must not be changed after it was passed to a journal."""

LONGEST_NOTE = 4096
"""Maximum length of the JSON of a note, and of its key, in characters."""

REFUSAL_SECONDS = 60.0
"""How long a refusal can be read, at least."""

OnCommit: TypeAlias = Callable[[int, float], None]
"""Called after each commit, on trio's thread, with the number of its operations and the seconds it took."""


def ignore_commit(operations: int, seconds: float) -> None:
    """The default of `OnCommit`."""


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
    member: str = ""
    """The member that delivered it."""


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


# --------------------------------------------------------------- results of calls


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
    """None if the first command has no reply yet."""


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
class StreamMark:
    """Differs after each event and each new command."""

    created: float
    last_seq: int
    command: str | None
    """The key of the newest open command."""


@attrs.frozen
class Marks:
    streams: Mapping[str, StreamMark]
    """Of the streams that exist."""
    answered: Collection[tuple[str, str]]
    """The commands, by stream and key, that have a reply or do not exist any more."""


# ---------------------------------------------------------------------- protocol


DeliveryOutcome: TypeAlias = Accepted | Repeated | KeyReused | NotAccepted
DecisionOutcome: TypeAlias = Won | Voted | Already | Outdated | Repeated | KeyReused | Unknown


@attrs.frozen
class NewCommand:
    """A command, and the conditions on which a stream's inbox takes it."""

    stream: str
    key: str
    """Within the stream. The same key stands for the same command."""
    kind: str
    body: Json
    new: bool = False
    """Whether a missing stream is created, with an empty status and title and `open` false. Lists leave it
    out until its first save."""
    limit: int | None = None
    """The maximum number of open commands of this kind that wait in the inbox; 0: none. If the summary
    neither is open nor rests, one more is accepted, because the first is executed at once."""
    unless: frozenset[str] = frozenset()
    """The command is refused if the stream has one of these statuses."""
    not_behind: frozenset[str] = frozenset()
    """The command is refused if the inbox has an open command of one of these kinds."""
    follow: bool = False
    """Whether the same commit claims the stream for this member if it can (`ownership.py`)."""


@attrs.frozen
class Commit:
    """The changes of a stream that are written together, or not at all."""

    fence: Fence
    expected_seq: int
    """The last seq that the writer has folded."""
    events: Sequence[NewEvent] = ()
    intents: Sequence[NewIntent] = ()
    settle: Sequence[SettleIntent] = ()
    questions: Sequence[NewQuestion | CloseQuestion] = ()
    ack: Sequence[str] = ()
    """The keys of commands that leave the inbox."""
    replies: Mapping[str, Json] = attrs.field(factory=dict)
    """By the keys of commands, whether open or acknowledged. The first reply to a key is kept."""
    refuse: Mapping[str, Json] = attrs.field(factory=dict)
    """Replies, by the keys of commands that leave the inbox so that their keys can be used again. They can be
    read for `REFUSAL_SECONDS`."""
    summary: Summary | None = None
    """None: as before."""
    outbox: Sequence[Json] = ()
    """The bodies of new rows of the outbox."""


class Notes(Protocol):
    """The part of a journal that stores notes. Each kind has its own keys.

    Each kind has a revision, which is higher after each write. Another member learns of changes by comparing
    revisions, and then reads the notes that have changed. It does not learn of deletions.
    """

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        """Return all notes of a kind by key, or those that have changed since the revision `after`. The value
        of a damaged note is None."""
        ...

    async def note_revisions(self) -> Mapping[str, int]:
        """Return the revisions of the kinds. Kinds that have not changed lately may be missing."""
        ...

    async def write_notes(
        self, kind: str, notes: Mapping[str, Json], *, at: int | None = None, outbox: Sequence[Json] = ()
    ) -> bool:
        """Store notes in one commit. Each replaces the earlier note of its key.

        With `at`, return False, with nothing written, unless this is still the revision of the kind. If the
        answer was lost, a repetition returns False. `outbox` are the bodies of new rows of the outbox.

        Raises:
            NoteTooLong
        """
        ...

    async def take_note(self, kind: str, key: str) -> Json | None:
        """Delete a note and return it; None if there is no readable one. Only one caller gets it."""
        ...


class Journal(Notes, Outbox, Protocol):
    """The protocol of a journal. The module's docstring has the rules for all methods."""

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        """Put a command into a stream's inbox.

        A key that was used before is answered with `Repeated` or `KeyReused`, regardless of the other
        conditions.

        Raises:
            NeedsNewer: the stream demands a newer version than that of each living member.
        """
        ...

    async def decide(
        self,
        question: str,
        decision: Json,
        key: str,
        *,
        adds: Json | None = None,
        vote: Vote | None = None,
        follow: bool = False,
    ) -> DecisionOutcome:
        """Decide a pending question, or vote for its decision. At most one decision is accepted.

        `vote.py` has the rules, and the command that the same commit puts into the stream's inbox: without a
        vote, ``(key, "decision", {"question": id, "decision": decision})``. `adds` are fields to store with
        the decision; a repetition with the same key may have others. The key is checked first, as in
        `deliver`. The result is `Already` if the question has expired at the time of the write. `follow` is
        that of a `NewCommand`.

        Raises:
            NeedsNewer: as `deliver`.
        """
        ...

    async def claim(self, stream: str) -> Fence | Owned:
        """Become the only writer of a stream, if it is free. Earlier fences of this member become invalid.

        Raises:
            UnknownStream
        """
        ...

    async def owns(self, fence: Fence) -> bool:
        """Whether the fence is valid."""
        ...

    async def release(self, fence: Fence, leave: Collection[str] = ()) -> bool:
        """Give the stream up. Return False, with nothing changed, if its inbox has open commands other than
        `leave`. A fence that is not valid has nothing to give up."""
        ...

    async def save(self, commit: Commit) -> Saved:
        """Write all of a commit, or nothing. Unknown keys of commands are ignored.

        Raises:
            Fenced: the fence is not the newest, or `expected_seq` is not the stream's last seq.
            UnknownStream: the stream was deleted.
            QuestionTaken: a question to close is decided.
            IntentExists: an attempt has already begun.
            JournalBroken: a commit failed.
        """
        ...

    async def stored_reply(self, stream: str, key: str) -> Json | None:
        """Return the reply to a command, or its refusal; None if it has none yet.

        Raises:
            UnknownStream: the stream was deleted.
            UnknownCommand: the stream has no such command.
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

    async def keep_extract(self, fence: Fence, extract: Extract) -> None:
        """Replace the extract of a stream. Nothing is written if the fence is not valid, or if the extract is
        of more events than the stream has."""
        ...

    async def extract(self, stream: str, form: str) -> Extract | None:
        """Return the extract of a stream; None if there is none of this form, if it cannot be read, or if it
        is of more events than the stream has."""
        ...

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        """Return the next part of the events of all streams. `at` is `next` of the passage before."""
        ...

    async def row(self, stream: str) -> Row | None:
        """Return the row of a stream; None for an unknown stream. `last_seq` is 0 before the first event."""
        ...

    async def marks(self, streams: Collection[str], commands: Collection[tuple[str, str]]) -> Marks:
        """Return the marks of streams, and which of the commands are answered. For members that wait for the
        writes of others: one query finds what has changed."""
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

    async def beginning(self, text: str, of: NamedKind) -> tuple[str, ...]:
        """Return the names of streams, or the ids of questions, that begin with a text of hexadecimal digits
        and hyphens and go on with such characters; at most `MOST_BEGINNING`."""
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
        """Return a page of questions of all streams, or of `streams`, oldest first. A page with
        `question.MOST_BYTES` may have fewer than `limit` questions and still have a next page.

        Raises:
            BadCursor
        """
        ...

    async def decided(self, limit: int) -> QuestionPage:
        """Return at most `limit` decided questions of all streams, and at most `question.MOST_BYTES`, newest
        question first. There is no next page."""
        ...

    async def due(self, after: Due | None = None) -> DuePage:
        """Return a page of the pending questions that have expired, earliest expiry first. `after` is the
        last question of the page before."""
        ...

    async def open_work(self, but: Collection[str] = ()) -> tuple[str, ...]:
        """Return the streams with an open command or an open summary, oldest first, except those that another
        living member owns. A stream in `but` is left out unless it has an open command."""
        ...

    async def census(self) -> Census:
        """Count the contents. The numbers are those of one moment."""
        ...

    async def delete(self, fence: Fence, outbox: Sequence[Json] = ()) -> tuple[str, ...]:
        """Delete a stream, and add rows to the outbox. Return the keys of its open commands, which the caller
        must answer; none, with nothing written, if the stream does not exist.

        Raises:
            Fenced
        """
        ...

    # ------------------------------------------------------------------ members

    @property
    def member(self) -> str:
        """The name of this member. No other member, earlier or later, has it."""
        ...

    async def renew(self) -> Renewed:
        """Begin or renew the lease of this member. A stream whose owner has no lease is free."""
        ...

    async def leave(self) -> None:
        """End the lease of this member: other members may claim its streams at once. Then tell them all the
        changes that it has made, and that there are no more."""
        ...

    async def living(self) -> Mapping[str, float]:
        """Return the members whose leases have not run out, with the ends of their leases."""
        ...

    async def owners(self, streams: Collection[str]) -> Mapping[str, str]:
        """Return the living members that own these streams, by stream."""
        ...

    async def fleet(self) -> Fleet:
        """Return the state of the store and its members."""
        ...

    async def need_newer(self) -> int:
        """Return `Fleet.need_newer`."""
        ...

    def watch(self) -> AbstractContextManager[Subscription]:
        """Subscribe to the changes of streams by other members: to `Hint`s, which may come twice or never. If
        some may be lost, the subscription has `missed`, or `HINTS_LOST` comes."""
        ...
