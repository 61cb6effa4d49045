"""Delegation to other agents: the messages to the actor of a remote agent, in any version of A2A.

A call of a remote agent is a call like any other, of effect class `once`. Unlike a tool server, the agent has
a task with an id for it, which outlasts connections and processes. So an interrupted call is looked up and
followed, and the answer of a person continues the task.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...runtime.errors import Refused
from ...runtime.message import Request
from .tool import Progress, ToolResult

SERVER = "a2a:"
"""The prefix of the names of remote agents among the servers. Names of tool servers have no colon."""

MESSAGE = "message"
"""The argument of a call that is sent to the agent."""

WITHHELD = "it was not sent, because this agent was halted or has lost its lease at the journal"


def _always() -> bool:
    return True


def is_remote(server: str) -> bool:
    """Return whether the server with this name is another agent."""
    return server.startswith(SERVER)


@attrs.frozen
class RemoteTask:
    """A task of another agent."""

    id: str
    context: str = ""


@attrs.frozen(kw_only=True)
class RemoteItem:
    """A question of another agent. Its task waits for the answer."""

    message: str
    """The id of the status message with the question."""
    id: str | None = None
    """The id of the question at the other agent; None if the message as a whole is the question."""
    kind: str = ""
    """The kind of the approval at the agent that asks; empty if the agent does not state it."""
    tool: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    description: str = ""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of edited arguments, or of the form."""
    agents: Sequence[str] = ()
    """The names of the agents between the other agent and the one that asks."""
    form: str = ""
    """The form in which an agent of another make asks, and wants the answer; empty: that of this runtime, or
    words. The answers to questions with a form are sent together."""
    unshown: str = ""
    """The reason why it cannot be approved: a part of it cannot be shown. Empty if all is shown."""

    @property
    def is_form(self) -> bool:
        """Whether a form has to be filled in."""
        return self.kind == "elicitation"

    @property
    def digest(self) -> str:
        """A digest of what is asked, without the ids. An agent may change it under the same ids."""
        asks = [self.kind, self.tool, self.arguments, self.description, self.schema, self.unshown]
        return hashlib.sha256(json.dumps(asks, sort_keys=True).encode()).hexdigest()

    @property
    def name(self) -> str:
        """The name of the question, unique in its task."""
        return f"message {self.message}" if self.id is None else f"item {self.id}"


@attrs.frozen
class RemoteAnswer:
    """A decision about a question of another agent."""

    item: RemoteItem
    words: Mapping[str, Any]
    """The decision, as for `Agent.decide`."""
    agrees: bool = True
    """Whether it lets the other agent go on, as opposed to ending what it asks about."""
    shown: str | None = None
    """The `RemoteItem.digest` of the question that was decided; None if it is not known."""


@attrs.frozen(kw_only=True)
class Hop:
    """The part of a request that all agents on its path share."""

    session_id: str
    visited: Sequence[str] = ()
    """The ids of the agents that it came through, ending with this one."""
    traceparent: str | None = None
    """The header of the incoming request (W3C Trace Context)."""


class RemoteInputRequired(Refused):
    """The task waits for answers of people."""

    code: ClassVar[str] = "input_required"

    def __init__(self, items: Sequence[RemoteItem], refusals: Mapping[str, str]) -> None:
        super().__init__("the agent asks before it goes on")
        self.items = items
        self.refusals = refusals
        """The reasons of refused answers, by the name of the item."""


@attrs.frozen
class Delegated:
    """The result of an ended task."""

    result: ToolResult
    rejected: bool = False
    """Whether a person rejected something there."""


@attrs.frozen(kw_only=True)
class Delegate(Request["RemoteAgentMessage", Delegated]):
    """Start or continue a task, and wait until it has ended or needs input.

    Without `task`, a message starts one. With `task`, the missing answers or the bearer token are sent, and
    the task is followed.

    Raises `ToolUnavailable` if the agent has accepted nothing, `RemoteInputRequired`, `ToolAuthRequired` or
    `ToolOutcomeUnknown`.
    """

    agent: str
    """The name of the agent in the agent file."""
    text: str
    key: str
    """The key of this exchange. The ids of its messages and its context derive from it."""
    hop: Hop
    task: RemoteTask | None = None
    items: Sequence[RemoteItem] = ()
    """The latest questions of the task, without those that it no longer asks."""
    answers: Sequence[RemoteAnswer] = ()
    """Answers to some of `items`."""
    lost: bool = False
    """Whether an earlier incarnation may have sent this exchange."""
    may_send: bool = True
    """Whether a lost message may be sent again to an agent that recognizes repeated messages."""
    anew: bool = False
    """Whether a person wants to repeat the call: if the task failed or is gone, the message starts a new
    one."""
    bearer: str | None = attrs.field(default=None, repr=False)
    """The bearer token to forward with this exchange. Never stored, never logged."""
    may_leave: Callable[[], bool] = attrs.field(default=_always, eq=False, repr=False)
    """Asked just before a message, an agreeing answer or a token is sent. It is not sent if the result is
    False. It must not block."""
    on_sent: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Called just before the message is sent. It must not block."""
    on_accepted: Callable[[RemoteTask], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Called with the task as soon as it is known. It must not block."""
    on_progress: Callable[[Progress], None] | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class CancelRemote(Request["RemoteAgentMessage", None]):
    """Cancel a task at the agent, if that succeeds within a few seconds."""

    task: RemoteTask
    hop: Hop
    bearer: str | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class LookAt(Request["RemoteAgentMessage", str | None]):
    """Return the reason why the task no longer waits for this answer; None if it does, or the agent does not
    say."""

    task: RemoteTask
    item: RemoteItem
    hop: Hop
    shown: str | None = None
    """As in `RemoteAnswer`."""
    bearer: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class RemoteAgentStatus:
    """The last known state of a remote agent."""

    state: Literal["unknown", "reached", "unreachable"]
    """`unknown` before the first contact."""
    error: str | None = None


RemoteAgentMessage: TypeAlias = Delegate | CancelRemote | LookAt
