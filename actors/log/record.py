"""What a conversation is made of: its messages, and what its live run has on record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs

from ..approvals.decided import Decided
from ..models.messages import ChatMessage
from ..tools.delegation import RemoteItem, RemoteTask
from ..tools.needs import Need, NeedsAnswers
from .events import BatchFinished, Origin, StepFinished, ToolStarted


@attrs.define
class Tally:
    """Counts the calls of one reply as they are sent and come back, from their record alone.

    So a replay counts what earlier lives did. Times are those of the events.
    """

    under_way: int = 0
    most: int = 0
    """Under way at the same time."""
    busy: float = 0.0
    """Seconds with at least one under way; so waiting for people is not in it."""
    since: float = 0.0
    """When the first of those under way left."""
    attempts: int = 0
    worked: float = 0.0
    """Seconds of all attempts together."""

    def leave(self, at: float) -> None:
        if not self.under_way:
            self.since = at
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.attempts += 1

    def come_back(self, left: float, at: float) -> None:
        # A clock that was put back makes nothing shorter than nothing.
        self.worked += max(0.0, at - left)
        self.under_way -= 1
        if not self.under_way:
            self.busy += max(0.0, at - self.since)

    def finished(self, key: str, node: str, succeeded: Sequence[bool]) -> BatchFinished:
        """The summary of the reply. `succeeded`: for each call, also for those that were not sent."""
        good = sum(succeeded)
        return BatchFinished(
            key,
            node,
            size=len(succeeded),
            concurrency=self.most,
            duration=round(self.busy, 3),
            average_duration=round(self.worked / self.attempts, 3) if self.attempts else 0.0,
            succeeded=good,
            failed=len(succeeded) - good,
        )


CallState: TypeAlias = Literal[
    "requested", "waiting", "started", "finished", "denied", "rejected", "expired", "cancelled", "unknown"
]

ENDED: frozenset[CallState] = frozenset({"finished", "denied", "rejected", "expired"})


# Named tuples, for every event of a call replaces one of each.


class CallView(NamedTuple):
    """A tool call as people see it."""

    id: str
    """The model's id of the call."""
    name: str
    """The tool."""
    arguments: Mapping[str, Any]
    """The arguments as sent; until then, as the model proposed them."""
    state: CallState = "requested"
    """How far the call is."""
    result: str | None = None
    """The result as the model gets it."""
    is_error: bool | None = None
    """Whether the result is an error."""
    server: str | None = None
    """The tool server that the call was sent to."""
    facade: str | None = None
    """What the model called, when that stands for the whole server: name and arguments are what it meant."""


class Message(NamedTuple):
    """One message of a conversation."""

    id: str
    """UUID of the message."""
    role: Literal["system", "user", "assistant", "tool"]
    """The author."""
    content: str
    """Text; of a tool call, its result."""
    created: float
    node: str | None = None
    """The node that wrote it."""
    call: CallView | None = None

    @property
    def tool_call(self) -> CallView | None:
        """The call, if the role is `tool`."""
        return self.call

    @property
    def created_at(self) -> datetime:
        """When it was recorded, in UTC."""
        return datetime.fromtimestamp(self.created, UTC)


@attrs.define
class CallRecord:
    """What is on record of one tool call of a run."""

    message: int
    """Its place among the conversation's messages."""
    attempts: dict[int, Literal["started", "finished", "unknown"]] = attrs.field(factory=dict)
    need: Need | None = None
    """The server wanted this, in place of giving a result, at the last attempt."""
    asked: NeedsAnswers | None = None
    """The last need of answers: every attempt after that brings them."""
    asked_at: int = 0
    """The attempt that met it."""
    started: ToolStarted | None = None
    """The intent of the last attempt."""
    reason: str = ""
    """Why its outcome is unknown."""
    left: float = 0.0
    """When its last attempt did."""
    remote: RemoteTask | None = None
    """The task that the agent that was called has for it."""
    remote_items: Sequence[RemoteItem] = ()
    """The questions that it asked last."""
    brought: set[str] = attrs.field(factory=set)
    """The approvals whose ends attempts have taken to that agent."""
    rejected: bool = False
    """A person rejected something in the task of that agent, here or there."""


@attrs.define
class Run:
    """What a run has on record: what a replay goes by. Forgotten when the run ends."""

    id: str
    turn: int
    text: str
    tree_id: str
    replay_version: int
    mover: str
    """The command that last moved it on; calls use its bearer token."""
    token: bool
    """Whether that command came with one."""
    message_id: str | None = None
    """As in `RunStarted`, like `origin`."""
    origin: Origin | None = None
    unsettled: list[str] = attrs.field(factory=list)
    """Commands whose senders have no answer yet."""
    commands: list[str] = attrs.field(factory=list)
    """All commands that were part of it."""
    steps: dict[str, StepFinished] = attrs.field(factory=dict)
    """By key, but for those of tool calls, which are in `calls`."""
    said: dict[str, list[str]] = attrs.field(factory=dict)
    """Keys of the model's replies by node, oldest first."""
    calls: dict[str, CallRecord] = attrs.field(factory=dict)
    asked: dict[str, str] = attrs.field(factory=dict)
    """Approval ids by the key of the question."""
    decisions: dict[str, Decided] = attrs.field(factory=dict)
    """By approval id."""
    batches: set[str] = attrs.field(factory=set)
    """Keys of the replies whose calls are all settled."""
    tallies: dict[str, Tally] = attrs.field(factory=dict)
    """Of the replies whose calls are not all settled, by key."""
    worked: dict[str, float] = attrs.field(factory=dict)
    """Seconds of work when it last began to wait, of the executions that have a limit, by key."""

    def used(self, what: str) -> int:
        """How many `model_calls`, or `tool_calls` that were sent, it has on record."""
        if what == "model_calls":
            return sum(len(keys) for keys in self.said.values())
        return sum(record.started is not None for record in self.calls.values())


@attrs.frozen
class Exchange:
    """An earlier turn, as later ones see it."""

    user: str
    answer: str
    calls: Mapping[str, Sequence[ChatMessage]] = attrs.field(factory=dict)
    """By node: the replies of its model that called tools, each followed by the results of all its calls."""
