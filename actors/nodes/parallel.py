"""Parallel: children side by side, each on its own copy of the session state."""

from __future__ import annotations

from functools import partial

import attrs

from ...config.nodes import Node, ParallelNode
from ...runtime.context import Behaviour, Context
from ..gate.gate import children_place
from ..log.activity import Turns
from .child import run_child
from .node import Execute, NodeEnd, NodeFailed, RunScope, execute_once


def parallel(spec: ParallelNode, scope: RunScope) -> Behaviour[Execute]:
    """Ends with the texts joined by newline, in the order of the YAML; writes merge in that order too, so of
    two writes to one key the later branch's stands.

    With `fail_fast` the first failure stops the others; with `collect` a failed branch's text is its error.
    A rejection or an `exit_loop` lets the other branches settle.
    """

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            turns = Turns(spec.max_concurrency or len(spec.agents))
            inner = attrs.evolve(execute, place=children_place(execute.place, spec))
            branches = [
                partial(_branch, ctx, scope, spec, child, index, inner, turns)
                for index, child in enumerate(spec.agents)
            ]
            ends = await scope.log.gather(*branches, meters=execute.meters)
            writes: dict[str, str] = {}
            for end in ends:
                writes.update(end.writes)
            return NodeEnd(
                "\n".join(end.text for end in ends),
                rejected=any(end.rejected for end in ends),
                exited=any(end.exited for end in ends),
                writes=writes,
            )

        await execute_once(ctx, run)

    return behaviour


async def _branch(
    ctx: Context[Execute],
    scope: RunScope,
    spec: ParallelNode,
    child: Node,
    index: int,
    execute: Execute,
    turns: Turns,
) -> NodeEnd:
    message = attrs.evolve(execute, key=f"{execute.key}.{index}", path=(*execute.path, index))
    try:
        async with scope.log.turn(turns, message.meters):
            return await run_child(ctx, scope, child, message)
    except NodeFailed as error:
        if error.fatal or spec.on_error == "fail_fast":
            raise
        return NodeEnd(f"Error in {child.name}: {error}")
