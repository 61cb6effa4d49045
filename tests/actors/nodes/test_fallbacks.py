"""When a model fails, the next is asked: what is recorded of it, and what is not passed on."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ModelRequest,
    Usage,
    Verbatim,
)
from stopgo.actors.models.messages.usage import Spent
from stopgo.actors.nodes.ask_model import MAX_CALLS
from tests.actors.world import READ_ONLY, World, answer, call, events, llm, parallel, say, sequential, use

CHAIN = {"model": "test:a", "fallbacks": ["test:b", "test:c"]}


def overloaded(message: str = "overloaded") -> ModelFailed:
    return ModelFailed.from_status(message, 529)


@pytest.fixture
def world(world: World) -> World:
    world.settings["llm"] = dict(CHAIN)
    return world


async def model_steps(world: World, id: str) -> list[dict[str, Any]]:
    log = await events(world.journal, id)
    return [dict(event.body) for event in log if event.body.get("kind") == "model"]


async def test_the_next_model_answers_and_the_hops_are_recorded(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world.models["test:a"] = [ModelFailed.from_status("no such model", 404)]
    world.models["test:b"] = [ModelFailed("the connection was lost")]
    world.models["test:c"] = [say("fine", usage=Usage(7, 2, 3))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [step] = await model_steps(world, turn.conversation.id)
    assert answer(turn).response == "fine"
    assert [name for name, _ in world.replies] == ["test:a", "test:b", "test:c"]
    assert step["model"] == "test:c"
    assert step["hops"] == [
        {"model": "test:a", "message": "no such model (status 404)", "status": 404},
        {"model": "test:b", "message": "the connection was lost"},
    ]
    assert step["usage"] == {"input_tokens": 7, "output_tokens": 2, "cached_tokens": 3}
    assert "node agent: model test:a failed, asking test:b: no such model (status 404)" in caplog.messages


async def test_no_further_model_is_asked_once_the_agent_stops(
    world: World, autojump_clock: MockClock
) -> None:
    async def fail(_: ModelRequest) -> ModelReply:
        await trio.sleep(3)
        raise ModelFailed("down")

    world.models["test:a"] = [fail, say("back")]
    async with world.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", key="k")
        await agent.drain(10)
    assert [name for name, _ in world.replies] == ["test:a"]
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go", key="k")).response == "back"
    assert [name for name, _ in world.replies] == ["test:a", "test:a"]


async def test_reply_of_the_first_model_has_no_hops(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [step] = await model_steps(world, turn.conversation.id)
    assert step["model"] == "test:a"
    assert "hops" not in step
    assert "verbatim" not in step


async def test_every_call_begins_with_the_first_model_again(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY)
    world.models["test:a"] = [ModelFailed("down"), say("back")]
    world.models["test:b"] = [use(call("list"))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "back"
    assert [name for name, _ in world.replies] == ["test:a", "test:b", "test:a"]


async def test_when_all_fail_each_is_named_with_its_reason(world: World, autojump_clock: MockClock) -> None:
    world.models["test:a"] = [ModelFailed("no key")]
    world.models["test:b"] = [ModelFailed.from_status("bad request", 400)]
    world.models["test:c"] = [ValueError("a secret: sk-123")]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [step] = await model_steps(world, turn.conversation.id)
    said = answer(turn).response
    assert said.startswith(
        'LLM error: none of the models answered: "test:a": no key; "test:b": bad request (status 400); '
        '"test:c": the model failed unexpectedly'
    )
    assert "sk-123" not in said
    assert step["error"]["code"] == "model_error"
    assert [hop["model"] for hop in step["hops"]] == ["test:a", "test:b", "test:c"]


async def test_a_reply_that_is_not_whole_is_a_failure_and_billed(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY)
    world.models["test:a"] = [ModelReply("", (call("list"),), Usage(5, 1), "max_tokens")]
    world.models["test:b"] = [say("fine", usage=Usage(7, 2))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [step] = await model_steps(world, turn.conversation.id)
    assert answer(turn).response == "fine"
    assert world.ledger == []
    assert "cut off" in step["hops"][0]["message"]
    assert step["usage"] == {"input_tokens": 12, "output_tokens": 3}


async def test_cost_of_failed_calls_counts_without_a_reply(world: World, autojump_clock: MockClock) -> None:
    for name, tokens in (("test:a", 3), ("test:b", 40), ("test:c", 0)):
        world.models[name] = [ModelFailed("blocked", usage=Usage(tokens, 1) if tokens else None)]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).usage == Spent(43, 2, unpriced=True)
        again = await agent.send(turn.conversation.id, "go")
        assert answer(again).usage == Spent()
        assert again.conversation.head.usage == Spent(43, 2, unpriced=True)


async def test_too_many_calls_in_a_reply_are_no_reason_to_ask_another(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY)
    world.models["test:a"] = [use(*[call("list")] * (MAX_CALLS + 1))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).code == "limit_reached"
    assert [name for name, _ in world.replies] == ["test:a"]


async def test_each_model_has_a_deadline_of_its_own(world: World, autojump_clock: MockClock) -> None:
    world.settings["llm"] = {**CHAIN, "timeout": 10}

    async def hang(_: ModelRequest) -> ModelReply:
        await trio.sleep_forever()
        raise AssertionError

    world.models["test:a"] = [hang]
    world.models["test:b"] = [hang]
    async with world.agent() as agent:
        start = trio.current_time()
        turn = await agent.start_conversation("go")
        assert trio.current_time() - start == pytest.approx(20)
        [step] = await model_steps(world, turn.conversation.id)
    assert [hop["message"] for hop in step["hops"]] == ["the model did not answer within 10 s"] * 2


async def test_retries_come_before_the_next_model(world: World, autojump_clock: MockClock) -> None:
    world.models["test:a"] = [overloaded()] * 3
    world.models["test:b"] = [overloaded(), say("fine")]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "fine"
    assert [name for name, _ in world.replies] == ["test:a"] * 3 + ["test:b"] * 2


async def test_nodes_have_fallbacks_of_their_own(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = sequential(
        "root",
        llm("own", fallbacks=["test:c"]),
        llm("none", fallbacks=[], on_error="continue"),
        {
            "type": "router",
            "name": "pick",
            "prompt": "Pick.",
            "agents": [llm("left"), llm("right")],
        },
    )
    world.models["test:a"] = [ModelFailed("one"), ModelFailed("two"), ModelFailed("three"), say("done")]
    world.models["test:b"] = [say("right")]
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert [(name, request.node) for name, request in world.replies] == [
        ("test:a", "own"),
        ("test:c", "own"),
        ("test:a", "none"),
        ("test:a", "pick"),
        ("test:b", "pick"),
        ("test:a", "right"),
    ]


async def test_a_crash_between_two_models_asks_again_from_the_first(
    world: World, autojump_clock: MockClock
) -> None:
    asked = trio.Event()

    async def hang(_: ModelRequest) -> ModelReply:
        asked.set()
        await trio.sleep_forever()
        raise AssertionError

    world.settings["shutdown_grace"] = 0
    world.models["test:a"] = [ModelFailed("down"), say("back")]
    world.models["test:b"] = [hang]
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await asked.wait()
    async with world.agent() as agent:
        async for event in agent.events(turn.conversation.id):
            if event.type == "run.finished":
                break
        [step] = await model_steps(world, turn.conversation.id)
    assert (step["text"], step["model"]) == ("back", "test:a")
    assert "hops" not in step


# ------------------------------------------------------------ what a provider wants back


async def test_verbatim_content_comes_back_with_the_next_call_and_after_a_restart(
    world: World, autojump_clock: MockClock
) -> None:
    kept = Verbatim("anthropic", [{"type": "thinking", "signature": "xyz"}, {"n": [1, None]}])
    world.tool("wipe", READ_ONLY)
    world.settings["approval"] = {"rules": [{"then": "ask"}]}
    reply = ModelReply("Let me.", (call("wipe"),), verbatim=kept, stop="tool_calls")
    world.models["test:a"] = [reply, say("done")]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [asked] = turn.conversation.head.pending
    async with world.agent() as agent:
        await agent.decide(asked, {"approved": True})
        [first, _] = await model_steps(world, turn.conversation.id)
    assert first["verbatim"] == {"provider": "anthropic", "content": kept.content}
    _, request = world.replies[-1]
    sent = request.messages[1]
    assert isinstance(sent, AssistantMessage)
    assert sent.verbatim == kept


async def test_costs_are_those_of_the_model_that_answered(world: World, autojump_clock: MockClock) -> None:
    world.settings["models"] = {
        "cheap": {"provider": "openai", "model": "x", "prices": {"input": 1, "output": 0}},
        "dear": {"provider": "openai", "model": "y", "prices": {"input": 100, "output": 0}},
    }
    world.settings["llm"] = {"model": "cheap", "fallbacks": ["dear"]}
    world.settings["agent"] = parallel("p", llm("one"), llm("two"))
    for model in ("cheap", "dear"):
        world.models[model] = [say("ok", usage=Usage(10_000, 5))] * 2
    world.models["cheap"] = [ModelFailed("no", usage=Usage(10_000, 0)), say("ok", usage=Usage(10_000, 5))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        steps = await model_steps(world, turn.conversation.id)
    assert sorted(step["usage"]["cost_usd"] for step in steps) == [0.01, 1.01]
    assert answer(turn).usage == Spent(30_000, 10, cost_usd=1.02)
