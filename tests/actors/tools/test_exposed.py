"""A server that models see as one tool: everything but the model's own words is about the tool it means."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.agent.agent import Agent
from stopgo.actors.conversation.result import Turn
from stopgo.actors.tools import facade
from stopgo.actors.tools.tool import Tool, ToolOutcomeUnknown
from tests.actors.world import (
    DESTRUCTIVE,
    IDEMPOTENT,
    READ_ONLY,
    SCHEMA,
    World,
    answer,
    call,
    calls_in,
    code_of,
    events,
    llm,
    never,
    results_in,
    say,
    sequential,
    use,
)


@pytest.fixture
def fs(world: World) -> World:
    world.settings["mcp_servers"] = {"fs": {"command": "none", "expose": "server"}}
    world.tool("read", READ_ONLY, server="fs", schema=SCHEMA)
    world.tool("write", DESTRUCTIVE, server="fs", schema=SCHEMA)
    return world


def facade_call(tool: str, **arguments: Any) -> Any:
    return call("mcp_fs", tool=tool, arguments=arguments)


async def asked(agent: Agent, turn: Turn) -> Any:
    (id,) = turn.conversation.head.pending
    return await agent.approval(id)


async def test_models_see_one_tool(fs: World, autojump_clock: MockClock) -> None:
    async with fs.agent() as agent:
        await agent.start_conversation("go")
        (listed,) = agent.tools()
    (tool,) = fs.requests[0].tools
    assert tool.name == "mcp_fs"
    assert tool.description == "MCP server (fs). Available tools: read, write"
    properties = tool.input_schema["properties"]
    assert properties["tool"]["enum"] == ["read", "write"]
    assert properties["arguments"]["description"] == "Arguments of the tool. read(name?); write(name?)"
    assert (listed.tool.name, listed.tool.server, listed.policy) == ("mcp_fs", "fs", "ask")


async def test_facade_description_is_bounded(
    fs: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facade, "MAX_SIGNATURES", len("read(name?); write(name?); sync(); "))
    for name in ("sync", "wipe"):
        fs.tool(name, DESTRUCTIVE, server="fs", schema={"type": "object"})
    async with fs.agent() as agent:
        await agent.start_conversation("go")
    (tool,) = fs.requests[0].tools
    properties = tool.input_schema["properties"]
    assert properties["tool"]["enum"] == ["read", "write", "sync", "wipe"]
    signatures = properties["arguments"]["description"]
    assert signatures == "Arguments of the tool. read(name?); write(name?); sync(); ..."


async def test_a_call_runs_as_the_tool_it_means_and_the_model_sees_its_own_words(
    fs: World, autojump_clock: MockClock
) -> None:
    fs.plan("agent", use(facade_call("read", name="x")), say("done"))
    async with fs.agent() as agent:
        turn = await agent.start_conversation("go")
    assert fs.ledger == [("read", {"name": "x"})]
    (started,) = [e.body for e in await events(fs.journal, turn.conversation.id) if e.type == "tool.started"]
    assert (started["tool"], started["server"], started["facade"]) == ("read", "fs", "mcp_fs")
    assert (started["arguments"], started["effect"]) == ({"name": "x"}, "read")
    [sent], [result] = calls_in(fs.requests[1]), results_in(fs.requests[1])
    assert sent.name == result.name == "mcp_fs"
    assert sent.arguments == {"tool": "read", "arguments": {"name": "x"}}
    assert result.content == "read ok"
    (view,) = [message.call for message in turn.conversation.messages if message.call]
    assert (view.name, view.server, view.arguments) == ("read", "fs", {"name": "x"})


async def test_approval_names_the_inner_tool(fs: World, autojump_clock: MockClock) -> None:
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    async with fs.agent() as agent:
        turn = await agent.start_conversation("go")
        question = await asked(agent, turn)
        body = question.body
        assert (body["tool_name"], body["server"], body["tool_args"]) == ("write", "fs", {"name": "x"})
        assert (body["input_schema"], body["rule"]) == (SCHEMA, "destructiveHint: true")
        assert "WRITE" in body["description"]
        assert fs.ledger == []
        await agent.decide(question.id, {"approved": True})
    assert fs.ledger == [("write", {"name": "x"})]


async def test_edited_arguments_are_those_of_the_tool_it_means(fs: World, autojump_clock: MockClock) -> None:
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    fs.settings["approval"] = {"rules": [{"tool": "write", "arguments": {"name": "etc"}, "then": "deny"}]}
    async with fs.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
        for edit, code in (({"name": 1}, "invalid_arguments"), ({"name": "etc"}, "denied_by_policy")):
            assert await code_of(agent.decide(question.id, {"approved": True, "arguments": edit})) == code
        await agent.decide(question.id, {"approved": True, "arguments": {"name": "y"}})
    assert fs.ledger == [("write", {"name": "y"})]
    [sent] = calls_in(fs.requests[1])
    assert sent.arguments == {"tool": "write", "arguments": {"name": "y"}}


@pytest.mark.parametrize(
    ("before", "after"), [("server", "server"), ("server", "tools"), ("tools", "server")]
)
async def test_approved_call_is_sent_if_the_facade_comes_or_goes(
    fs: World, autojump_clock: MockClock, before: str, after: str
) -> None:
    request = facade_call("write", name="x") if before == "server" else call("write", name="x")
    fs.settings["mcp_servers"]["fs"]["expose"] = before
    fs.plan("agent", use(request), say("done"))
    async with fs.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
    fs.settings["mcp_servers"]["fs"]["expose"] = after
    async with fs.agent() as agent:
        turn = await agent.decide(question.id, {"approved": True})
        assert answer(turn).response == "done"
    assert fs.ledger == [("write", {"name": "x"})]
    [sent] = calls_in(fs.requests[-1])  # as the model made it
    assert (sent.name, sent.arguments) == (request.name, request.arguments)


async def test_rejected_facade_call_is_shown_as_the_model_made_it(
    fs: World, autojump_clock: MockClock
) -> None:
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    async with fs.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
        await agent.decide(question.id, {"approved": False})
    assert fs.ledger == []
    [sent] = calls_in(fs.requests[1])
    assert sent.arguments == {"tool": "write", "arguments": {"name": "x"}}


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"tool": "raed", "arguments": {}}, "tool not found: raed of mcp_fs (nearest: read)"),
        ({"arguments": {}}, 'Invalid arguments: "mcp_fs" needs the name of a tool; it takes {"tool": NAME'),
    ],
)
async def test_malformed_facade_call_is_reported_to_the_model(
    fs: World, autojump_clock: MockClock, wrong: dict[str, Any], expected: str
) -> None:
    fs.plan("agent", use(call("mcp_fs", **wrong)), say("done"))
    async with fs.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
    assert fs.ledger == []
    [result] = results_in(fs.requests[1])
    assert result.is_error
    assert result.content.startswith(expected)


async def test_the_tools_behind_it_are_called_through_it_only(fs: World, autojump_clock: MockClock) -> None:
    fs.plan("agent", use(call("read", name="x")), say("done"))
    async with fs.agent() as agent:
        await agent.start_conversation("go")
    assert fs.ledger == []


@pytest.mark.parametrize(
    ("filter", "seen"),
    [
        ({}, "read, write"),
        ({"tools": ["read"]}, "read"),
        ({"tools": ["mcp_fs"]}, "read, write"),
        ({"tools": ["other"]}, None),
        ({"mcp_servers": []}, None),
    ],
)
async def test_a_node_sees_of_it_what_it_may_see(
    fs: World, autojump_clock: MockClock, filter: dict[str, Any], seen: str | None
) -> None:
    fs.settings["agent"] = llm("agent", **filter)
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    fs.settings["approval"] = {"rules": [{"tool": "mcp_fs", "then": "run"}]}
    async with fs.agent() as agent:
        await agent.start_conversation("go")
    descriptions = [tool.description for tool in fs.requests[0].tools]
    assert descriptions == ([] if seen is None else [f"MCP server (fs). Available tools: {seen}"])
    assert len(fs.ledger) == (seen == "read, write")


@pytest.mark.parametrize("tool", ["write", "mcp_fs", "w*"])
async def test_rules_know_it_by_either_name(fs: World, autojump_clock: MockClock, tool: str) -> None:
    fs.settings["approval"] = {"rules": [{"tool": tool, "then": "deny"}]}
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    async with fs.agent() as agent:
        await agent.start_conversation("go")
    [result] = results_in(fs.requests[1])
    assert result.content.startswith("Denied by policy: approval.rules[0]")


# ----------------------------------------------------------------- names of tools


async def test_prefixed_tools_are_called_by_their_own_names_at_their_servers(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["tool_names"] = "prefixed"
    world.tool("wipe", DESTRUCTIVE, server="one")
    world.plan("agent", use(call("mcp__one__wipe", name="x")), say("done"))
    async with world.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
        assert (question.body["tool_name"], question.body["server"]) == ("mcp__one__wipe", "one")
        await agent.decide(question.id, {"approved": True})
    assert world.ledger == [("wipe", {"name": "x"})]


async def test_a_call_on_record_is_sent_to_the_server_it_was_made_to(
    world: World, autojump_clock: MockClock
) -> None:
    """A name may lead elsewhere after a restart; what was interrupted is not repeated there."""

    world.tool("look", IDEMPOTENT, server="one", work=never)
    world.settings |= {
        "mcp_servers": {"one": {"command": "none"}, "two": {"command": "none"}},
        "shutdown_grace": 0,
    }
    world.plan("agent", use(call("look")), say("done"))
    async with world.agent() as agent:
        id = (await agent.post_conversation("go")).conversation.id
        await wait_all_tasks_blocked()
    assert world.ledger == [("look", {})]
    world.tool("look", IDEMPOTENT, server="two")
    async with world.agent() as agent:
        await wait_all_tasks_blocked()
        assert (await agent.get(id)).messages[-1].content == "done"
    assert world.ledger == [("look", {})]
    [result] = results_in(world.requests[-1])
    assert result.content.startswith("The outcome is unknown: ")


async def test_an_approval_outlives_a_change_of_names(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE, server="one")
    world.plan("agent", use(call("wipe", name="x")), say("done"))
    async with world.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
    world.settings["tool_names"] = "prefixed"
    async with world.agent() as agent:
        assert answer(await agent.decide(question.id, {"approved": True})).response == "done"
    assert world.ledger == [("wipe", {"name": "x"})]


async def test_a_tool_that_takes_the_name_of_another_is_not_called_in_its_place(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings |= {
        "on_duplicate": "priority",
        "mcp_servers": {"one": {"command": "none"}, "two": {"command": "none", "priority": 1}},
    }
    world.tool("wipe", DESTRUCTIVE, server="one")
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        first = await asked(agent, await agent.start_conversation("go"))
        world.lists("two", Tool("wipe", "Wipes the other.", {}, "two", hints=DESTRUCTIVE))
        await wait_all_tasks_blocked()
        second = await asked(agent, await agent.decide(first.id, {"approved": True}))
        assert (second.body["server"], second.body["replaces"]) == ("two", first.id)
        assert world.ledger == []


async def test_lost_facade_call_asks_and_is_repeated(fs: World, autojump_clock: MockClock) -> None:
    async def write(_: Any) -> str:
        if len(fs.ledger) == 1:
            raise ToolOutcomeUnknown("connection lost")
        return "written"

    fs.tool("write", DESTRUCTIVE, server="fs", schema=SCHEMA, work=write)
    fs.plan("agent", use(facade_call("write", name="x")), say("done"))
    async with fs.agent() as agent:
        question = await asked(agent, await agent.start_conversation("go"))
        question = await asked(agent, await agent.decide(question.id, {"approved": True}))
        assert (question.kind, question.body["tool_name"]) == ("outcome_unknown", "write")
        turn = await agent.decide(question.id, {"action": "retry"})
        assert answer(turn).response == "done"
    assert fs.ledger == [("write", {"name": "x"})] * 2


async def test_a_loop_has_one_exit_whatever_servers_offer(world: World, autojump_clock: MockClock) -> None:
    world.tool("exit_loop", READ_ONLY)
    inner = llm("a", can_exit_loop=True)
    world.settings["agent"] = {"type": "loop", "name": "l", "agents": [inner], "max_iterations": 1}
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert [tool.name for tool in world.requests[0].tools] == ["exit_loop"]
    assert not world.requests[0].tools[0].description.startswith("[MCP")


# --------------------------------------------------------------------- live lists


async def test_tools_that_come_later_are_offered_at_the_next_model_call(
    world: World, autojump_clock: MockClock
) -> None:
    async def grow(_: Any) -> str:
        world.tool("later", READ_ONLY)
        world.relist("tools")
        await wait_all_tasks_blocked()
        return "grown"

    world.tool("grow", READ_ONLY, work=grow)
    world.plan("agent", use(call("grow")), use(call("later")), say("done"))
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
        assert [each.tool.name for each in agent.tools()] == ["grow", "later"]
    assert [len(request.tools) for request in world.requests] == [1, 2, 2]
    assert [tool for tool, _ in world.ledger] == ["grow", "later"]


async def test_colliding_list_shows_in_the_servers_health(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.tool("a", READ_ONLY, server="one")
    world.tool("b", READ_ONLY, server="two")
    async with world.agent() as agent:
        world.tool("a", READ_ONLY, server="two")
        world.relist("two")
        await wait_all_tasks_blocked()
        reason = 'duplicate tool name "a" found in MCP servers "one" and "two"'
        assert [(part.name, part.state, part.error) for part in agent.health().servers] == [
            ("one", "connected", None),
            ("two", "connected", reason),
        ]
        assert [(each.tool.name, each.tool.server) for each in agent.tools()] == [("a", "one"), ("b", "two")]
        del world.tools["a"]
        world.relist("two")
        world.relist("one")
        await wait_all_tasks_blocked()
        assert agent.health().servers[1].error is None
    assert reason in caplog.text


async def test_a_tool_that_goes_away_is_not_found_and_one_that_changes_is_asked_about_anew(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        first = await asked(agent, turn)
        world.tool("wipe", DESTRUCTIVE, description="Wipes everything.")
        world.relist("tools")
        await wait_all_tasks_blocked()
        turn = await agent.decide(first.id, {"approved": True})
        second = await asked(agent, turn)
        assert second.id != first.id
        assert world.ledger == []
        del world.tools["wipe"]
        world.relist("tools")
        await wait_all_tasks_blocked()
        turn = await agent.decide(second.id, {"approved": True})
        assert answer(turn).response == "done"
    assert world.ledger == []
    [result] = results_in(world.requests[1])
    assert result.content == "tool not found: wipe"


# ------------------------------------------------------------------ what models see


async def test_description_names_the_server_of_the_tool(world: World, autojump_clock: MockClock) -> None:
    world.tool("a", READ_ONLY, server="one", description="Looks.")
    world.tool("b", DESTRUCTIVE, server="two")
    async with world.agent() as agent:
        await agent.start_conversation("go")
        assert [each.tool.description for each in agent.tools()] == ["Looks.", ""]
    assert [(tool.name, tool.description) for tool in world.requests[0].tools] == [
        ("a", "[MCP:one] Looks."),
        ("b", "[MCP:two] MCP tool from two server"),
    ]


async def test_a_line_in_the_prompt_tells_the_servers(world: World, autojump_clock: MockClock) -> None:
    world.settings["mcp_servers"] = {
        "one": {"command": "none"},
        "fs": {"command": "none", "expose": "server", "description": "files of the team"},
        "empty": {"command": "none"},
        "k8s": {"command": "none", "expose": "server"},
    }
    world.tool("a", READ_ONLY, server="one")
    world.tool("b", READ_ONLY, server="fs")
    world.tool("c", READ_ONLY, server="k8s")
    world.settings["agent"] = sequential(
        "root", llm("all"), llm("some", mcp_servers=["fs"]), llm("none", tools=[])
    )
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    all_, some, none = world.requests
    assert all_.prompt == "You are all."
    assert all_.system == (
        "You are all.\n\nMCP tool calls: use the tools marked [MCP:one] or "
        '"mcp_fs" (files of the team) or "mcp_k8s" (their descriptions list the available tools).'
    )
    assert some.system.endswith(
        'use "mcp_fs" (files of the team) (its description lists the available tools).'
    )
    assert none.system == "You are none."
    assert turn.conversation.messages[0].content == "You help."


async def test_arguments_that_no_tool_takes_are_warned_of(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.tool("read", READ_ONLY, schema={"properties": {"path": {}, "a.b": {}}})
    world.tool("write", READ_ONLY, schema={"properties": {"path": {}, "text": {}}})
    world.tool("any", READ_ONLY, schema={})
    rules: list[dict[str, Any]] = [
        {"tool": "read", "arguments": {"pahts": "x", "path.to": "x", "a.b": "x"}},
        {"tool": "read", "arguments": {"text": "x"}},
        {"tool": "*e*", "arguments": {"text": "x", "zzz.a": "x"}},
        {"arguments": {"zzz": "x"}},
        {"tool": "absent", "arguments": {"zzz": "x"}, "optional": True},
    ]
    world.settings["approval"] = {"rules": [{"then": "deny", **rule} for rule in rules]}
    async with world.agent():
        pass
    assert [record.getMessage() for record in caplog.records if "takes" in record.getMessage()] == [
        'approval.rules[0].arguments: no tool that this rule matches takes "pahts" (did you mean "path"?)',
        'approval.rules[1].arguments: no tool that this rule matches takes "text"',
        'approval.rules[2].arguments: no tool that this rule matches takes "zzz"',
    ]


@pytest.mark.parametrize(
    ("more", "warned"),
    [
        ({"additionalProperties": False}, True),
        ({"additionalProperties": {}}, False),
        ({"patternProperties": {"^label_": {}}}, False),
        ({"allOf": [{"properties": {"zzz": {}}}]}, False),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_tool_that_takes_other_arguments_too_is_not_warned_of(
    world: World,
    autojump_clock: MockClock,
    caplog: pytest.LogCaptureFixture,
    more: dict[str, Any],
    warned: bool,
) -> None:
    world.tool("read", READ_ONLY, schema={"properties": {"path": {}}, **more})
    world.settings["approval"] = {"rules": [{"arguments": {"zzz": "x"}, "then": "run"}]}
    async with world.agent():
        pass
    assert ("approval.rules[0].arguments: " in caplog.text) == warned


async def test_names_that_no_tool_has_are_warned_of(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.settings["mcp_servers"] = [
        {"name": "one", "command": "none", "tools": {"include": ["re*", "wirte"]}}
    ]
    world.tool("read", READ_ONLY, server="one")
    world.tool("write", READ_ONLY, server="one")
    world.settings["approval"] = {
        "rules": [
            {"then": "run", "tool": "raed"},
            {"then": "ask", "tool": "r*"},
            {"then": "deny", "server": "one", "tool": "write"},
            {"then": "deny", "server": "absen*", "tool": "write"},
            {"then": "deny", "tool": "wirte", "optional": True},
        ]
    }
    own = {"rules": [{"then": "deny", "tool": "drop_*"}, {"then": "run"}]}
    world.settings["agent"] = llm("a", tools=["read", "rade", "zzz*", "mcp_*"], approval=own)
    async with world.agent():
        pass
    assert [record.getMessage() for record in caplog.records if "tool" in record.getMessage()] == [
        'MCP server "one": tools: no tool is called "wirte" (did you mean "write"?)',
        'agent.tools: no tool is called "rade" (did you mean "read"?)',
        'agent.tools: no tool is called "zzz*"',
        'agent.tools: no tool is called "mcp_*"',
        'approval.rules[0].tool: no tool is called "raed" (did you mean "read"?)',
        'approval.rules[2].tool: "write" is left out by tools.include, tools.exclude or on_duplicate',
        'agent.approval.rules[0].tool: no tool is called "drop_*"',
    ]
