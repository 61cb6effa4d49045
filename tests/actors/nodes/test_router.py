"""Which of its agents a router's model has named."""

from __future__ import annotations

import math

import pytest
from trio.testing import MockClock

from stopgo.actors.common.errors import NodeFailed
from stopgo.actors.gate import conditions
from stopgo.actors.nodes.router import named_in
from stopgo.config.sections.nodes import LlmNode, RouterNode
from tests.actors.world import World, answer, llm


def router(*names: str) -> RouterNode:
    agents = tuple(LlmNode(name=name, prompt="", model="test:model") for name in names)
    return RouterNode(name="pick", agents=agents, model="test:model")


@pytest.mark.parametrize(
    ("answer", "names", "named"),
    [
        ("it", ("it", "hr"), "it"),
        (" **HR**. ", ("it", "hr"), "hr"),
        ("I would go with hr.", ("it", "hr"), "hr"),
        ("Through which door? `it`!", ("it", "hr"), "it"),
        ("agent: _hr_", ("it", "hr"), "hr"),
        ("db-admin, of course", ("db", "db-admin"), "db-admin"),
        ("the db, of course", ("db", "db-admin"), "db"),
        ("我选择客服部门", ("客服", "销售"), "客服"),
        ("c++ it is", ("c++", "c"), "c++"),
        ("refund, not by mail: refund.", ("refund", "refund-status"), "refund"),
        ('{"agent": "hr"}', ("it", "hr"), "hr"),
        # simstudioai/sim#2945, langchain-ai/langchain#5163: other fields have reasons or the question.
        ('{"route": "hr", "reasoning": "It is not for it."}', ("it", "hr"), "hr"),
        ('{"destination": "hr", "next_inputs": "it or hr?"}', ("it", "hr"), "hr"),
        ('"hr"', ("it", "hr"), "hr"),
        ('```json\n{"route": "HR"}\n```', ("it", "hr"), "hr"),
    ],
)
def test_an_answer_names_one_agent(answer: str, names: tuple[str, ...], named: str) -> None:
    assert names[named_in(answer, router(*names))] == named


@pytest.mark.parametrize(
    ("answer", "names", "count"),
    [
        ("I cannot help with that.", ("it", "hr"), "none"),
        ("Through the door.", ("it", "hr"), "none"),
        ("hr, or rather it", ("it", "hr"), "several"),
        ("hr2", ("hr", "it"), "none"),
        ("refund-status? No, refund.", ("refund", "refund-status"), "several"),
        ('{"yes": "hr", "no": "it"}', ("it", "hr"), "several"),
        ("für wen?", ("r", "it"), "none"),
        ("", ("it", "hr"), "none"),
    ],
)
def test_an_answer_that_names_none_or_several_is_no_route(
    answer: str, names: tuple[str, ...], count: str
) -> None:
    with pytest.raises(NodeFailed, match=f'the model of "pick" named {count} of its agents') as failed:
        named_in(answer, router(*names))
    assert failed.value.failure == "no_route"


@pytest.mark.parametrize("text", ["a" * 60 + "!", "a" * (conditions.MAX_TEXT + 1)], ids=["slow", "long"])
async def test_route_whose_search_is_given_up_ends_in_no_other_route(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 0.01)
    autojump_clock.autojump_threshold = math.inf  # patterns are searched for in a thread
    slow = {"when": {"user_message": {"matches": "^(?:a|aa)+$"}}, "agent": "one"}
    agents = [llm("one"), llm("two")]
    world.settings["agent"] = {
        "type": "router",
        "name": "pick",
        "routes": [slow],
        "default": "two",
        "agents": agents,
    }
    async with world.agent() as agent:
        turn = await agent.start_conversation(text)
    assert (answer(turn).state, answer(turn).code) == ("failed", "no_route")
    assert 'the route to "one" cannot be decided' in answer(turn).response
    assert world.requests == []


async def test_undecided_route_does_not_match_and_is_logged(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"when": {"user_message": {"above": 3}}, "agent": "one"}
    agents = [llm("one"), llm("two")]
    world.settings["agent"] = {"type": "router", "name": "pick", "routes": [more], "agents": agents}
    async with world.agent() as agent:
        turn = await agent.start_conversation("5,000")
    assert (answer(turn).state, answer(turn).code) == ("failed", "no_route")
    assert 'no route of "pick" holds, 1 of them undecided' in answer(turn).response
    assert 'a route of "pick" to "one" counts as not matching' in caplog.text
    assert world.requests == []
