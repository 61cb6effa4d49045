"""`timeout` and `limits.timeout` count the work of all lives of a run, and never the waiting for people."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.result import Result
from tests.actors.world import DESTRUCTIVE, World, after, answer, call, llm, say, use

LIMITS = [
    pytest.param({"limits": {"timeout": 10}}, "limit_reached", id="run"),
    pytest.param({"agent": llm("agent", timeout=10)}, "timed_out", id="node"),
]


async def three_replies(world: World, seconds: float, *, restart: bool) -> Result:
    """Replies of so many seconds each, with an approval after the first two and a minute before each answer:
    meanwhile the conversation leaves memory, and the process may end."""
    world.tool("wipe", DESTRUCTIVE)
    steps = [
        after(seconds, use(call("wipe"))),
        after(seconds, use(call("wipe"))),
        after(seconds, say("done")),
    ]
    world.plan("agent", *steps)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", key="k")
        await trio.sleep(60)
        if not restart:
            for _ in range(2):
                if answer(turn).state == "waiting":
                    turn = await agent.decide(answer(turn).approvals[0], {"approved": True})
                    await trio.sleep(60)
            return answer(turn)
    for _ in range(2):
        async with world.agent() as agent:
            if answer(turn).state == "waiting":
                turn = await agent.decide(answer(turn).approvals[0], {"approved": True})
                await trio.sleep(60)
    return answer(turn)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("settings", "code"), LIMITS)
async def test_work_adds_up_over_the_lives_of_a_run(
    world: World, autojump_clock: MockClock, settings: dict[str, Any], code: str, restart: bool
) -> None:
    world.settings.update(settings)
    result = await three_replies(world, 6, restart=restart)
    assert (result.state, result.code) == ("failed", code)


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("settings", "code"), LIMITS)
async def test_waiting_for_people_is_no_work(
    world: World, autojump_clock: MockClock, settings: dict[str, Any], code: str, restart: bool
) -> None:
    world.settings.update(settings)
    assert (await three_replies(world, 3, restart=restart)).response == "done"
