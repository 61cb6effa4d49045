"""The page's data about an approval of a real agent."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.agent import precedents
from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.errors import AgentError
from stopgo.config.load import load_config
from stopgo.gateway.servers.resource_store import ResourceStore
from stopgo.gateway.servers.resources import resource_server
from stopgo.gateway.web.approval_context import calls_view, context_view

BEGIN = """name: a
llm: {model: 'script:replies.yaml'}
mcp_servers: [{name: resources, brought_by: program}]
"""
REPLIES = """replies:
  - when: {user: 'add (?P<name>\\S+)', call: 1}
    tool_calls: [{name: resources_add, arguments: {name: '${name}', value: 1}}]
  - when: {user: 'remove (?P<name>\\S+)', call: 1}
    tool_calls: [{name: resources_remove, arguments: {pattern: '${name}'}}]
  - text: done
"""
RULE = """approval:
  rules:
    - {name: additions ask, then: ask, tool: resources_add}
"""


Opened = Callable[[str], AbstractAsyncContextManager[Agent]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open an agent with this file. Its tool server runs in this process."""
    (tmp_path / "replies.yaml").write_text(REPLIES)
    with closing(ResourceStore(tmp_path / "r.db")) as store:

        def open_(text: str) -> AbstractAsyncContextManager[Agent]:
            (tmp_path / "agent.yaml").write_text(text)
            os.utime(tmp_path / "agent.yaml", (1.0, 1.0))
            config = load_config(tmp_path / "agent.yaml", environ={}, data_dir=tmp_path / "data")
            return open_agent(config, servers={"resources": resource_server(store)})

        yield open_


async def asked(agent: Agent, text: str) -> str:
    """The id of the approval that a new conversation with this message waits for."""
    turn = await agent.start_conversation(text)
    (approval,) = turn.result.approvals
    return approval.uuid


async def test_the_rule_that_asked(opened: Opened) -> None:
    async with opened(BEGIN + RULE) as agent:
        view = await context_view(agent, await asked(agent, "add web-1"))
    assert view["conversation_title"] == "add web-1"
    assert view["rule"] == {
        "name": "additions ask",
        "file": "agent.yaml",
        "line": 6,
        "yaml": "name: additions ask\nthen: ask\ntool: resources_add\n",
    }
    assert view["effect"] == "once"
    assert view["history"] == []


async def test_a_hint_that_asked_is_no_rule(opened: Opened) -> None:
    async with opened(BEGIN) as agent:
        view = await context_view(agent, await asked(agent, "remove web-1"))
    assert view["rule"] is None
    assert view["hints"]["destructiveHint"] is True


async def test_there_is_no_such_approval(opened: Opened) -> None:
    async with opened(BEGIN) as agent:
        with pytest.raises(AgentError) as raised:
            await context_view(agent, "nope")
    assert raised.value.code == "approval_not_found"


@pytest.mark.parametrize("text", ["add web-1", "remove web-1"])
async def test_with_the_suggestion_the_call_runs(opened: Opened, text: str) -> None:
    async with opened(BEGIN) as agent:
        suggestion = (await context_view(agent, await asked(agent, "remove web-1")))["suggestion"]
    assert suggestion == (
        "# in the agent file, before the other rules\n"
        "approval:\n  rules:\n    - tool: resources_remove\n      server: resources\n      then: run\n"
    )
    rule = suggestion.partition("rules:\n")[2]
    async with opened(BEGIN + RULE.replace("rules:\n", f"rules:\n{rule}")) as agent:
        turn = await agent.start_conversation(text)
    assert turn.result is not None
    # It lets exactly this tool run.
    assert bool(turn.result.approvals) == (text == "add web-1")


async def test_a_suggestion_goes_before_the_rules_of_the_node(opened: Opened) -> None:
    tree = "agent: {type: llm, name: only, prompt: p, approval: {rules: [{then: ask, tool: resources_*}]}}\n"
    async with opened(BEGIN + tree) as agent:
        view = await context_view(agent, await asked(agent, "add web-1"))
    assert view["rule"]["name"] == 'node "only" approval.rules[0]'
    assert view["suggestion"].startswith('# in node "only", before its other rules\n')


