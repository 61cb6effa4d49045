"""Sequential: runs its children in order, each with the session state of the earlier ones."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ...config.sections.nodes import Node, SequentialNode
from ...runtime.context import Behaviour, Context
from ..gate.gate import child_scope
from ..log.words import keys
from ..log.words.outcomes import NodeEnd
from ..run.scopes import Execute, RunScope
from .child import run_child
from .node import execute_once


def sequential(spec: SequentialNode, scope: RunScope) -> Behaviour[Execute]:
    """Outputs the text of its last child. After a rejection, it starts no further child, and neither do the
    nodes above (FR-026), unless `on_reject` contains the rejection here."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            inner = attrs.evolve(execute, policy_scope=child_scope(execute.policy_scope, spec))
            end = await run_in_order(ctx, scope, spec.agents, inner)
            return attrs.evolve(end, rejected=end.rejected and spec.on_reject == "end")

        await execute_once(ctx, run)

    return behaviour


async def run_in_order(
    ctx: Context[Execute], scope: RunScope, children: Sequence[Node], execute: Execute
) -> NodeEnd:
    """Run children in order until one ends the sequence. `execute` is the parent's, with the policy scope of
    the children."""
    writes: dict[str, str] = {}
    text = ""
    for index, child in enumerate(children):
        message = attrs.evolve(
            execute,
            key=keys.child(execute.key, index),
            path=(*execute.path, index),
            session={**execute.session, **writes},
        )
        end = await run_child(ctx, scope, child, message)
        writes.update(end.writes)
        text = end.text or text
        if end.stops:
            return attrs.evolve(end, text=text, writes=writes)
    return NodeEnd(text, writes=writes)
