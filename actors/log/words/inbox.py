"""The commands of a conversation's inbox, and their stored form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias, get_args

import attrs

from ....runtime.journal.protocol import Command, Json
from ...approvals.decided import Decided
from ...common.stored_json import from_json, to_json
from ...tools.pictures import Picture
from .events import Origin


@attrs.frozen
class Create:
    """Create the conversation, and run its first turn if there is a message."""

    kind: ClassVar = "create"
    message: str | None
    session_id: str | None
    token: bool
    """Whether the command came with a bearer token. The token itself is never stored."""
    message_id: str | None = None
    """As in `RunStarted`, like `origin`."""
    origin: Origin | None = None
    by: str | None = None
    """The id of the principal that sent the command; None without authentication. So in all commands."""
    pictures: Sequence[Picture] = ()
    """As in `MessageAdded`."""
    program: bool = False
    """As in `RunStarted`."""
    context: str | None = None
    """As in `ConversationCreated`."""


@attrs.frozen
class Say:
    """Run a turn with this message."""

    kind: ClassVar = "message"
    message: str
    token: bool
    task: str | None = None
    """As in `RunStarted`, like `message_id` and `origin`."""
    message_id: str | None = None
    origin: Origin | None = None
    by: str | None = None
    pictures: Sequence[Picture] = ()
    program: bool = False


@attrs.frozen
class Decide:
    """Apply the decision on an approval. `Journal.decide` puts this command into the inbox."""

    kind: ClassVar = "decision"
    question: str
    decision: Decided
    subject: str | None = None
    """As in `ApprovalResolved`, like `voters`."""
    voters: Sequence[str] = ()


@attrs.frozen
class AddVote:
    """Record a vote for a decision. `Journal.decide` puts this command into the inbox. The fields are as in
    `ApprovalVoted`."""

    kind: ClassVar = "vote"
    question: str
    decision: Decided
    subject: str
    voters: Sequence[str]
    needed: int


@attrs.frozen
class Expire:
    """Expire an approval."""

    kind: ClassVar = "expire"
    question: str


@attrs.frozen
class Withdraw:
    """Void the approval of another agent's question, because that agent no longer waits for the answer."""

    kind: ClassVar = "withdraw"
    question: str
    reason: str


@attrs.frozen
class Resume:
    """Resume the run, with the token of this command."""

    kind: ClassVar = "resume"
    token: bool
    """As in `Create`."""
    by: str | None = None


@attrs.frozen
class Cancel:
    """Cancel the live run."""

    kind: ClassVar = "cancel"
    run: str | None = None
    """Cancel only this run; None: any."""
    by: str | None = None


@attrs.frozen
class Complete:
    """Complete the conversation, which then accepts no further messages."""

    kind: ClassVar = "complete"
    by: str | None = None


@attrs.frozen
class Delete:
    """Delete the conversation."""

    kind: ClassVar = "delete"


AnyCommand: TypeAlias = (
    Create | Say | Decide | AddVote | Expire | Withdraw | Resume | Cancel | Complete | Delete
)

_KINDS: Mapping[str, type[AnyCommand]] = {each.kind: each for each in get_args(AnyCommand)}


@attrs.frozen
class Received:
    """An open command in the inbox."""

    stream: str
    key: str
    """Unique in the stream."""
    at: float
    """The time at which the journal accepted the command, in UTC seconds since the epoch."""
    kind: str
    command: AnyCommand | None
    """None if this version does not know the kind."""
    member: str = ""
    """The member of the journal that delivered it."""

    @property
    def has_token(self) -> bool:
        """Whether it came with a bearer token. Its member holds it."""
        return bool(getattr(getattr(self.command, "decision", self.command), "token", False))

    @property
    def by(self) -> str | None:
        """The id of the principal that sent the command; None without authentication."""
        return getattr(self.command, "by", None)


def received(row: Command) -> Received:
    """Decode a row. Raises LookupError, TypeError or ValueError if the body does not match the kind."""
    known = _KINDS.get(row.kind)
    command = None if known is None else from_json(row.body, known)
    return Received(row.stream, row.key, row.at, row.kind, command, row.member)


def body_of(command: AnyCommand) -> Json:
    """Return the stored form of a command."""
    body: Json = to_json(command)
    return body
