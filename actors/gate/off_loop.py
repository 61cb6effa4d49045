"""Runs the gate in a thread when it may search for a pattern, which can take the whole time limit of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import trio
from trio.lowlevel import RunVar

from ...config.approval import Condition, Rule
from ..tools.tool import Tool
from .gate import Place, Verdict, judge, misfit

Args = TypeVarTuple("Args")
T = TypeVar("T")

_one: RunVar[trio.CapacityLimiter] = RunVar("stopgo_gate")
"""Searches take turns: `regex` measures its limit in CPU time of the whole process, so that of two at once
each would get half. A limiter belongs to one run of trio, for a thread that is abandoned keeps its place."""


async def judge_off_loop(tool: Tool, arguments: Mapping[str, Any], place: Place, turn: trio.Lock) -> Verdict:
    """What `judge` says of a call; for `turn` see `off_loop`."""
    rules = (rule for rule in place.policy.rules if misfit(rule, tool, place) is None)
    return await off_loop(turn, _conditions(rules), judge, tool, arguments, place)


async def off_loop(
    turn: trio.Lock, conditions: Iterable[Condition], decide: Callable[[*Args], T], *args: *Args
) -> T:
    """What `decide` returns; it runs in a thread if one of the conditions that it looks at has a pattern.

    `turn` is that of the run: with many calls at once it would keep the searches of other runs waiting.
    """
    if all(condition.matches is None for condition in conditions):
        return decide(*args)
    async with turn:
        return await trio.to_thread.run_sync(decide, *args, abandon_on_cancel=True, limiter=_limiter())


def _limiter() -> trio.CapacityLimiter:
    try:
        return _one.get()
    except LookupError:
        _one.set(trio.CapacityLimiter(1))
        return _one.get()


def _conditions(rules: Iterable[Rule]) -> Iterable[Condition]:
    return (condition for rule in rules for condition in rule.arguments.values())
