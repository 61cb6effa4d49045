"""Runs the gate in a thread if it may search for a pattern, because a slow search would block the event
loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, TypeVarTuple

import trio
from trio.lowlevel import RunVar

from ...config.sections.approval import Condition, Rule
from ..tools.tool import Tool
from .gate import PolicyScope, Verdict, judge, mismatch

Args = TypeVarTuple("Args")
T = TypeVar("T")

_one: RunVar[trio.CapacityLimiter] = RunVar("stopgo_gate")
"""Allows one search at a time: `regex` measures its time limit in CPU time of the whole process, so two
concurrent searches would get half of it each. There is one limiter per run of trio, because an abandoned
thread keeps its token."""


async def judge_off_loop(
    tool: Tool, arguments: Mapping[str, Any], scope: PolicyScope, turn: trio.Lock
) -> Verdict:
    """The verdict of `judge`. For `turn` see `off_loop`."""
    rules = (rule for rule in scope.policy.rules if mismatch(rule, tool, scope) is None)
    return await off_loop(turn, _conditions(rules), judge, tool, arguments, scope)


async def off_loop(
    turn: trio.Lock, conditions: Iterable[Condition], decide: Callable[[*Args], T], *args: *Args
) -> T:
    """The result of `decide`, which runs in a thread if one of the conditions has a pattern.

    `turn` is the lock of the run: each run waits for one search at a time, so that a run with many calls does
    not delay the searches of the others.
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
