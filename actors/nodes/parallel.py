"""Parallel: runs its children concurrently, each with its own copy of the session state."""

from __future__ import annotations

from functools import partial

import attrs

from ...config.sections.nodes import Node, ParallelNode
from ...runtime.context import Behaviour, Context
from ..common.errors import NodeFailed
from ..gate.gate import child_scope
from ..log.words import keys
from ..log.words.outcomes import NodeEnd
from ..log.writer.branches import BranchLimiter
from ..run.scopes import Execute, RunScope
from .child import in_place_of_answer, rejection, run_child
from .node import execute_once


def parallel(spec: ParallelNode, scope: RunScope) -> Behaviour[Execute]:
    """Outputs the texts joined by newlines, in the order of the YAML. Writes are merged in that order as
    well, so the write of a later branch replaces that of an earlier one.

    With `fail_fast`, the first failure stops the other branches. With `collect`, the text of a failed branch
    is its error. After a rejection or `exit_loop`, the other branches finish. After a rejection that ends a
    node above, branches that wait for their turn (`max_concurrency`) do not start and have no text.
    """

    async def behaviour(ctx: Context[Execute]) -> None:
        async def run(execute: Execute) -> NodeEnd:
            limiter = BranchLimiter(spec.max_concurrency or len(spec.agents))
            inner = attrs.evolve(execute, policy_scope=child_scope(execute.policy_scope, spec))
            branches = [
                partial(_branch, ctx, scope, spec, child, index, inner, limiter)
                for index, child in enumerate(spec.agents)
            ]
            results = await scope.log.branches.gather(*branches, work_timers=execute.work_timers)
            ends = [end for end in results if end is not None]
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
    limiter: BranchLimiter,
) -> NodeEnd | None:
    """Return None if the branch did not start because of a rejection."""
    message = attrs.evolve(execute, key=keys.child(execute.key, index), path=(*execute.path, index))
    try:
        async with scope.log.branches.limited(limiter, message.work_timers):
            waited = spec.max_concurrency is not None and not _began(scope, message.key)
            ends = waited and execute.policy_scope.ends_on_reject
            if ends and rejection(scope, spec, execute, execute.key):
                return None
            return await run_child(ctx, scope, child, message)
    except NodeFailed as error:
        if error.fatal or spec.on_error == "fail_fast":
            raise
        return in_place_of_answer(scope, child, message, NodeEnd(f"Error in {child.name}: {error}"))


def _began(scope: RunScope, key: str) -> bool:
    """Return whether this execution is in the record, so that it was interrupted by a crash and continues."""
    records = (*scope.log.run.steps, *scope.log.run.asked)
    return any(each.startswith(key) and not each[len(key) :][:1].isdigit() for each in records)
