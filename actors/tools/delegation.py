"""Work for other agents: the messages to the actor of a remote agent, in any version of A2A.

A call of a remote agent is a call like any other, of class `once`. Unlike a tool server, the agent has a task
of its own for it, which has an id and outlives connections and processes. So a call that was interrupted
is looked up and followed, and an answer of a person continues the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from ...runtime.errors import Refused
from ...runtime.message import Request
from .tool import Progress, ToolResult

SERVER = "a2a:"
"""The prefix of a remote agent's name among the servers; no tool server's name can have a colon."""

MESSAGE = "message"
"""The argument of a call that an agent is sent."""


def is_remote(server: str) -> bool:
    """Whether the server of this name is another agent."""
    return server.startswith(SERVER)


@attrs.frozen
class RemoteTask:
    """A task of another agent."""

    id: str
    context: str = ""


@attrs.frozen(kw_only=True)
class RemoteItem:
    """A question of another agent, whose task waits for the answer."""

    message: str
    """The id of the status message that asked."""
    id: str | None = None
    """The agent's id of the question; None: the message as a whole asks."""
    kind: str = ""
    """That of the approval in the agent that asks; empty: the agent does not say."""
    tool: str = ""
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    description: str = ""
    schema: Mapping[str, Any] | None = None
    """Of edited arguments, or of a form."""
    agents: Sequence[str] = ()
    """Names of the agents between that one and the one that asks."""

    @property
    def name(self) -> str:
        """The name by which the question differs from others of its task."""
        return f"message {self.message}" if self.id is None else f"item {self.id}"


@attrs.frozen
class RemoteAnswer:
    """A decision about a question of another agent."""

    item: RemoteItem
    words: Mapping[str, Any]
    """As in `Agent.decide`."""


@attrs.frozen(kw_only=True)
class Hop:
    """The part of a request that all agents on its way share."""

    session_id: str
    visited: Sequence[str] = ()
    """Ids of the agents that it came through, this one last."""
    traceparent: str | None = None
    """As it came in (W3C Trace Context)."""


class RemoteInputRequired(Refused):
    """The task waits for answers of people."""

    code: ClassVar[str] = "input_required"

    def __init__(self, items: Sequence[RemoteItem], refusals: Mapping[str, str]) -> None:
        super().__init__("the agent asks before it goes on")
        self.items = items
        self.refusals = refusals
        """By the name of the item: why the agent did not take the answer to it."""


@attrs.frozen
class Delegated:
    """The end of the agent's task."""

    result: ToolResult
    rejected: bool = False
    """A person rejected something there."""


@attrs.frozen(kw_only=True)
class Delegate(Request["RemoteAgentMessage", Delegated]):
    """Have a task worked on until it has ended or waits for somebody.

    Without a task, a message begins one. With a task, the answers that it still waits for are sent, or the
    bearer, and it is followed.

    Raises `ToolUnavailable` when the agent has accepted nothing, `RemoteInputRequired`, `ToolAuthRequired`,
    and `ToolOutcomeUnknown`.
    """

    agent: str
    """Its name here, for people."""
    text: str
    key: str
    """Of this exchange: the ids of its messages, and of its context, derive from it."""
    hop: Hop
    task: RemoteTask | None = None
    items: Sequence[RemoteItem] = ()
    """The questions that the task asked last."""
    answers: Sequence[RemoteAnswer] = ()
    """To some of these."""
    lost: bool = False
    """An earlier life may have sent this exchange."""
    may_send: bool = True
    """If the message is lost, it may be sent once more to an agent that recognizes it."""
    anew: bool = False
    """A person wants the call repeated: if the task has ended without success, or is gone, the message begins
    another."""
    bearer: str | None = attrs.field(default=None, repr=False)
    """Forwarded with this one exchange. Never stored, never logged."""
    on_sent: Callable[[], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Told just before the message leaves; must return at once."""
    on_accepted: Callable[[RemoteTask], None] | None = attrs.field(default=None, eq=False, repr=False)
    """Told the task as soon as it is known; must return at once."""
    on_progress: Callable[[Progress], None] | None = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class CancelRemote(Request["RemoteAgentMessage", None]):
    """Have the agent cancel a task, as far as that can be had within a few seconds."""

    task: RemoteTask
    hop: Hop
    bearer: str | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class LookAt(Request["RemoteAgentMessage", str | None]):
    """Why the task does not wait for the answer to this question any more; None: it still does, or the agent
    does not say."""

    task: RemoteTask
    item: RemoteItem
    hop: Hop
    bearer: str | None = attrs.field(default=None, repr=False)


@attrs.frozen
class RemoteAgentStatus:
    """The state of a remote agent, as far as it is known."""

    state: Literal["unknown", "reached", "unreachable"]
    """`unknown` before the first contact."""
    error: str | None = None


RemoteAgentMessage: TypeAlias = Delegate | CancelRemote | LookAt
