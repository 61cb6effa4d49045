"""The common parts of all nodes: the end of a node's actor, and prompts."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from ...config.sections.placeholders import PLACEHOLDER
from ...runtime.context import Context
from ..log.words.outcomes import NodeEnd
from ..run.scopes import Execute, RunScope

logger = logging.getLogger(__name__)


async def execute_once(ctx: Context[Execute], execute: Callable[[Execute], Awaitable[NodeEnd]]) -> None:
    """Serve a single `Execute` and end the actor of the node."""

    async def handle(message: Execute) -> NodeEnd:
        ctx.stop()
        return await execute(message)

    await ctx.serve(handle)


def fill(prompt: str, scope: RunScope, execute: Execute) -> str:
    """Replace every `{key}` that has a value, and those of keys that nodes of the tree have not written yet;
    the others stay as they are (FR-025)."""
    values = placed_values(prompt, scope, execute)
    return PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), prompt)


def placed_values(prompt: str, scope: RunScope, execute: Execute) -> dict[str, str]:
    """The values that `fill` puts in place of the placeholders of a prompt, by the placeholder as it is
    written."""
    values = execute.values(scope.user)
    placed: dict[str, str] = {}
    for found in PLACEHOLDER.finditer(prompt):
        key, mark = found.groups()
        if key in values:
            placed[found[0]] = values[key]
        elif key in scope.keys:
            placed[found[0]] = ""
            if not mark and key not in scope.missed:
                scope.missed.add(key)
                logger.warning("a prompt has {%s}, which no node has written yet: it is empty", key)
    return placed
