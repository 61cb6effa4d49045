"""The context that all tool calls of one execution of a node share."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from ...runtime.ref import ActorRef
from ..approvals.asked import Occasion
from ..gate.gate import PolicyScope
from ..gate.halt import Halts
from ..log.branches import WorkTimers
from ..log.events import Origin
from ..log.log import ConversationLog
from ..log.observer import Observer
from ..tools.arguments import CheckedArguments
from ..tools.authorization import Authorization
from ..tools.delegation import Hop
from ..tools.registry import RegistryMessage
from ..tools.tokens import Token, Tokens


@attrs.frozen(eq=False, kw_only=True)
class CallScope:
    log: ConversationLog
    registry: ActorRef[RegistryMessage]
    halts: Halts
    arguments: CheckedArguments
    authorization: Authorization
    tokens: Tokens
    observer: Observer
    searching: trio.Lock
    """Held while the gate searches for patterns: one search at a time per run."""
    policy_scope: PolicyScope
    node: str
    can_exit_loop: bool
    work_timers: WorkTimers
    max_calls: int | None
    """The maximum number of calls that the run may send."""
    agent_id: str
    """This agent's id, for other agents."""
    occasion: Callable[[str, str], Occasion]
    """Makes the `Occasion` of a question from the keys of the question and of the call."""

    def token(self, key: str) -> Token | None:
        """The bearer token that the call has now."""
        return self.tokens.get(self.log.state.id, self.log.run.command_of(key))

    def hop(self, key: str, attempt: int) -> Hop:
        """The metadata of the requests of a call to another agent."""
        return attrs.evolve(hop_of(self.log, self.agent_id), traceparent=self.traceparent(key, attempt))

    def traceparent(self, key: str, attempt: int) -> str | None:
        """The trace that an attempt of a call belongs to (W3C Trace Context)."""
        observed = self.observer.traceparent(self.log.state, key, attempt)
        origin = self.log.run.origin
        return observed or (None if origin is None else origin.traceparent)

    @property
    def draining(self) -> trio.Event:
        """Set when the shutdown of the process begins."""
        return self.log.branches.active_runs.draining

    def expires(self) -> float | None:
        """The expiry of a question that is put now, in UTC seconds."""
        after = self.policy_scope.policy.expires_after
        return None if after is None else self.log.wall() + after


def hop_of(log: ConversationLog, agent_id: str) -> Hop:
    """The metadata of all requests of the live run to other agents."""
    origin = log.run.origin or Origin(())
    return Hop(
        session_id=log.state.head.session_id,
        visited=(*origin.visited, agent_id),
        traceparent=origin.traceparent,
    )
