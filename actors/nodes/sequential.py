"""Sequential: children one after the other, each with what the earlier ones left in the session state."""

from __future__ import annotations

import attrs

from stopgo.actors.nodes.node import Execute, NodeEnd, RunScope, execute_once, run_child
from stopgo.actors.result import CANCELLED
from stopgo.config.model import SequentialNode
from stopgo.runtime.context import Behaviour, Context


def sequential(spec: SequentialNode, scope: RunScope) -> Behaviour[Execute]:
    """Ends with its last child's text; after a rejection it starts no further child (FR-026)."""

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            place = attrs.evolve(execute.place, in_sequence=True)
            writes: dict[str, str] = {}
            text = ""
            for index, child in enumerate(spec.agents):
                session = {**execute.session, **writes}
                end = await run_child(ctx, scope, child, (*execute.path, index), session, place)
                writes.update(end.writes)
                if end.rejected:
                    return NodeEnd(CANCELLED, writes=writes)
                text = end.text
            return NodeEnd(text, writes=writes)

        await execute_once(ctx, run)

    return behaviour
