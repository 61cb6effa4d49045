"""Parallel: children side by side, each on its own copy of the session state."""

from __future__ import annotations

from functools import partial

import attrs

from stopgo.actors.nodes.node import Execute, NodeEnd, RunScope, execute_once, run_child
from stopgo.config.model import ParallelNode
from stopgo.runtime.context import Behaviour, Context


def parallel(spec: ParallelNode, scope: RunScope) -> Behaviour[Execute]:
    """Ends with the texts joined by newline, in the order of the YAML; writes merge in that order too.

    The first failure fails it and stops the others. A rejection lets the other branches settle.
    """

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            place = attrs.evolve(execute.place, in_parallel=True)
            branches = [
                partial(run_child, ctx, scope, child, (*execute.path, index), execute.session, place)
                for index, child in enumerate(spec.agents)
            ]
            ends = await scope.log.gather(*branches)
            writes: dict[str, str] = {}
            for end in ends:
                writes.update(end.writes)
            text = "\n".join(end.text for end in ends)
            return NodeEnd(text, rejected=any(end.rejected for end in ends), writes=writes)

        await execute_once(ctx, run)

    return behaviour
