"""Searches for patterns, outside of the event loop: one may keep a core busy for its whole time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import trio

from ...config.approval import Condition, Rule
from ..tools.tool import Tool
from .gate import Place, Verdict, judge, misfit

Args = TypeVarTuple("Args")
T = TypeVar("T")

_ONE = trio.CapacityLimiter(1)
"""Searches of different calls take turns: several at once would only share the time limit of each."""


async def judged(tool: Tool, arguments: Mapping[str, Any], place: Place) -> Verdict:
    """What `judge` says of a call."""
    rules = (rule for rule in place.policy.rules if misfit(rule, tool, place) is None)
    return await aside(_conditions(rules), judge, tool, arguments, place)


async def aside(conditions: Iterable[Condition], decide: Callable[[*Args], T], *args: *Args) -> T:
    """What `decide` returns; it runs in a thread if one of the conditions that it looks at has a pattern."""
    if all(condition.matches is None for condition in conditions):
        await trio.lowlevel.checkpoint()
        return decide(*args)
    return await trio.to_thread.run_sync(decide, *args, abandon_on_cancel=True, limiter=_ONE)


def _conditions(rules: Iterable[Rule]) -> Iterable[Condition]:
    return (condition for rule in rules for condition in rule.arguments.values())
