"""The calls of a node: those of its model's reply, or its own."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from ...config.sections.nodes import LlmNode, RemoteAgentNode
from ..calls.ask_order import ask_positions
from ..calls.dispatch import Dispatch
from ..calls.runner import CallEnd, CallRunner
from ..gate.gate import PolicyScope
from ..log.fold.record import Tally
from ..log.words import keys
from ..models.messages.messages import ToolCall
from ..run.scopes import CallScope, Execute, RunScope
from ..tools.slots import Slots

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
    call_scope = CallScope(scope, spec, execute, policy_scope)
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
