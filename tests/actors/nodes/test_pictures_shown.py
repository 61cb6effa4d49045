"""Models are shown the pictures in results while their run lasts, and those of users, within bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trio.testing import MockClock

from stopgo.actors.models.messages.messages import ModelRequest, ToolMessage
from stopgo.actors.tools.pictures import MOST, Picture
from stopgo.actors.tools.tool import ToolResult
from tests.actors.world import DESTRUCTIVE, READ_ONLY, World, answer, call, say, use

DATA = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
BLOCK = {"type": "image", "data": DATA, "mimeType": "image/png"}


async def shoots(_: Mapping[str, Any]) -> ToolResult:
    return ToolResult("the screen\n[image: image/png, 70 bytes]", parts=(BLOCK,))


def shown(request: ModelRequest) -> list[int]:
    """The number of pictures of each result."""
    return [len(each.pictures) for each in request.messages if isinstance(each, ToolMessage)]


async def test_picture_is_shown_in_its_run_and_named_afterwards(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("shot", READ_ONLY, shoots)
    world.tool("list", READ_ONLY)
    world.plan("agent", use(call("shot")), use(call("list")), say("seen"), turn=1)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert [shown(request) for request in world.requests] == [[], [1], [1, 0]]
        await agent.send(turn.conversation.id, "and now?")
        last = world.requests[-1]
        assert shown(last) == [0, 0]
        assert "[image: image/png, 70 bytes]" in last.messages[2].content  # type: ignore[union-attr]
        assert not last.trimmed


async def test_picture_is_shown_after_a_restart(world: World, autojump_clock: MockClock) -> None:
    world.tool("shot", READ_ONLY, shoots)
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("shot")), use(call("wipe")), say("done"))
    async with world.agent() as agent:
        asked = (await agent.start_conversation("go")).conversation
    async with world.agent() as agent:
        turn = await agent.decide(asked.head.pending[0], {"approved": True})
        assert answer(turn).response == "done"
    assert shown(world.requests[-1]) == [1, 0]


async def test_model_without_pictures_gets_the_text(world: World, autojump_clock: MockClock) -> None:
    world.tool("shot", READ_ONLY, shoots)
    world.settings["models"] = {"blind": {"provider": "openai", "model": "m", "images": False}}
    world.settings["llm"] = {"model": "blind"}
    world.plan("agent", use(call("shot")), say("read"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert shown(world.requests[-1]) == [0]
    assert world.requests[-1].results[0].content.startswith("the screen")


async def test_newest_pictures_of_a_run_are_shown(world: World, autojump_clock: MockClock) -> None:
    world.tool("shot", READ_ONLY, shoots)
    half = [call("shot")] * (MOST // 2)
    world.plan("agent", use(*half), use(*half), use(call("shot")), say("seen"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    before, last = world.requests[-2:]
    assert (shown(before), before.trimmed) == ([1] * MOST, False)
    assert (shown(last), last.trimmed) == ([0] + [1] * MOST, True)


PICTURE = Picture("image/png", DATA)
NAMED = "[image: image/png, 70 bytes]"


def all_shown(request: ModelRequest) -> list[int]:
    """The number of pictures of each message."""
    return [len(each.pictures) for each in request.messages]


async def test_picture_of_a_user_is_shown_in_all_turns(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation(NAMED, pictures=[PICTURE])
    async with world.agent() as agent:
        again = await agent.send(turn.conversation.id, "and now?")
    assert [all_shown(request) for request in world.requests] == [[1], [1, 0, 0]]
    assert [len(each.pictures) for each in again.conversation.messages] == [0, 1, 0, 0, 0]


async def test_picture_of_a_user_is_shown_after_a_restart_in_its_run(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        asked = (await agent.start_conversation(NAMED, pictures=[PICTURE])).conversation
    async with world.agent() as agent:
        await agent.decide(asked.head.pending[0], {"approved": True})
    assert all_shown(world.requests[-1]) == [1, 0, 0]


async def test_router_is_shown_the_picture(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = {
        "name": "router",
        "type": "router",
        "model": "model",
        "agents": [{"name": "a", "type": "llm"}, {"name": "b", "type": "llm"}],
    }
    world.plan("router", say("b"))
    async with world.agent() as agent:
        await agent.start_conversation(NAMED, pictures=[PICTURE])
    assert [(each.node, all_shown(each)) for each in world.requests] == [("router", [1]), ("b", [1])]


async def test_oldest_pictures_of_users_make_room_for_newer_ones(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("shot", READ_ONLY, shoots)
    world.plan("agent", use(call("shot")), say("seen"), turn=2)
    async with world.agent() as agent:
        turn = await agent.start_conversation(NAMED, pictures=[PICTURE] * MOST)
        await agent.send(turn.conversation.id, NAMED, pictures=[PICTURE])
    first, second, third = world.requests
    assert (all_shown(first), first.trimmed) == ([MOST], False)
    assert (all_shown(second), second.trimmed) == ([MOST - 1, 0, 1], False)
    assert (all_shown(third), third.trimmed) == ([MOST - 2, 0, 1, 0, 1], True)
