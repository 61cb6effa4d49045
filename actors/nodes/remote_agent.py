"""Remote agent (`type: a2a`): delegates to another agent, as if a model had called it."""

from __future__ import annotations

import attrs

from ...config.sections.nodes import RemoteAgentNode
from ...runtime.context import Behaviour, Context
from ..approvals.decided import CANCELLED
from ..common.errors import NodeFailed
from ..gate.gate import PolicyScope, descend
from ..log.words import keys
from ..log.words.outcomes import Delegation, NodeEnd, StepFailed
from ..log.writer.step import step
from ..models.messages.messages import ToolCall
from ..run.scopes import Execute, RunScope
from ..tools.delegation import MESSAGE
from .node import execute_once, fill
from .node_calls import run_calls


def remote_agent(spec: RemoteAgentNode, scope: RunScope) -> Behaviour[Execute]:
    """Outputs the answer of the agent. Fails if the agent is unreachable or fails."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            own = descend(execute.policy_scope, spec)
            policy_scope = attrs.evolve(own, agents=(spec.remote,), tools=None)
            return await _delegate(spec, scope, execute, policy_scope)

        await execute_once(ctx, run)

    return behaviour


async def _delegate(
    spec: RemoteAgentNode, scope: RunScope, execute: Execute, policy_scope: PolicyScope
) -> NodeEnd:
    key = keys.reply(execute.key, 1)

    async def work() -> Delegation:
        text = fill(spec.prompt, scope, execute)
        return Delegation(ToolCall("call_1_0", f"a2a_{spec.remote}", {MESSAGE: text}))

    delegation = await step(scope.log, key, Delegation, spec.name, work)
    if isinstance(delegation, StepFailed):
        raise NodeFailed.of(delegation.error)
    [end] = await run_calls(scope, spec, execute, policy_scope, key, [delegation.call])
    if end.rejected and policy_scope.ends_on_reject:
        return NodeEnd(end.content if end.expired else CANCELLED, rejected=True)
    if end.is_error and not end.rejected:
        raise NodeFailed("delegation_failed", end.content)
    return NodeEnd(end.content)
