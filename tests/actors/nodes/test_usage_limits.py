"""Bounds on tokens and dollars, of a run and of a conversation: looked at before a model is asked."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import ModelFailed, Usage
from stopgo.actors.models.messages.usage import Spent, reached
from stopgo.config.sections.agent_config import UsageLimits
from tests.actors.world import READ_ONLY, World, after, answer, call, llm, parallel, say, use

PRICES = {"input": 1.0, "output": 10.0}
LIMITED = [
    ({"max_input_tokens": 150}, "200 input tokens", "max_input_tokens: 150"),
    ({"max_output_tokens": 20}, "20 output tokens", "max_output_tokens: 20"),
    ({"max_cost_usd": 0.0003}, "0.0004 US dollars", "max_cost_usd: 0.0003"),
]


@pytest.fixture
def world(world: World) -> World:
    world.settings["models"] = {"m": {"provider": "openai", "model": "x", "prices": PRICES}}
    world.settings["llm"] = {"model": "m"}
    world.tool("list", READ_ONLY)
    return world


def costly(*calls: Any) -> Any:
    """A reply that used 100 tokens of input and 10 of output: 0.0002 dollars."""
    reply = use(*calls) if calls else say("done")
    return type(reply)(reply.text, reply.tool_calls, Usage(100, 10), reply.stop)


@pytest.mark.parametrize(("limits", "used", "limit"), LIMITED)
async def test_a_run_stops_before_the_call_that_has_no_room(
    world: World, autojump_clock: MockClock, limits: dict[str, Any], used: str, limit: str
) -> None:
    world.settings["limits"] = limits
    world.settings["agent"] = {
        "type": "sequential",
        "name": "root",
        "agents": [llm("n", on_error="continue", retries=3), llm("never")],
    }
    world.plan("n", *[costly(call("list"))] * 5, turn=1)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (answer(turn).state, answer(turn).code) == ("failed", "limit_reached")
        assert answer(turn).response == f"the run stopped: it has used {used} (limits.{limit})"
        assert answer(turn).usage == Spent(200, 20, cost_usd=0.0004)
        assert len(world.requests) == 2  # neither retried nor taken as an answer
        assert answer(await agent.send(turn.conversation.id, "again")).state == "finished"  # a run of its own


@pytest.mark.parametrize(("limits", "used", "limit"), LIMITED)
async def test_a_conversation_stops_as_well_and_for_good(
    world: World, autojump_clock: MockClock, limits: dict[str, Any], used: str, limit: str
) -> None:
    world.settings["limits"] = {"conversation": limits}
    world.plan("agent", costly())
    async with world.agent() as agent:
        turn = await agent.start_conversation("one")
        for _ in range(3):
            turn = await agent.send(turn.conversation.id, "more")
    async with world.agent() as agent:
        turn = await agent.send(turn.conversation.id, "after a restart")
        text = f"the run stopped: the conversation has used {used} (limits.conversation.{limit})"
        assert (answer(turn).code, answer(turn).response) == ("limit_reached", text)
        assert len(world.requests) == 2
        assert turn.conversation.head.usage == Spent(200, 20, cost_usd=0.0004)
        assert answer(turn).usage == Spent()
        assert answer(await agent.start_conversation("another")).state == "finished"


async def test_usage_recorded_by_branches_counts(world: World, autojump_clock: MockClock) -> None:
    world.settings["limits"] = {"max_input_tokens": 300}
    world.settings["agent"] = parallel("p", *(llm(name) for name in "abc"))
    world.plan("a", after(1, costly(call("list"))), after(10, costly(call("list"))))
    world.plan("b", after(2, costly(call("list"))), after(1, costly()))  # the third call that ends
    world.plan("c", after(5, costly(call("list"))))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).code == "limit_reached"
    # At 5 s `c` wants its second call, and 400 tokens are on record; the one `a` is at goes uncounted.
    assert answer(turn).usage.input_tokens == 400
    assert sorted(request.node for request in world.requests) == ["a", "a", "b", "b", "c"]


async def test_cost_of_a_failed_model_counts_before_the_next(world: World, autojump_clock: MockClock) -> None:
    world.settings["llm"] = {"model": "m", "fallbacks": ["test:b"]}
    world.settings["limits"] = {"max_input_tokens": 100}
    world.models["m"] = [ModelFailed("blocked", usage=Usage(100, 0))]
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).code == "limit_reached"
    assert len(world.requests) == 1


async def test_a_limit_in_dollars_is_not_spent_on_a_model_without_prices(
    world: World, autojump_clock: MockClock
) -> None:
    tree = llm("n", model="test:unpriced")
    world.tool("wipe")
    world.settings |= {"approval": {"rules": [{"then": "ask"}]}, "agent": tree}
    world.plan("n", costly(call("wipe")), costly())
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [asked] = turn.conversation.head.pending
    # The file is changed, and the run goes on with the tree it began with.
    world.settings |= {"agent": llm("n", model="m"), "limits": {"max_cost_usd": 5}}
    async with world.agent() as agent:
        turn = await agent.decide(asked, {"approved": True})
    assert answer(turn).code == "limit_reached"
    assert answer(turn).response == 'there are no prices for model "test:unpriced" (limits.max_cost_usd)'


@pytest.mark.parametrize(
    ("used", "limits", "found"),
    [
        (
            Spent(99, 9, cost_usd=0.9),
            UsageLimits(max_input_tokens=100, max_output_tokens=10, max_cost_usd=1),
            None,
        ),
        (Spent(10**9, 10**9, cost_usd=10.0**9), UsageLimits(), None),
        (Spent(), UsageLimits(max_cost_usd=0.01), None),
        (Spent(100), UsageLimits(max_input_tokens=100), ("100 input tokens", "max_input_tokens: 100")),
        (
            Spent(cost_usd=1.2345678, unpriced=True),
            UsageLimits(max_cost_usd=1),
            ("1.23457 US dollars", "max_cost_usd: 1"),
        ),
    ],
)
def test_a_limit_is_reached_when_nothing_is_left(
    used: Spent, limits: UsageLimits, found: tuple[str, str] | None
) -> None:
    assert reached(used, limits) == found