async def test_calls_that_the_suggestion_would_have_run(opened: Opened) -> None:
    async with opened(BEGIN + RULE) as agent:
        edited = {"approved": True, "arguments": {"name": "web-9", "value": 2}}
        decisions: list[Mapping[str, Any]] = [{"approved": True}, edited, {"approved": False}]
        for number, decision in enumerate(decisions):
            await agent.decide(await asked(agent, f"add web-{number}"), decision)
        view = await calls_view(agent, await asked(agent, "add web-4"))
    assert view == {
        "calls": 4,
        "would_run": 4,
        "ran": 0,
        "approved": 1,
        "edited": 1,
        "rejected": 1,
        "answered": 0,
    }


async def test_suggestion_in_a_node_runs_no_calls_of_others(opened: Opened) -> None:
    one = "{type: llm, name: a, prompt: p, approval: {rules: [{then: run, tool: resources_list}]}}"
    tree = f"agent: {{type: sequential, name: both, agents: [{one}, {{type: llm, name: b, prompt: p}}]}}\n"
    async with opened(BEGIN + RULE + tree) as agent:
        first = await agent.decide(await asked(agent, "add web-1"), {"approved": True})
        [second] = first.conversation.head.pending
        view = await calls_view(agent, second)
    assert (view["calls"], view["would_run"], view["approved"]) == (2, 1, 0)


async def test_earlier_decisions_are_listed_with_outcomes(opened: Opened) -> None:
    async with opened(BEGIN + RULE) as agent:
        first = await asked(agent, "add web-1")
        await agent.decide(first, {"approved": True, "arguments": {"name": "web-9", "value": 2}})
        again = await asked(agent, "add web-9")
        await agent.decide(again, {"approved": True, "decided_by": "me"})
        other = await asked(agent, "remove web-1")
        await agent.decide(other, {"approved": False})
        third = await asked(agent, "add web-2")
        await agent.decide(third, {"approved": False, "reason": "no"})
        pending = await asked(agent, "add web-3")
        newest, middle, oldest = (await context_view(agent, await asked(agent, "add web-4")))["history"]
        assert pending not in (newest["uuid"], middle["uuid"], oldest["uuid"])
        assert oldest == {
            "uuid": first,
            "conversation_id": (await agent.approval(first)).stream,
            "title": "add web-1",
            "at": oldest["at"],
            "decision": "approved",
            "outcome": "succeeded",
            "arguments": {"name": "web-9", "value": 2},
        }
        assert (middle["uuid"], middle["outcome"], middle["decided_by"]) == (again, "succeeded", "me")
        assert (newest["uuid"], newest["decision"], newest["outcome"]) == (third, "rejected", None)
        await agent.delete(oldest["conversation_id"])
        history = (await context_view(agent, pending))["history"]
        assert [each["uuid"] for each in history] == [third, again]


async def test_a_call_that_failed(opened: Opened) -> None:
    async with opened(BEGIN) as agent:
        await agent.decide(await asked(agent, "remove ("), {"approved": True})
        (earlier,) = (await context_view(agent, await asked(agent, "remove x")))["history"]
    assert (earlier["decision"], earlier["outcome"]) == ("approved", "failed")


async def test_the_history_is_bounded(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precedents, "MAX_PRECEDENTS", 2)
    monkeypatch.setattr(precedents, "MAX_APPROVALS", 4)
    async with opened(BEGIN + RULE) as agent:
        for number in range(4):
            await agent.decide(await asked(agent, f"add web-{number}"), {"approved": False})
        pending = await asked(agent, "add web-9")
        assert len((await context_view(agent, pending))["history"]) == 2
        for number in range(3):
            await agent.decide(await asked(agent, f"remove web-{number}"), {"approved": False})
        assert len((await context_view(agent, pending))["history"]) == 1
