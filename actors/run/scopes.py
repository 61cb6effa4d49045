"""The data that the nodes of one run share, and those that the calls of one node share."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs
import trio

from ...config.sections.nodes import ITERATION, BaseNode, LlmNode, Node, RemoteAgentNode
from ...config.sections.placeholders import USER_MESSAGE
from ...runtime.context import Behaviour
from ...runtime.message import Request
from ..approvals.asked import Occasion
from ..gate.gate import PolicyScope
from ..gate.policy import Policy
from ..log.fold.record import RecordedExchange
from ..log.words.events import Origin
from ..log.words.outcomes import NodeEnd
from ..log.writer.branches import WorkTimers
from ..log.writer.log import ConversationLog
from ..tools.delegation import Hop
from ..tools.tokens import Token
from .services import Services

SessionState: TypeAlias = Mapping[str, str]
"""Session state: the outputs of nodes with an `output_key`. Each branch has its own copy."""


@attrs.frozen
class Execute(Request["Execute", NodeEnd]):
    """Run this node once. Raises `NodeFailed`."""

    key: str
    """The key of this execution, and the beginning of the keys of its steps."""
    path: tuple[int, ...]
    """The path of the node: indices from the root."""
    session: SessionState
    policy_scope: PolicyScope
    """The policy scope above the node."""
    iteration: int = 0
    """The iteration of the nearest loop above, from 1; 0 outside loops."""
    work_timers: WorkTimers = ()

    def values(self, user: str) -> SessionState:
        """Return the values of placeholders in this execution."""
        values = {**self.session, USER_MESSAGE: user}
        if self.iteration:
            values[ITERATION] = str(self.iteration)
        return values


@attrs.frozen(eq=False)
class RunScope:
    """The data that the nodes of one run share."""

    services: Services
    log: ConversationLog
    turn: int
    user: str
    """The user message of the turn."""
    earlier: tuple[RecordedExchange, ...]
    node: Callable[[Node, RunScope], Behaviour[Execute]]
    """Returns the behaviour of a node of any kind."""
    policy: Policy
    """The policy by which its calls are judged."""
    keys: frozenset[str] = frozenset()
    """The keys that nodes of the tree write."""
    missed: set[str] = attrs.field(factory=set)
    """Keys of which a prompt had no value, so that each is told once."""
    searching: trio.Lock = attrs.field(factory=trio.Lock)
    """Held while rules or routes search for patterns: one search at a time per run."""

    def occasion(self, spec: BaseNode, execute: Execute, question: str, key: str | None = None) -> Occasion:
        """Return the occasion of a question about a node, or about its call `key`."""
        run = self.log.run
        return Occasion(
            id=str(uuid.uuid4()),
            question=question,
            key=key or execute.key,
            node=spec.name,
            path=execute.path,
            output_key=spec.output_key or "",
            session_state=execute.session,
            user_message=self.user,
            requester=None if run.started.program else run.started.by,
        )

    def expiry(self, policy_scope: PolicyScope) -> float | None:
        """Return the expiry of a question asked now at this policy scope, in UTC seconds; None if it does not
        expire."""
        after = policy_scope.policy.expires_after
        return None if after is None else self.log.wall() + after


@attrs.frozen(eq=False)
class CallScope:
    """The scope of the run, and the data that the calls of one execution of a node share."""

    run: RunScope
    spec: LlmNode | RemoteAgentNode
    execute: Execute
    policy_scope: PolicyScope
    """The policy scope at the node."""

    @property
    def services(self) -> Services:
        return self.run.services

    @property
    def log(self) -> ConversationLog:
        return self.run.log

    @property
    def work_timers(self) -> WorkTimers:
        return self.execute.work_timers

    @property
    def can_exit_loop(self) -> bool:
        return isinstance(self.spec, LlmNode) and self.spec.can_exit_loop

    @property
    def draining(self) -> trio.Event:
        """Set when the shutdown of the process begins."""
        return self.log.branches.active_runs.draining

    def token(self, key: str) -> Token | None:
        """The bearer token that the call has now."""
        return self.services.tokens.get(self.log.state.id, self.log.run.command_of(key))

    def hop(self, key: str, attempt: int) -> Hop:
        """The metadata of the requests of a call to another agent."""
        hop = hop_of(self.log, self.services.agent_id)
        return attrs.evolve(hop, traceparent=self.traceparent(key, attempt))

    def traceparent(self, key: str, attempt: int) -> str | None:
        """The trace that an attempt of a call belongs to (W3C Trace Context)."""
        return self.log.observer.traceparent(self.log.state, key, attempt) or self.log.run.traceparent

    def occasion(self, question: str, key: str) -> Occasion:
        """The occasion of a question about the call `key`."""
        return self.run.occasion(self.spec, self.execute, question, key)

    def expires(self) -> float | None:
        """The expiry of a question that is put now, in UTC seconds."""
        return self.run.expiry(self.policy_scope)


def hop_of(log: ConversationLog, agent_id: str) -> Hop:
    """The metadata of all requests of the live run to other agents."""
    origin = log.run.origin or Origin(())
    return Hop(
        session_id=log.state.head.session_id,
        visited=(*origin.visited, agent_id),
        traceparent=origin.traceparent,
    )
