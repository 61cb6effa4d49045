"""The approvals of one reply are requested in the order of its calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.arguments.arguments import CheckedArguments
from stopgo.actors.calls.ask_order import PATIENCE
from stopgo.actors.log.writer.log import ConversationLog
from stopgo.actors.servers.authorization import Authorization
from stopgo.actors.tools.tool import Tool
from tests.actors.world import DESTRUCTIVE, READ_ONLY, World, call, events, use

WIPES = [call("wipe", name=name) for name in "abcd"]


async def asked(world: World) -> dict[str, float]:
    """When each question of a turn was put, by the name in its call, in order; in seconds after the reply."""
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    found = await events(world.journal, turn.conversation.id)
    replied = next(event.at for event in found if event.type == "step.finished")
    questions = [event for event in found if event.type == "approval.requested"]
    return {event.body["tool_args"]["name"]: round(event.at - replied, 3) for event in questions}


async def test_questions_come_in_the_order_of_the_calls(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.plan("agent", use(*WIPES[:2], call("look"), call("none"), *WIPES[2:]))
    for _ in range(10):  # each in another order of tasks
        assert list((await asked(world)).items()) == [("a", 0), ("b", 0), ("c", 0), ("d", 0)]


async def _slowly(_: Mapping[str, Any]) -> str:
    await trio.sleep(60)
    return "at last"


async def test_calls_that_wait_for_a_slot_do_not_delay_questions(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY, _slowly)
    world.settings["tools"] = {"max_parallel": 1}
    world.plan("agent", use(call("look"), call("look"), *WIPES))
    assert await asked(world) == dict.fromkeys("abcd", 0)


async def test_call_that_waits_for_a_token_does_not_delay_questions(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def present(_: Authorization, bearer: str | None, servers: object = None) -> bool:
        await trio.sleep(60)
        return False

    monkeypatch.setattr(Authorization, "present", present)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("none"), *WIPES))
    assert await asked(world) == dict.fromkeys("abcd", 0)


@pytest.mark.parametrize(
    ("seconds", "order"), [(PATIENCE / 2, "abcd"), (60, "bcda")], ids=["a moment", "longer"]
)
async def test_slow_argument_check_delays_questions_only_briefly(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, seconds: float, order: str
) -> None:
    async def fit(_: CheckedArguments, tool: Tool, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        await trio.sleep(seconds if arguments["name"] == "a" else 0)
        return arguments

    monkeypatch.setattr(CheckedArguments, "fit", fit)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(*WIPES))
    expected = [(name, seconds if name == "a" else min(seconds, PATIENCE)) for name in order]
    assert list((await asked(world)).items()) == expected


async def test_questions_keep_their_order_after_a_gap_in_the_lease(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then each call asks the journal first, and the answers come in any order."""
    waited: set[trio.lowlevel.Task] = set()

    async def confirm(_: ConversationLog) -> None:
        if (task := trio.lowlevel.current_task()) not in waited:
            waited.add(task)
            await trio.sleep(1 / len(waited))  # the later it is asked, the sooner it answers

    monkeypatch.setattr(ConversationLog, "confirm", confirm)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(*WIPES))
    assert list(await asked(world)) == ["a", "b", "c", "d"]
