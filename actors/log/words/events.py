"""The events of a conversation.

The same events are stored, streamed to clients and audited. A conversation is the fold of its events
(`state.py`), and everything else that is stored about it can be rebuilt from them. `event_json.py` has their
stored form: a new field needs a default, which is not stored. `keys.py` defines the keys of steps, calls and
questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, TypeAlias, get_args

import attrs

from ...approvals.asked import Asked
from ...approvals.decided import Decided
from ...tools.needs import Need, Wanted
from ...tools.pictures import Picture
from ...tools.tool import EffectClass, ToolResult
from ...tools.verdict_facts import VerdictFacts
from .outcomes import StepKind, StepOutcome

REPLAY_VERSION = 1
"""Incremented when the same tree would take a different path over the same log."""

# ------------------------------------------------------------ the conversation


@attrs.frozen
class ConversationCreated:
    type: ClassVar = "conversation.created"
    session_id: str
    prompt: str
    """The system prompt. It is the conversation's first message until a run has a different one."""
    owner: str | None = None
    """The id of the principal that created it; None without authentication."""
    context: str | None = None
    """The id that an A2A client chose for it, if it is not the id of the conversation. Each principal has a
    name space of its own."""


@attrs.frozen
class MessageAdded:
    """A message of the user."""

    type: ClassVar = "message.added"
    text: str
    command: str
    """The key of the command in the inbox."""
    by: str | None = None
    """The id of the principal that sent the command; None without authentication. So in all events."""
    pictures: Sequence[Picture] = ()
    """The pictures of the message. `text` names each."""


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
    by: str | None = None


ConversationEvent: TypeAlias = ConversationCreated | MessageAdded | StateSet | ConversationCompleted

# ---------------------------------------------------------------------- steps


@attrs.frozen(kw_only=True)
class StepFinished:
    """A step has its outcome. A replay takes it from here."""

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
    """All tool calls of the model reply `key` have ended. Durations are in seconds."""

    type: ClassVar = "batch.finished"
    key: str
    node: str
    size: int
    concurrency: int
    """The maximum number of calls in flight at the same time."""
    duration: float
    """Time with at least one call in flight."""
    average_duration: float
    """Average duration of an attempt."""
    succeeded: int
    failed: int
    rejected: int = 0
    """The calls that a person rejected, or whose approval expired. Earlier events count them as failed."""

    @property
    def line(self) -> str:
        """The log line about this batch."""
        figures = attrs.asdict(self, filter=lambda field, _: field.name not in ("key", "node"))
        text = " ".join(f"{name}={value}" for name, value in figures.items())
        return f'calls of node "{self.node}" settled: {text}'


StepEvent: TypeAlias = StepFinished | BatchFinished

# ----------------------------------------------------------------- tool calls


@attrs.frozen
class ToolStarted:
    """The intent: an attempt of a call is about to be sent.

    `effect` and `asks` are fixed here: later changes of the tool's hints do not weaken them.
    """

    type: ClassVar = "tool.started"
    key: str
    attempt: int
    tool: str
    server: str
    arguments: Mapping[str, Any]
    """The arguments that are sent, after edits."""
    effect: EffectClass
    asks: bool
    """If the outcome becomes unknown, ask a human."""
    node: str
    fingerprint: str | None = None
    """The fingerprint of the tool as it was called. Early versions did not record it."""
    facade: str | None = None
    """The name that the model called, if that is a server facade; `tool` is the tool behind it."""
    brings: Sequence[str] = ()
    """The approvals whose ends this attempt delivers to the agent that asked."""
    verdict: VerdictFacts | None = None
    """The facts of the gate's verdict. Early versions did not record them."""


@attrs.frozen
class ToolAccepted:
    """The called agent has accepted the call as a task."""

    type: ClassVar = "tool.accepted"
    key: str
    attempt: int
    remote_task: str
    context: str = ""


@attrs.frozen
class ToolFinished:
    """The attempt has ended, and the server's answer is known."""

    type: ClassVar = "tool.finished"
    key: str
    attempt: int
    result: ToolResult
    need: Need | None = None
    """The prerequisite that the server demands before it acts; the call continues with the next attempt."""
    rejected: bool = False
    """A person rejected something in the called agent."""


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
    """A human has to decide something."""

    type: ClassVar = "approval.requested"
    asked: Asked[Any]


