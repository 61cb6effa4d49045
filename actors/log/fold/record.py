"""The parts of a conversation's state: its messages, its earlier turns, and the record of its live run.

Only the fold (`state.py`) changes them. `Run` is all that a replay has to go by; it is dropped when the run
ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import attrs

from ...approvals.decided import Decided
from ...models.messages.messages import ChatMessage
from ...tools.delegation import RemoteItem, RemoteTask
from ...tools.needs import Need, NeedsAnswers
from ...tools.pictures import Picture, pictures_of, surplus
from ...tools.tool import ToolResult
from ..words.events import BatchFinished, Origin, RunStarted, StepFinished, ToolStarted

CallOutcome: TypeAlias = Literal["succeeded", "failed", "rejected"]


@attrs.define
class Tally:
    """Statistics of the tool calls of one reply.

    They are computed from events and their times, so they include the attempts before a restart.
    """

    in_flight: int = 0
    most: int = 0
    """The maximum of `in_flight`."""
    busy: float = 0.0
    """Seconds with at least one call in flight. Time spent waiting for humans does not count."""
    since: float = 0.0
    """The start of the first of the calls in flight."""
    attempts: int = 0
    worked: float = 0.0
    """The sum of the durations of all attempts, in seconds."""

    def start(self, at: float) -> None:
        if not self.in_flight:
            self.since = at
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        self.attempts += 1

    def finish(self, started: float, at: float) -> None:
        # 0 at least: the clock may have been set back in between.
        self.worked += max(0.0, at - started)
        self.in_flight -= 1
        if not self.in_flight:
            self.busy += max(0.0, at - self.since)

    def finished(self, key: str, node: str, ends: Sequence[CallOutcome]) -> BatchFinished:
        """The event at the end. `ends` has one item per call, including those that were not sent."""
        counts = Counter(ends)
        return BatchFinished(
            key,
            node,
            size=len(ends),
            concurrency=self.most,
            duration=round(self.busy, 3),
            average_duration=round(self.worked / self.attempts, 3) if self.attempts else 0.0,
            succeeded=counts["succeeded"],
            failed=counts["failed"],
            rejected=counts["rejected"],
        )


CallState: TypeAlias = Literal[
    "requested",
    "waiting",
    "started",
    "finished",
    "denied",
    "rejected",
    "answered",
    "expired",
    "cancelled",
    "unknown",
]

ENDED: frozenset[CallState] = frozenset({"finished", "denied", "rejected", "answered", "expired"})


class CallView(NamedTuple):
    """A tool call as clients see it."""

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
    """The name that the model called, if that is a server facade. `name` and `arguments` are then those of
    the tool behind it."""


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
    pictures: Sequence[Picture] = ()
    """The pictures that a user sent with it."""

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
    """The record of one tool call of a run."""

    message: int
    """The index of its message in the conversation."""
    attempts: dict[int, Literal["started", "finished", "unknown"]] = attrs.field(factory=dict)
    need: Need | None = None
    """The prerequisite that the server demanded at the last attempt, instead of giving a result."""
    asked: NeedsAnswers | None = None
    """The last prerequisite that was answers: all later attempts send these answers."""
    asked_at: int = 0
    """The attempt at which the server demanded them."""
    started: ToolStarted | None = None
    """The intent of the last attempt."""
    reason: str = ""
    """Why the outcome of the last attempt is unknown."""
    sent_at: float = 0.0
    """The time of the last intent."""
    remote: RemoteTask | None = None
    """The task that the called agent has for this call."""
    remote_items: Sequence[RemoteItem] = ()
    """The questions that the called agent asked last."""
    brought: set[str] = attrs.field(factory=set)
    """The approvals whose ends were delivered to the called agent."""
    rejected: bool = False
    """A person rejected something in the task of the called agent, here or there."""
    repeats: str | None = None
    """As in `NotSent`."""
    pictures: tuple[Picture, ...] = ()
    """The pictures of the result for models."""
    left_out: bool = False
    """Whether pictures of the result were left out, because the run has too many."""
    own_command: str | None = None
    """The command whose token serves this call only: the last decision about it with such a token, unless the
    run has another token since."""


@attrs.define
class Run:
    """The record of a run: the input of a replay."""

    started: RunStarted
    started_at: float
    """The time of `started`, in UTC seconds."""
    text: str
    driving_command: str
    """The key of the command whose bearer token the run uses, except for calls with a token of their own."""
    token: bool
    """Whether that command came with a token."""
    pictures: tuple[Picture, ...] = ()
    """The pictures of the message."""
    unreplied: list[str] = attrs.field(factory=list)
    """Commands whose senders have no answer yet."""
    commands: list[str] = attrs.field(factory=list)
    """All commands of the run."""
    own_commands: set[str] = attrs.field(factory=set)
    """The decisions of principals. Their tokens serve only the calls that were decided."""
    steps: dict[str, StepFinished] = attrs.field(factory=dict)
    """By key. Steps of tool calls are in `calls`."""
    reply_keys: dict[str, list[str]] = attrs.field(factory=dict)
    """Keys of the model calls by node, oldest first."""
    calls: dict[str, CallRecord] = attrs.field(factory=dict)
    asked: dict[str, str] = attrs.field(factory=dict)
    """Approval ids by the key of the question."""
    decisions: dict[str, Decided] = attrs.field(factory=dict)
    """By approval id."""
    batches: set[str] = attrs.field(factory=set)
    """Keys of the replies whose calls have all ended."""
    tallies: dict[str, Tally] = attrs.field(factory=dict)
    """Statistics of the replies with calls that have not ended, by key."""
    worked: dict[str, float] = attrs.field(factory=dict)
    """Seconds of work, up to the last wait, of the executions with a time limit, by key."""

    @property
    def id(self) -> str:
        return self.started.run

    @property
    def origin(self) -> Origin | None:
        return self.started.origin

    @property
    def traceparent(self) -> str | None:
        """The trace of the message (W3C Trace Context)."""
        return None if self.origin is None else self.origin.traceparent

    def show_pictures(self, record: CallRecord, result: ToolResult) -> None:
        """Take the pictures of a result, and leave out the oldest of the run beyond the bounds."""
        record.pictures = pictures_of(result.parts)
        if not record.pictures:  # so that a run of many calls is not gone through at each of them
            return
        shown = [each for each in self.calls.values() if each.pictures]
        left = surplus([len(picture.data) for each in shown for picture in each.pictures])
        for each in shown:
            count, each.pictures = len(each.pictures), each.pictures[left:]
            each.left_out = each.left_out or left > 0
            left = max(0, left - count)

    def drive(self, command: str, token: bool) -> None:
        """Use the token of a command from now on."""
        if command in self.own_commands:
            return
        if token and command != self.driving_command:
            for record in self.calls.values():
                record.own_command = None
        # A command without a token must not replace one with a token. Otherwise a run started with a token
        # could send calls without it.
        if token or not self.token:
            self.driving_command, self.token = command, token

    def drive_call(self, call: str, command: str, token: bool) -> None:
        """Use the token of a decision for this call only."""
        self.own_commands.add(command)
        if token and (record := self.calls.get(call)) is not None:  # None: it is not about a call
            record.own_command = command

    def command_of(self, call: str) -> str:
        """The key of the command whose bearer token the call uses."""
        return self.calls[call].own_command or self.driving_command

    def has_token(self, call: str) -> bool:
        """Whether that command came with a token."""
        return self.token or self.calls[call].own_command is not None

    def unfinished(self) -> Iterator[tuple[str, int]]:
        """The attempts of calls without an end, by key and number."""
        for key, record in self.calls.items():
            for attempt, state in record.attempts.items():
                if state == "started":
                    yield key, attempt

    def used(self, kind: str) -> int:
        """The number of recorded `model_calls`, or of `tool_calls` that were sent."""
        if kind == "model_calls":
            return sum(len(keys) for keys in self.reply_keys.values())
        return sum(record.started is not None for record in self.calls.values())


@attrs.frozen
class RecordedExchange:
    """An earlier turn, as later turns use it for the history of a model."""

    user: str
    answer: str
    pictures: tuple[Picture, ...] = ()
    """The pictures of the user."""
    calls: Mapping[str, Sequence[ChatMessage]] = attrs.field(factory=dict)
    """By node: the model's replies with tool calls, each followed by the results of all its calls."""
