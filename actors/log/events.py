"""The events of a conversation: the meaning of each type, and its fields.

The stored events are also those that are streamed and audited. A conversation is the fold of its events
(`stopgo.actors.log.state`); nothing else about it is kept that cannot be rebuilt from them. Their stored form
is in `stopgo.actors.log.event_json`: a new field needs a default, which is left out there.

Keys name executions within a conversation: ``1/`` is the root in turn 1, ``1/.0.2`` its first child's third
child, ``1/.0.2:3`` that one's third model call, ``1/.0.2:3.0`` the first tool call of that reply.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, get_args

import attrs

from ..approvals.asked import Asked
from ..approvals.decided import Decided
from ..tools.needs import Need, Wanted
from ..tools.tool import EffectClass, ToolResult
from .outcomes import StepKind, StepOutcome

REPLAY_VERSION = 1
"""Goes up when the same tree over the same log would take another path than before."""

# ------------------------------------------------------------ the conversation


@attrs.frozen
class ConversationCreated:
    type: ClassVar = "conversation.created"
    session_id: str
    prompt: str
    """The system prompt, which the conversation shows as its first message until a run has another."""


@attrs.frozen
class MessageAdded:
    """A message of a person."""

    type: ClassVar = "message.added"
    text: str
    command: str
    """Its key in the inbox."""


@attrs.frozen
class StateSet:
    """A node put its result into the session state."""

    type: ClassVar = "state.set"
    key: str
    value: str
    node: str


@attrs.frozen
class ConversationCompleted:
    type: ClassVar = "conversation.completed"


ConversationEvent: TypeAlias = ConversationCreated | MessageAdded | StateSet | ConversationCompleted

# ---------------------------------------------------------------------- steps


@attrs.frozen(kw_only=True)
class StepFinished:
    """Work whose outcome a replay must not redo."""

    type: ClassVar = "step.finished"
    key: str
    kind: StepKind
    node: str
    fingerprint: str
    outcome: StepOutcome

    @classmethod
    def of(cls, key: str, kind: StepKind, node: str, outcome: StepOutcome) -> Self:
        return cls(key=key, kind=kind, node=node, fingerprint=f"{kind} {node}", outcome=outcome)


@attrs.frozen
class BatchFinished:
    """All tool calls of the model reply `key` are settled. Durations are in seconds."""

    type: ClassVar = "batch.finished"
    key: str
    node: str
    size: int
    concurrency: int
    """The most calls under way at the same time."""
    duration: float
    """With at least one call under way."""
    average_duration: float
    """Of an attempt."""
    succeeded: int
    failed: int

    @property
    def line(self) -> str:
        """For the log of the process."""
        figures = attrs.asdict(self, filter=lambda field, _: field.name not in ("key", "node"))
        told = " ".join(f"{name}={value}" for name, value in figures.items())
        return f'calls of node "{self.node}" settled: {told}'


StepEvent: TypeAlias = StepFinished | BatchFinished

# ----------------------------------------------------------------- tool calls


@attrs.frozen
class ToolStarted:
    """The intent: an attempt of a call is about to be sent.

    `effect` and `asks` count as they are here, whatever the tool says of itself later.
    """

    type: ClassVar = "tool.started"
    key: str
    attempt: int
    tool: str
    server: str
    arguments: Mapping[str, Any]
    """The final ones."""
    effect: EffectClass
    asks: bool
    """Whether a person decides should the outcome be unknown."""
    node: str
    fingerprint: str | None = None
    """Of the tool as it was called. Early versions did not record it."""
    facade: str | None = None
    """The name that the model called, where that stands for a whole server and `tool` for what it meant."""
    brings: Sequence[str] = ()
    """The approvals whose ends the attempt takes to the agent that asked."""


@attrs.frozen
class ToolAccepted:
    """The agent that was called has a task for the call."""

    type: ClassVar = "tool.accepted"
    key: str
    attempt: int
    remote_task: str
    context: str = ""


@attrs.frozen
class ToolFinished:
    """The attempt is over, with the result of its server."""

    type: ClassVar = "tool.finished"
    key: str
    attempt: int
    result: ToolResult
    need: Need | None = None
    """What the server wants before it does anything; with that the call goes on as the next attempt."""
    rejected: bool = False
    """A person rejected something in the agent that was called."""


@attrs.frozen
class ToolUnknown:
    """The attempt was sent, and its outcome is unknown."""

    type: ClassVar = "tool.unknown"
    key: str
    attempt: int
    reason: str


ToolEvent: TypeAlias = ToolStarted | ToolAccepted | ToolFinished | ToolUnknown

# ------------------------------------------------------------------ approvals


@attrs.frozen
class ApprovalRequested:
    """A question to people."""

    type: ClassVar = "approval.requested"
    asked: Asked[Any]


@attrs.frozen
class ApprovalResolved:
    type: ClassVar = "approval.resolved"
    id: str
    decision: Decided
    command: str
    token: bool
    """`command` came with a bearer token."""


@attrs.frozen
class ApprovalExpired:
    """The approval was not decided in time."""

    type: ClassVar = "approval.expired"
    id: str
    on_expiry: str = ""
    """The consequence: `reject`, `fail`, or `cancel` for a question of a server. Early versions did not
    record it."""


@attrs.frozen
class ApprovalVoid:
    """The question is taken back."""

    type: ClassVar = "approval.void"
    id: str
    reason: str
    superseded_by: str | None = None
    """The approval that stands in its place."""


ApprovalEnd: TypeAlias = ApprovalResolved | ApprovalExpired | ApprovalVoid
ApprovalEvent: TypeAlias = ApprovalRequested | ApprovalEnd

# ----------------------------------------------------------------------- runs


@attrs.frozen
class Origin:
    """The origin of a message, which the run's calls of other agents pass on."""

    visited: Sequence[str]
    """Ids of the agents that it came through, the first one first."""
    traceparent: str | None = None
    """W3C Trace Context."""


