"""The common parts of all nodes: the `Execute` message, the scope of a run, and prompts."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import attrs
import trio

from ...config.nodes import ITERATION, BaseNode, Node
from ...config.placeholders import PLACEHOLDER, USER_MESSAGE
from ...runtime.context import Behaviour, Context
from ...runtime.message import Request
from ..approvals.asked import Occasion
from ..gate.gate import PolicyScope
from ..log.branches import WorkTimers
from ..log.log import ConversationLog
from ..log.outcomes import NodeEnd
from ..log.record import RecordedExchange
from .services import Services

logger = logging.getLogger(__name__)

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
    keys: frozenset[str] = frozenset()
    """The keys that nodes of the tree write."""
    missed: set[str] = attrs.field(factory=set)
    """Keys of which a prompt had no value, so that each is told once."""
    searching: trio.Lock = attrs.field(factory=trio.Lock)
    """Held while rules or routes search for patterns."""


def occasion(
    scope: RunScope, spec: BaseNode, execute: Execute, question: str, key: str | None = None
) -> Occasion:
    """Return the occasion of a question about a node, or about its call `key`."""
    return Occasion(
        id=str(uuid.uuid4()),
        question=question,
        key=key or execute.key,
        node=spec.name,
        path=execute.path,
        output_key=spec.output_key or "",
        session_state=execute.session,
        user_message=scope.user,
        requester=None if scope.log.run.program else scope.log.run.requester,
    )


def expiry(scope: RunScope, policy_scope: PolicyScope) -> float | None:
    """Return the expiry of a question asked now at this policy scope, in UTC seconds; None if it does not
    expire."""
    after = policy_scope.policy.expires_after
    return None if after is None else scope.services.wall() + after


async def execute_once(ctx: Context[Execute], execute: Callable[[Execute], Awaitable[NodeEnd]]) -> None:
    """Serve a single `Execute` and end the actor of the node."""

    async def handle(message: Execute) -> NodeEnd:
        ctx.stop()
        return await execute(message)

    await ctx.serve(handle)


def fill(prompt: str, scope: RunScope, execute: Execute) -> str:
    """Replace every `{key}` that has a value, and those of keys that nodes of the tree have not written yet;
    the others stay as they are (FR-025)."""
    values = placed_values(prompt, scope, execute)
    return PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), prompt)


def placed_values(prompt: str, scope: RunScope, execute: Execute) -> dict[str, str]:
    """The values that `fill` puts in place of the placeholders of a prompt, by the placeholder as it is
    written."""
    values = execute.values(scope.user)
    placed: dict[str, str] = {}
    for found in PLACEHOLDER.finditer(prompt):
        key, mark = found.groups()
        if key in values:
            placed[found[0]] = values[key]
        elif key in scope.keys:
            placed[found[0]] = ""
            if not mark and key not in scope.missed:
                scope.missed.add(key)
                logger.warning("a prompt has {%s}, which no node has written yet: it is empty", key)
    return placed