@attrs.frozen
class ApprovalVoted:
    """A person has approved, and the approval needs more persons."""

    type: ClassVar = "approval.voted"
    id: str
    by: str
    """The id of the principal."""
    subject: str
    """The hash of what the vote is about; a vote about another hash starts the count again."""
    voters: Sequence[str]
    """The principals whose votes count now, oldest vote first."""
    needed: int
    """The number of votes that decide."""
    decision: Decided
    command: str


@attrs.frozen
class ApprovalResolved:
    type: ClassVar = "approval.resolved"
    id: str
    decision: Decided
    command: str
    token: bool
    """`command` came with a bearer token."""
    subject: str | None = None
    """With a quorum, as in `ApprovalVoted`, like `voters`. The last voter made the decision."""
    voters: Sequence[str] = ()


@attrs.frozen
class ApprovalExpired:
    """The approval expired before a decision."""

    type: ClassVar = "approval.expired"
    id: str
    on_expiry: str = ""
    """The consequence: `reject`, `fail`, or `cancel` for a question of a server. Early versions did not
    record it."""


@attrs.frozen
class ApprovalVoid:
    """The approval is void: it was withdrawn before a decision."""

    type: ClassVar = "approval.void"
    id: str
    reason: str
    superseded_by: str | None = None
    """The approval that replaces it."""


ApprovalEnd: TypeAlias = ApprovalResolved | ApprovalExpired | ApprovalVoid
ApprovalEvent: TypeAlias = ApprovalRequested | ApprovalVoted | ApprovalEnd

# ----------------------------------------------------------------------- runs


@attrs.frozen
class Origin:
    """The origin of a message. The run passes it on when it calls other agents."""

    visited: Sequence[str]
    """Ids of the agents that the message came through, oldest first."""
    traceparent: str | None = None
    """W3C Trace Context."""


@attrs.frozen
class RunStarted:
    """A turn has begun."""

    type: ClassVar = "run.started"
    run: str
    turn: int
    command: str
    tree_id: str
    replay_version: int
    token: bool
    """`command` came with a bearer token. The token itself is never stored."""
    tree: Mapping[str, Any] | None = None
    """The tree that the run executes. Stored once per conversation and content, then only as `tree_id`."""
    task: str | None = None
    """The A2A task that the run belongs to; None: the first of the conversation, which has its id."""
    message_id: str | None = None
    """The client's id of the message (A2A)."""
    origin: Origin | None = None
    prompt: str | None = None
    """The system prompt, if it has changed; it becomes the conversation's first message."""
    by: str | None = None
    """The requester: the principal that sent the message."""
    program: bool = False
    """The requester is a program or a relay, although its credential names a subject."""
    policy: str | None = None
    """The revision of the policy. Early versions did not record it."""


@attrs.frozen
class RunWaiting:
    """The run is blocked: it waits for decisions."""

    type: ClassVar = "run.waiting"
    run: str
    on: Sequence[str]
    """The pending approvals."""
    settles: Sequence[str]
    """The commands whose senders get this as their answer."""
    worked: Mapping[str, float]
    """Seconds of work so far of the executions with a time limit, by key (``run``: the whole run)."""


@attrs.frozen(kw_only=True)
class RunAuthRequired:
    """The run is blocked: it needs a bearer token for a server. Its token is no longer in memory, or the
    server refused it. `server`, `status` and `challenge` are those of `Wanted`."""

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
    """A decision or a token moves the run on."""

    type: ClassVar = "run.resumed"
    run: str
    command: str
    token: bool
    """`command` came with a bearer token."""
    answer: bool
    """The sender of `command` waits for the result of this run. False for a queued message that lends its
    token: its own run answers it."""
    by: str | None = None


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
    by: str | None = None


RunEnd: TypeAlias = RunFinished | RunFailed | RunCancelled
RunPause: TypeAlias = RunWaiting | RunAuthRequired
RunEvent: TypeAlias = RunStarted | RunPause | RunResumed | RunEnd

LogEvent: TypeAlias = ConversationEvent | StepEvent | ToolEvent | ApprovalEvent | RunEvent

TYPES: Mapping[str, type[LogEvent]] = {each.type: each for each in get_args(LogEvent)}

AT_REST = frozenset(each.type for each in get_args(RunPause | RunEnd))
"""After one of these, no branch of the run is active."""

CONVERSATION_DELETED = "conversation.deleted"
"""Published when a conversation is deleted, and not stored."""


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
    """None if this version does not know its type or kind."""
