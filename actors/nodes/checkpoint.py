"""Checkpoint (`type: approval`): a person decides whether the run continues."""

from __future__ import annotations

from functools import partial

from ...config.sections.nodes import CheckpointNode
from ...runtime.context import Behaviour, Context
from ..approvals.checkpoint_approval import CheckpointQuestion, verdict_text
from ..approvals.decided import CANCELLED, EXPIRED, Expired
from ..approvals.requirement import requirement_of
from ..approvals.yes_or_no import Approved, Respond
from ..common.errors import NodeFailed
from ..gate.gate import descend
from ..log.words import keys
from ..log.words.outcomes import NodeEnd
from ..run.scopes import Execute, RunScope
from .node import execute_once, placed_values


def checkpoint(spec: CheckpointNode, scope: RunScope) -> Behaviour[Execute]:
    """Outputs the decision. A rejection ends the sequential nodes and loops above, as for a tool call."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            ask = partial(_question, spec, scope, execute)
            decision = await scope.log.decision(keys.permission(execute.key, 0), ask, execute.work_timers)
            if isinstance(decision, Expired) and decision.fails:
                text = f'the checkpoint "{spec.name}" was not answered in time'
                raise NodeFailed("approval_expired", text, fatal=True)
            policy_scope = descend(execute.policy_scope, spec)
            no = not isinstance(decision, Approved)
            if no and policy_scope.ends_on_reject:
                return NodeEnd(EXPIRED if isinstance(decision, Expired) else CANCELLED, rejected=True)
            assert not isinstance(decision, Respond), "only tool calls are answered with a text"
            return NodeEnd(verdict_text(decision))

        await execute_once(ctx, run)

    return behaviour


def _question(spec: CheckpointNode, scope: RunScope, execute: Execute) -> CheckpointQuestion:
    policy_scope = descend(execute.policy_scope, spec)
    return CheckpointQuestion.about(
        scope.occasion(spec, execute, keys.permission(execute.key, 0)),
        message=spec.message,
        values=placed_values(spec.message, scope, execute),
        requires=requirement_of(spec),
        expires=scope.expiry(policy_scope),
        on_expiry=policy_scope.policy.on_expiry,
    )
