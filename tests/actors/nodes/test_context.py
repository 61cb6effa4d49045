"""How much of a conversation a node's model is sent."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from stopgo.actors.models.context_window import LEFT_OUT
from stopgo.actors.models.messages.messages import ModelFailed, ToolMessage, UserMessage
from tests.actors.world import READ_ONLY, World, answer, call, llm, say, sequential, use


@pytest.fixture
def world(world: World) -> World:
    world.tool("list", READ_ONLY, "word " * 500)
    return world


async def test_a_request_that_is_too_large_fails_its_node(world: World, autojump_clock: MockClock) -> None:
    world.settings["context"] = {"max_input_tokens": 500}
    world.settings["llm"] = {"model": "test:a", "fallbacks": ["test:b"]}
    world.plan("agent", use(call("list")))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (answer(turn).state, answer(turn).code) == ("failed", "context_too_large")
        assert answer(turn).response.startswith("the request is about ")
        assert answer(turn).response.endswith(
            'tokens, and model "test:a" is sent at most 500 (context.max_input_tokens)'
        )
        assert [name for name, _ in world.replies] == ["test:a"]  # it is no failure of the model
        assert answer(await agent.send(turn.conversation.id, "again")).state == "failed"


async def test_the_tree_may_go_on_without_that_node(world: World, autojump_clock: MockClock) -> None:
    world.settings["context"] = {"max_input_tokens": 100}
    world.settings["agent"] = sequential(
        "root", llm("n", prompt="word " * 200, on_error="continue"), llm("last", history="turn")
    )
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "last done"
    assert [request.node for request in world.requests] == ["last"]


async def test_trimming_omits_older_results_and_keeps_the_record(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["context"] = {"max_input_tokens": 1500, "strategy": "trim"}
    world.plan("agent", use(call("list")), use(call("list")), use(call("list")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "done"
    shown = [
        [each.content == LEFT_OUT for each in request.messages if isinstance(each, ToolMessage)]
        for request in world.requests
    ]
    assert shown == [[], [False], [True, False], [True, True, False]]
    assert [m.content for m in turn.conversation.messages if m.role == "tool"] == ["word " * 500] * 3


async def test_trimming_leaves_older_turns_out(world: World, autojump_clock: MockClock) -> None:
    world.settings["context"] = {"max_input_tokens": 400, "strategy": "trim"}
    world.plan("agent", say("word " * 100))
    async with world.agent() as agent:
        turn = await agent.start_conversation("one")
        for text in ("two", "three", "four", "five"):
            turn = await agent.send(turn.conversation.id, text)
    last = world.requests[-1]
    assert [each.text for each in last.messages if isinstance(each, UserMessage)] == ["four", "five"]
    assert last.earlier == 2


async def test_every_model_has_its_own_bound(world: World, autojump_clock: MockClock) -> None:
    small = {"provider": "openai", "model": "x", "context": {"max_input_tokens": 1500, "strategy": "trim"}}
    world.settings |= {"models": {"small": small}, "llm": {"model": "test:a", "fallbacks": ["small"]}}
    world.plan("agent", use(call("list")), use(call("list")), say("done"))
    world.models["test:a"] = [use(call("list")), use(call("list")), ModelFailed("down")]
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
    (_, large), (_, trimmed) = world.replies[-2:]
    assert [m.content == LEFT_OUT for m in large.messages if isinstance(m, ToolMessage)] == [False, False]
    assert [m.content == LEFT_OUT for m in trimmed.messages if isinstance(m, ToolMessage)] == [True, False]