@attrs.frozen
class RunStarted:
    """A turn begins."""

    type: ClassVar = "run.started"
    run: str
    turn: int
    command: str
    tree_id: str
    replay_version: int
    token: bool
    """`command` came with a bearer token, which itself is never kept."""
    tree: Mapping[str, Any] | None = None
    """The full text that the run goes on with, given once per content and then named by `tree_id`."""
    task: str | None = None
    """The A2A task that the run belongs to; None: the first of the conversation, which has its id."""
    message_id: str | None = None
    """The id that the client gave its message (A2A)."""
    origin: Origin | None = None
    prompt: str | None = None
    """The system prompt, if it is another than before: the conversation's first message from now on."""


@attrs.frozen
class RunWaiting:
    """Only a person can move the run on."""

    type: ClassVar = "run.waiting"
    run: str
    on: Sequence[str]
    """The pending approvals."""
    settles: Sequence[str]
    """The commands that this answers."""
    worked: Mapping[str, float]
    """Seconds of work so far of the executions that have a limit, by key (``run``: the whole run)."""


@attrs.frozen(kw_only=True)
class RunAuthRequired:
    """The run needs a bearer token before it can call a server: the one it came with is not there any more,
    or the server wants another. `server`, `status` and `challenge` are those of `Wanted`."""

    type: ClassVar = "run.auth_required"
    run: str
    server: str
    status: int | None = None
    challenge: str | None = None
    settles: Sequence[str]
    worked: Mapping[str, float]
    """As in `RunWaiting`."""

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.server, self.status, self.challenge)


@attrs.frozen
class RunResumed:
    """A decision or a credential moves the run on."""

    type: ClassVar = "run.resumed"
    run: str
    command: str
    token: bool
    """`command` came with a bearer token."""
    answer: bool
    """The sender of `command` waits for the result of the run (not so for a message that brings a credential
    and is answered by its own run)."""


@attrs.frozen
class RunFinished:
    type: ClassVar = "run.finished"
    run: str
    text: str
    settles: Sequence[str]


@attrs.frozen
class RunFailed:
    type: ClassVar = "run.failed"
    run: str
    code: str
    message: str
    settles: Sequence[str]


@attrs.frozen
class RunCancelled:
    type: ClassVar = "run.cancelled"
    run: str
    settles: Sequence[str]


RunEnd: TypeAlias = RunFinished | RunFailed | RunCancelled
RunPause: TypeAlias = RunWaiting | RunAuthRequired
RunEvent: TypeAlias = RunStarted | RunPause | RunResumed | RunEnd

LogEvent: TypeAlias = ConversationEvent | StepEvent | ToolEvent | ApprovalEvent | RunEvent

TYPES: Mapping[str, type[LogEvent]] = {each.type: each for each in get_args(LogEvent)}

AT_REST = frozenset(each.type for each in get_args(RunPause | RunEnd))
"""After one of these, nothing in the run moves by itself."""

CONVERSATION_DELETED = "conversation.deleted"
"""Published when a conversation is deleted. It is not stored: nothing of the conversation is."""


@attrs.frozen
class Dated:
    """An event that happened at `at` (UTC seconds), before it is saved."""

    event: LogEvent
    at: float


def undated(event: LogEvent | Dated) -> LogEvent:
    return event.event if isinstance(event, Dated) else event


@attrs.frozen
class Entry:
    """An event in its place in the log of a conversation."""

    seq: int
    at: float
    event: LogEvent | None
    """None: of a type or kind that this version does not know."""


def tree_id(tree: Mapping[str, object]) -> str:
    """The name of a tree's text, to which `RunStarted` refers once the conversation holds the text.

    Equal texts have equal ids, on every machine.
    """
    text = json.dumps(tree, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
