"""`timeout` and `limits.timeout` count the work of all lives of a run, and never the waiting for people."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.conversation.result import Result
from tests.actors.world import DESTRUCTIVE, World, after, answer, call, llm, parallel, say, use

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


async def test_a_node_does_not_work_while_only_another_does(world: World, autojump_clock: MockClock) -> None:
    """It stays in memory with the other, and waits for people more than once."""
    world.settings["approval"] = {"in_parallel": "ask"}
    world.settings["agent"] = parallel("fan", llm("left", timeout=10), llm("right"))
    world.tool("wipe", DESTRUCTIVE)
    world.plan("left", *[after(3, use(call("wipe")))] * 2, after(3, say("left is done")))
    world.plan("right", after(50, say("right is done")))
    async with world.agent() as agent:
        id = (await agent.post_conversation("go")).conversation.id
        for _ in range(2):
            await trio.sleep(20)
            [question] = (await agent.get(id)).head.pending
            await agent.post_decision(question, {"approved": True})
        await trio.sleep(20)
        run = (await agent.get(id)).head.run
    assert run is not None
    assert run.state == "finished"
