"""One llm node: ask the model, settle all calls of its reply, until it answers with text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ModelFailed,
    ModelReply,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from stopgo.actors.models.messages.usage import Spent
from stopgo.actors.nodes import ask_model
from stopgo.actors.tools.tool import ToolOutcomeUnknown, ToolResult, ToolUnavailable
from stopgo.runtime.journal.protocol import Commit, Saved
from stopgo.runtime.json_text import MAX_DEPTH, depth
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    SCHEMA,
    World,
    answer,
    call,
    calls_in,
    events,
    llm,
    results_in,
    say,
    sequential,
    types,
    use,
    working,
)


async def test_a_conversation_begins_with_the_system_prompt(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        turn = await agent.start_conversation()
        assert turn.result is None
        assert turn.conversation.head.status == "active"
        assert [(m.role, m.content) for m in turn.conversation.messages] == [("system", "You help.")]
        other = await agent.start_conversation()
        assert other.conversation.id != turn.conversation.id


async def test_a_first_message_is_answered_at_once(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", say("Hello.", usage=Usage(3, 4)))
    async with world.agent() as agent:
        turn = await agent.start_conversation("hi")
        result = answer(turn)
        assert (result.response, result.state, result.waiting_approval) == ("Hello.", "finished", False)
        assert result.usage == Spent(3, 4, unpriced=True)
        assert [(m.role, m.content, m.node) for m in turn.conversation.messages] == [
            ("system", "You help.", None),
            ("user", "hi", None),
            ("assistant", "Hello.", "agent"),
        ]


async def test_a_tool_is_called_at_once_and_its_result_told_in_the_same_answer(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY, "a, b")
    world.plan("agent", use(call("list", name="x")), say("There are a and b."))
    async with world.agent() as agent:
        turn = await agent.start_conversation("list all")
    assert answer(turn).response == "There are a and b."
    assert turn.conversation.head.status == "active"
    assert world.ledger == [("list", {"name": "x"})]
    [tool] = [m for m in turn.conversation.messages if m.role == "tool"]
    assert tool.call is not None
    assert (tool.content, tool.node) == ("a, b", "agent")
    assert (tool.call.name, tool.call.arguments, tool.call.state) == ("list", {"name": "x"}, "finished")
    assert (tool.call.server, tool.call.result, tool.call.is_error) == ("tools", "a, b", False)


async def test_model_gets_prompt_history_tools_and_results(world: World, autojump_clock: MockClock) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [1, {"b": []}]}}, "additionalProperties": False}
    world.tool("list", READ_ONLY, "a, b", schema=schema, description="What there is")
    world.tool("other", HARMLESS)
    world.plan("agent", use(call("list"), text="Let me see."), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("list all")
    first, second = world.requests
    assert first.prompt == "You help."
    assert first.messages == (UserMessage("list all"),)
    assert [(tool.name, tool.input_schema) for tool in first.tools] == [("list", schema), ("other", SCHEMA)]
    assert first.tools[0].description == "[MCP:tools] What there is"
    assert second.tools == first.tools
    asked = second.messages[1]
    assert isinstance(asked, AssistantMessage)
    assert (asked.text, asked.tool_calls[0].name) == ("Let me see.", "list")
    assert second.messages[2:] == (ToolMessage(asked.tool_calls[0].id, "list", "a, b"),)
    assert (first.call, second.call, first.turn) == (1, 2, 1)


async def test_all_calls_of_a_reply_settle_and_results_keep_their_order(
    world: World, autojump_clock: MockClock
) -> None:
    async def slow(arguments: Mapping[str, Any]) -> str:
        await trio.sleep(10 - arguments["n"])
        return f"result {arguments['n']}"

    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 10}]
    world.tool("slow", work=slow)
    world.plan("agent", use(*(call("slow", n=n) for n in range(4))), say("done"))
    async with world.agent() as agent:
        start = trio.current_time()
        await agent.start_conversation("go")
        took = trio.current_time() - start
        results = results_in(world.requests[1])
    assert [m.content for m in results] == [f"result {n}" for n in range(4)]
    assert took == pytest.approx(10)


@pytest.mark.parametrize(("max_parallel", "most"), [(None, 5), (2, 2)])
async def test_calls_slide_through_max_parallel_places(
    world: World, autojump_clock: MockClock, max_parallel: int | None, most: int
) -> None:
    async def slow(arguments: Mapping[str, Any]) -> str:
        await trio.sleep(9 if arguments["n"] == 0 else 1)
        return "ok"

    if max_parallel is not None:
        world.settings["tools"] = {"max_parallel": max_parallel}
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 50}]
    world.tool("slow", work=slow)
    world.plan("agent", use(*(call("slow", n=n) for n in range(10))), say("done"))
    async with world.agent() as agent:
        start = trio.current_time()
        await agent.start_conversation("go")
        took = trio.current_time() - start
    assert world.concurrent["slow"] == most
    # A window that slides: one slow call holds up its place and nobody else's.
    assert took <= 10 if max_parallel is None else took <= 18


@pytest.mark.parametrize(("asked", "made"), [(80, 80), (81, 0)])
async def test_calls_of_a_reply_queue_up_to_a_bound_and_beyond_it_none_is_made(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, asked: int, made: int
) -> None:
    monkeypatch.setattr(ask_model, "MAX_CALLS", 80)
    world.tool("list", READ_ONLY)
    world.plan("agent", use(*[call("list")] * asked), say("done"))
    async with world.agent() as agent:
        end = answer(await agent.start_conversation("go"))
    refusal = "the model asked for 81 tool calls in one reply (limit: 80); none was made"
    expected = ("finished", None, "done") if made else ("failed", "limit_reached", refusal)
    assert (end.state, end.code, end.response, len(world.ledger)) == (*expected, made)


async def test_a_server_may_get_one_call_at_a_time(world: World, autojump_clock: MockClock) -> None:
    world.settings["mcp_servers"] = [
        {"name": name, "command": "none", "max_concurrency": 1} for name in ("tools", "others")
    ]
    world.tool("slow", work=working(1))
    world.tool("other", work=working(1), server="others")
    world.plan("agent", use(call("slow"), call("slow"), call("other"), call("slow")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert world.concurrent == {"slow": 1, "other": 1, "": 2}


async def test_a_call_says_since_when_it_has_waited_for_its_place(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 1}]
    world.tool("slow", work=working(5))
    world.plan("agent", use(call("slow"), call("slow")), say("done"))
    async with world.agent() as agent:
        begin = trio.current_time()
        await agent.start_conversation("go")
    assert world.ready == [begin, begin]


async def test_a_server_gets_sixteen_calls_at_a_time_over_all_conversations(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("slow", work=working(1))
    world.plan("agent", use(call("slow")), say("done"))
    async with world.agent() as agent:
        begin = trio.current_time()
        async with trio.open_nursery() as nursery:
            for _ in range(40):
                nursery.start_soon(agent.start_conversation, "go")
        assert trio.current_time() - begin == 3
    assert world.concurrent["slow"] == 16


async def test_a_queue_before_a_slow_server_keeps_no_place_from_calls_of_another(
    world: World, autojump_clock: MockClock
) -> None:
    ended: dict[str, float] = {}

    def lasting(name: str, seconds: float) -> None:
        async def work(_: Mapping[str, Any]) -> str:
            await trio.sleep(seconds)
            ended[name] = trio.current_time()
            return "ok"

        world.tool(name, work=work, server=name)

    lasting("slow", 60)
    lasting("quick", 1)
    lasting("third", 1)
    world.settings |= {
        "tools": {"max_parallel": 2},
        "mcp_servers": [
            {"name": name, "command": "none", "max_concurrency": 1} for name in ("slow", "quick", "third")
        ],
    }
    world.plan("agent", use(*[call("slow")] * 4, call("quick"), call("third")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    # Who is first among those that came at once is not said.
    assert max(ended["quick"], ended["third"]) <= 2
    assert ended["slow"] <= 241


async def test_a_server_is_free_for_others_while_a_result_is_saved(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    began: list[float] = []
    save = world.journal.save

    async def slow(_: Mapping[str, Any]) -> str:
        began.append(trio.current_time())
        await trio.sleep(1)
        return "ok"

    async def slow_for_results(commit: Commit) -> Saved:
        if any(event.type == "tool.finished" for event in commit.events):
            await trio.sleep(60)
        return await save(commit)

    monkeypatch.setattr(world.journal, "save", slow_for_results)
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 1}]
    world.tool("slow", work=slow)
    world.plan("agent", use(call("slow")), say("done"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(agent.start_conversation, "go")
    assert began == [0, 1]


async def test_a_reply_that_uses_up_its_places_keeps_no_server_from_other_conversations(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("slow", work=working(60))
    world.tool("quick", server="others")
    world.settings["tools"] = {"max_parallel": 1}
    world.plan("agent", use(call("slow"), call("quick")), say("done"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.start_conversation, "go")
        await trio.sleep(1)
        world.plan("agent", use(call("quick")), say("done"), turn=1)
        await agent.start_conversation("go")
        assert trio.current_time() == 1


async def test_a_call_that_waits_for_a_human_holds_no_place(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("list", READ_ONLY)
    world.settings["tools"] = {"max_parallel": 1}
    world.plan("agent", use(call("wipe"), call("wipe"), call("list")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (answer(turn).state, world.called("list")) == ("waiting", 1)


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (ToolUnavailable("no connection"), "no connection"),
        (ToolOutcomeUnknown("the connection was lost"), "unknown"),
        (ToolResult("no such name", is_error=True), "no such name"),
    ],
)
async def test_failed_call_does_not_fail_the_others(
    world: World, autojump_clock: MockClock, failure: Any, text: str
) -> None:
    async def bad(_: Mapping[str, Any]) -> ToolResult:
        if isinstance(failure, Exception):
            raise failure
        return failure  # type: ignore[no-any-return]

    world.tool("good")
    world.tool("bad", work=bad)
    world.plan("agent", use(call("good"), call("bad"), call("missing"), call("good")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "done"
    results = results_in(world.requests[1])
    assert [m.is_error for m in results] == [False, True, True, False]
    assert text in results[1].content
    assert world.called("good") == 2
    assert world.called("bad") == 1


async def test_a_call_whose_server_crashes_may_have_happened(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE, RuntimeError("a bug"))
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert (answer(turn).state, world.called("wipe")) == ("waiting", 1)
        assert (await agent.approval(turn.conversation.head.pending[0])).kind == "outcome_unknown"


async def test_a_long_result_is_kept_whole_and_shown_to_the_model_as_far_as_configured(
    world: World, autojump_clock: MockClock
) -> None:
    long = "".join(f"{n} " for n in range(100_000))
    world.settings["tools"] = {"max_result_chars": 1000}
    world.tool("long", READ_ONLY, long)
    world.tool("short", READ_ONLY, "x" * 1000)
    world.plan("agent", use(call("long"), call("short")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        log = await events(world.journal, turn.conversation.id)
    rest = len(long) - 1000
    assert [result.content for result in results_in(world.requests[1])] == [
        f"{long[:1000]}\n[cut here: {rest} of {len(long)} characters are not shown]",
        "x" * 1000,
    ]
    kept = {event.body["key"]: event.body["result"] for event in log if event.type == "tool.finished"}
    assert kept["1/:1.0"]["content"] == long
    [whole, _] = [m.call.result for m in turn.conversation.messages if m.call is not None]
    assert whole == long


async def test_an_invented_tool_is_a_result_with_the_nearest_names(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("resources_list", READ_ONLY)
    world.tool("resources_add")
    world.plan("agent", use(call("resource_list")), say("sorry"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    [result] = results_in(world.requests[1])
    assert result.content.startswith("tool not found: resource_list")
    assert "resources_list" in result.content
    assert result.is_error
    assert answer(turn).response == "sorry"
    assert world.ledger == []


@pytest.mark.parametrize("filter", [{"mcp_servers": ["one"]}, {"tools": ["a*"]}], ids=str)
async def test_node_neither_sees_nor_calls_filtered_tools(
    world: World, autojump_clock: MockClock, filter: dict[str, Any]
) -> None:
    world.settings["mcp_servers"] = [{"name": name, "command": "none"} for name in ("one", "two")]
    world.settings["agent"] = sequential("s", llm("narrow", **filter), llm("wide"))
    world.tool("a", READ_ONLY, server="one")
    world.tool("b", READ_ONLY, server="two")
    world.plan("narrow", use(call("b")), say("no"))
    world.plan("wide", use(call("b")), say("yes"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    narrow, refused, wide, _ = world.requests
    assert [tool.name for tool in narrow.tools] == ["a"]
    assert [tool.name for tool in wide.tools] == ["a", "b"]
    [result] = results_in(refused)
    assert (result.content, result.is_error) == ("tool not found: b", True)
    assert len(world.ledger) == 1


async def test_call_with_invalid_arguments_is_never_made(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    broken = ToolCall("x", "wipe", {}, problem="not a JSON object")
    world.plan("agent", use(broken, call("wipe", name="b")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [asked] = turn.conversation.head.pending  # about the other call only
    async with world.agent() as agent:  # a replay tells the model the same
        turn = await agent.decide(asked, {"approved": True})
        log = await events(world.journal, turn.conversation.id)
    assert answer(turn).response == "done"
    assert world.ledger == [("wipe", {"name": "b"})]
    assert calls_in(world.requests[1])[0] == broken
    result = results_in(world.requests[1])[0]
    assert result == ToolMessage(
        "x", "wipe", "Invalid arguments: not a JSON object. Nothing was done.", is_error=True
    )
    [step] = [event.body for event in log if event.body.get("kind") == "call"]
    assert (step["key"], step["outcome"], step["content"]) == ("1/:1.0", "invalid", result.content)
    [batch] = [event.body for event in log if event.type == "batch.finished"]
    assert (batch["succeeded"], batch["failed"]) == (1, 1)


async def test_invalid_call_is_reported_without_an_approval(world: World, autojump_clock: MockClock) -> None:
    count = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    world.tool("wipe", DESTRUCTIVE, schema=count)
    world.settings["approval"] = {"rules": [{"tool": "wipe", "then": "deny"}]}
    world.plan("agent", use(call("wipe"), call("wipe", n="all")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        log = await events(world.journal, turn.conversation.id)
    assert (answer(turn).response, world.ledger, turn.conversation.approvals) == ("done", [], {})
    results = results_in(world.requests[1])
    assert [m.content for m in results] == [
        "Invalid arguments: 'n' is a required property. Nothing was done.",
        "Invalid arguments: n: 'all' is not of type 'integer'. Nothing was done.",
    ]
    steps = [event.body for event in log if event.body.get("kind") == "call"]
    assert {step["outcome"] for step in steps} == {"invalid"}
    assert not any(event.type.startswith(("tool.", "approval.")) for event in log)


async def test_gate_human_journal_and_tool_see_arguments_of_the_types_the_tool_asks_for(
    world: World, autojump_clock: MockClock
) -> None:
    schema = {"properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}
    world.tool("wipe", HARMLESS, schema=schema)
    rule = {"tool": "wipe", "arguments": {"n": {"above": 3}, "name": {"matches": "^7$"}}, "then": "ask"}
    world.settings["approval"] = {"rules": [rule]}
    world.plan("agent", use(call("wipe", name=7, n="4")), say("done"))
    right = {"name": "7", "n": 4}
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [asked] = turn.conversation.head.pending
        assert turn.conversation.approvals[asked].body["tool_args"] == right
        [waiting] = [m.call for m in turn.conversation.messages if m.call is not None]
        assert (waiting.state, waiting.arguments, waiting.server) == ("waiting", right, "tools")
    # What was shown is what is sent, also when the tool is another by then and it has to be asked again.
    world.tool("wipe", HARMLESS, schema=schema, description="Wipes more.")
    async with world.agent() as agent:
        turn = await agent.decide(asked, {"approved": True})
        [again] = turn.conversation.head.pending
        assert turn.conversation.approvals[again].body["tool_args"] == right
    async with world.agent() as agent:
        turn = await agent.decide(again, {"approved": True})
        log = await events(world.journal, turn.conversation.id)
    assert world.ledger == [("wipe", right)]
    [started] = [event.body for event in log if event.type == "tool.started"]
    assert started["arguments"] == right
    [sent] = calls_in(world.requests[-1])
    assert sent.arguments == right


async def test_arguments_that_are_nested_as_deep_as_they_may_be_come_through(
    world: World, autojump_clock: MockClock
) -> None:
    deep: list[Any] = []
    for _ in range(MAX_DEPTH - 2):
        deep = [deep]
    world.tool("wipe", DESTRUCTIVE, schema={"type": "object"})
    world.plan("agent", use(call("wipe", v=deep)), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert answer(turn).response == "done"
    assert (depth({"v": deep}), world.ledger) == (MAX_DEPTH, [("wipe", {"v": deep})])


async def test_a_loop_is_not_left_by_a_call_with_useless_arguments(
    world: World, autojump_clock: MockClock
) -> None:
    leave = ToolCall("x", "exit_loop", {}, problem="not a JSON object")
    node = llm("n", can_exit_loop=True)
    world.settings["agent"] = {"type": "loop", "name": "loop", "agents": [node], "max_iterations": 2}
    world.plan("n", use(leave), say("once more"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    counts = [(request.iteration, request.call) for request in world.requests]
    assert counts == [(1, 1), (1, 2), (2, 1), (2, 2)]


async def test_a_tool_called_exit_loop_is_no_exit_for_a_node_without_one(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("exit_loop", READ_ONLY)
    world.settings["agent"] = {"type": "loop", "name": "loop", "agents": [llm("n")], "max_iterations": 2}
    world.plan("n", use(call("exit_loop")), say("once more"))
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "once more"
    assert [name for name, _ in world.ledger] == ["exit_loop", "exit_loop"]


async def test_an_instruction_knows_which_round_of_the_loop_it_is(
    world: World, autojump_clock: MockClock
) -> None:
    node = llm("n", prompt="Round {iteration}")
    world.settings["agent"] = {"type": "loop", "name": "loop", "agents": [node], "max_iterations": 2}
    async with world.agent() as agent:
        await agent.start_conversation("go")
    assert ["Round 1" in request.system for request in world.requests] == [True, False]
    assert ["Round 2" in request.system for request in world.requests] == [False, True]


@pytest.mark.parametrize(("settings", "most"), [({"max_turns": 3}, 3), ({}, 10)], ids=["set", "default"])
async def test_max_turns_ends_a_run_that_never_answers(
    world: World, autojump_clock: MockClock, settings: dict[str, int], most: int
) -> None:
    world.tool("list", READ_ONLY)
    world.settings["agent"] = llm("agent", **settings)
    world.plan("agent", *[use(call("list"))] * 20)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert (answer(turn).state, answer(turn).code) == ("failed", "limit_reached")
        assert turn.conversation.head.status == "active"
        assert len(world.requests) == most
        world.plan("agent", say("fine"))
        assert answer(await agent.send(turn.conversation.id, "again")).response == "fine"


async def test_limits_count_per_run(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY)
    world.settings["limits"] = {"max_turns": 2, "max_tool_calls": 1}
    world.plan("agent", use(call("list")), say("fine"))
    world.plan("agent", *[use(call("list"))] * 2, turn=3)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        again = await agent.send(turn.conversation.id, "go on")
        assert [answer(each).response for each in (turn, again)] == ["fine", "fine"]
        assert answer(await agent.send(turn.conversation.id, "too far")).code == "limit_reached"


async def test_a_run_makes_no_more_tool_calls_than_it_may(world: World, autojump_clock: MockClock) -> None:
    """Those count that pass the gate, whichever node makes them."""
    world.tool("list", READ_ONLY)
    world.tool("wipe", DESTRUCTIVE)
    nodes = [llm("a"), llm("b")]
    world.settings |= {
        "limits": {"max_tool_calls": 2},
        "agent": {"type": "sequential", "name": "both", "agents": nodes},
        "approval": {"rules": [{"tool": "wipe", "then": "deny"}]},
    }
    world.plan("a", use(call("wipe"), call("list")), say("one"))
    world.plan("b", use(call("list")), say("two"))
    world.plan("b", use(call("list")), use(call("list")), say("three"), turn=2)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).response == "two"
        end = answer(await agent.send(turn.conversation.id, "go on"))
    assert (end.state, end.code) == ("failed", "limit_reached")
    assert end.response == "the run stopped after 2 tool calls (limits.max_tool_calls)"
    assert [name for name, _ in world.ledger] == ["list"] * 4


async def test_tool_calls_of_a_run_count_from_life_to_life(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY)
    world.tool("wipe", DESTRUCTIVE)
    world.settings["limits"] = {"max_tool_calls": 2}
    world.plan("agent", use(call("list")), use(call("wipe")), use(call("list")), say("done"))
    async with world.agent() as agent:
        [question] = (await agent.start_conversation("go")).conversation.head.pending
    async with world.agent() as agent:
        assert answer(await agent.decide(question, {"approved": True})).code == "limit_reached"
    assert [name for name, _ in world.ledger] == ["list", "wipe"]


async def test_a_node_asks_for_no_more_tool_calls_than_it_may(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY)
    world.settings["agent"] = llm("n", max_tool_calls=3)
    world.plan("n", use(call("list")), use(call("list"), call("list")), say("done"))
    world.plan("n", use(call("list")), use(*[call("list")] * 3), say("done"), turn=2)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert answer(turn).response == "done"
        end = answer(await agent.send(turn.conversation.id, "go on"))
    assert (end.state, end.code) == ("failed", "limit_reached")
    assert end.response == 'node "n" stopped: it asked for 4 tool calls, and may make 3 (max_tool_calls)'
    assert len(world.ledger) == 4


@pytest.mark.parametrize("failure", [ModelFailed("overloaded", status=529), ValueError("a secret: sk-123")])
async def test_failed_model_ends_the_run_not_the_conversation(
    world: World, autojump_clock: MockClock, failure: Exception
) -> None:
    world.plan("agent", failure, turn=1)
    world.plan("agent", say("better"), turn=2)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        result = answer(turn)
        assert result.response.startswith("LLM error: ")
        assert "sk-123" not in result.response
        assert (result.state, turn.conversation.head.status) == ("failed", "active")
        last = turn.conversation.messages[-1]
        assert (last.role, last.content) == ("assistant", result.response)
        assert answer(await agent.send(turn.conversation.id, "again")).response == "better"


async def test_a_reply_cut_off_in_its_calls_is_not_acted_upon(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY)
    world.plan("agent", ModelReply("", (call("list"),), stop="max_tokens"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response.startswith("LLM error: ")
    assert world.ledger == []


async def test_calls_with_equal_ids_get_unique_ids(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY)
    world.plan("agent", use(call("list", n=1), call("list", n=2)), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    results = results_in(world.requests[1])
    assert len({m.call_id for m in results}) == 2


async def test_the_log_of_a_turn(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY)
    world.plan("agent", use(call("list")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert await types(world.journal, turn.conversation.id) == [
        "conversation.created",
        "message.added",
        "run.started",
        "step.finished",
        "tool.started",
        "tool.finished",
        "batch.finished",
        "step.finished",
        "run.finished",
    ]
