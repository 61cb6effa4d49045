"""The calls of a node: those of its model's reply, or its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ...config.nodes import LlmNode, RemoteAgentNode
from ..calls.ask_order import ask_positions
from ..calls.call_scope import CallScope
from ..calls.dispatch import Dispatch
from ..calls.runner import CallEnd, CallRunner
from ..gate.gate import PolicyScope
from ..log import keys
from ..log.record import Tally
from ..models.messages import ToolCall
from ..tools.slots import Slots
from .node import Execute, RunScope, occasion

logger = logging.getLogger("stopgo.tools")


async def run_calls(
    scope: RunScope,
    spec: LlmNode | RemoteAgentNode,
    execute: Execute,
    policy_scope: PolicyScope,
    key: str,
    calls: Sequence[ToolCall],
) -> list[CallEnd]:
    """Settle the calls that the step `key` asked for, and return their ends. Raises `NodeFailed`."""
    log = scope.log
    call_scope = _call_scope(scope, spec, execute, policy_scope)
    dispatch = Dispatch(call_scope, Slots(scope.services.config.tools.max_parallel))
    runners = [CallRunner(call_scope, dispatch, position) for position in ask_positions(len(calls))]
    jobs = [
        partial(runner.run, keys.call(key, index), call)
        for index, (runner, call) in enumerate(zip(runners, calls, strict=True))
    ]
    ends = await log.branches.gather(*jobs, work_timers=execute.work_timers)
    if key not in log.run.batches:
        tally = log.run.tallies.get(key, Tally())
        finished = tally.finished(key, spec.name, [end.outcome for end in ends])
        await log.save_soon(finished)
        logger.info("%s", finished.line)
    return ends


def _call_scope(
    scope: RunScope, spec: LlmNode | RemoteAgentNode, execute: Execute, policy_scope: PolicyScope
) -> CallScope:
    services = scope.services
    return CallScope(
        log=scope.log,
        registry=services.registry,
        halts=services.halts,
        arguments=services.arguments,
        authorization=services.authorization,
        tokens=services.tokens,
        observer=services.observer,
        searching=scope.searching,
        policy_scope=policy_scope,
        node=spec.name,
        can_exit_loop=isinstance(spec, LlmNode) and spec.can_exit_loop,
        work_timers=execute.work_timers,
        max_calls=services.config.limits.max_tool_calls,
        agent_id=services.agent_id,
        occasion=partial(occasion, scope, spec, execute),
    )
