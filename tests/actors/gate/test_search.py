"""A search for a pattern keeps nothing else waiting."""

from __future__ import annotations

import pytest
import trio

from stopgo.actors.gate.gate import Place
from stopgo.actors.gate.search import judged
from stopgo.actors.tools.tool import Tool
from stopgo.config.approval import ApprovalConfig, Condition, Rule

SLOW = Rule(then="deny", tool="t", arguments={"n": Condition(matches="^(?:a|aa)+$")})
TRAP = {"n": "a" * 60 + "!"}


@pytest.mark.parametrize(("name", "expected"), [("t", "deny"), ("other", "run")])
async def test_other_tasks_run_during_a_slow_search(name: str, expected: str) -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        verdict = await judged(Tool(name, "", {}, "s"), TRAP, Place(policy=ApprovalConfig(rules=(SLOW,))))
        nursery.cancel_scope.cancel()
    assert verdict.action == expected
    # A tool that no rule with a pattern is about is judged at once.
    assert turns > 100 if name == "t" else turns < 10
