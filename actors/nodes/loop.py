"""Loop: runs its children in order, repeatedly, until one exits or the iterations are used up (FR-024)."""

from __future__ import annotations

import attrs

from ...config.sections.nodes import LoopNode
from ...runtime.context import Behaviour, Context
from ..gate.gate import child_scope
from ..log.words import keys
from ..log.words.outcomes import NodeEnd
from ..run.scopes import Execute, RunScope
from .node import execute_once
from .sequential import run_in_order


def loop(spec: LoopNode, scope: RunScope) -> Behaviour[Execute]:
    """Outputs the last text. It ends normally after `exit_loop` or the last iteration, and after a rejection
    like a sequential node."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            writes: dict[str, str] = {}
            text = ""
            for iteration in range(1, spec.max_iterations + 1):
                inner = attrs.evolve(
                    execute,
                    key=keys.iteration(execute.key, iteration),
                    session={**execute.session, **writes},
                    policy_scope=child_scope(execute.policy_scope, spec),
                    iteration=iteration,
                )
                end = await run_in_order(ctx, scope, spec.agents, inner)
                writes.update(end.writes)
                text = end.text or text
                if end.stops:
                    rejected = end.rejected and spec.on_reject == "end"
                    return NodeEnd(text, rejected=rejected, writes=writes)
            return NodeEnd(text, writes=writes)

        await execute_once(ctx, run)

    return behaviour
