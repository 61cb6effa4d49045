"""A search for a pattern does not block other tasks."""

from __future__ import annotations

import pytest
import trio

from stopgo.actors.gate import off_loop
from stopgo.actors.gate.gate import PolicyScope
from stopgo.actors.gate.off_loop import judge_off_loop
from stopgo.actors.tools.tool import Tool
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from tests.waiting import until

SLOW = Rule(then="deny", tool="t", arguments={"n": Condition(matches="^(?:a|aa)+$")})
TRAP = {"n": "a" * 60 + "!"}
AT = PolicyScope(policy=ApprovalConfig(rules=(SLOW,)))


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
        verdict = await judge_off_loop(Tool(name, "", {}, "s"), TRAP, AT, trio.Lock())
        nursery.cancel_scope.cancel()
    assert verdict.action == expected
    # A tool that no rule with a pattern is about is judged at once.
    assert turns > 100 if name == "t" else turns < 10


def test_an_abandoned_search_does_not_block_a_later_run() -> None:
    async def abandon() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(judge_off_loop, Tool("t", "", {}, "s"), TRAP, AT, trio.Lock())
            await until(lambda: off_loop._limiter().borrowed_tokens > 0)
            nursery.cancel_scope.cancel()

    async def judge_again() -> str:
        return (await judge_off_loop(Tool("t", "", {}, "s"), {"n": "aa"}, AT, trio.Lock())).action

    trio.run(abandon)
    assert trio.run(judge_again) == "deny"
