"""The history that a node's model is told in later turns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.kept_forms import PER_ITEM
from stopgo.actors.log.fold.past import NO_RESULT, NOT_SENT
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelFailed,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from stopgo.actors.tools.tool import ToolOutcomeUnknown
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    World,
    answer,
    call,
    llm,
    parallel,
    say,
    sequential,
    use,
)

WIDE = [{"name": "tools", "command": "none", "max_concurrency": 10}]

Do: TypeAlias = Callable[[World, Agent, str], Awaitable[object]]
"""What happens to the first turn of a conversation."""


def told(messages: tuple[ChatMessage, ...]) -> list[object]:
    """Short: user texts and answers as they are, calls as name and arguments, results as text and error."""
    short: list[object] = []
    for each in messages:
        match each:
            case UserMessage(text=text) | AssistantMessage(text=text, tool_calls=()):
                short.append(text)
            case AssistantMessage(text=text, tool_calls=calls):
                short.append((text, *((made.name, dict(made.arguments)) for made in calls)))
            case ToolMessage(content=content, is_error=is_error):
                short.append((content, is_error))
    return short


async def nothing(world: World, agent: Agent, id: str) -> None:
    """The turn ends by itself."""


def decide(words: Mapping[str, Any]) -> Do:
    async def do(world: World, agent: Agent, id: str) -> None:
        for question in (await agent.get(id)).head.pending:
            await agent.decide(question, words)

    return do


async def cancel(world: World, agent: Agent, id: str) -> None:
    await trio.sleep(1)
    await agent.cancel(id)


async def slow(_: Mapping[str, Any]) -> str:
    await trio.sleep(100)
    return "late"


@pytest.mark.parametrize(
    ("calls", "do", "results", "final"),
    [
        (["list", "post"], nothing, [("a, b", False), ("post ok", False)], "done"),
        (["lost"], nothing, [None], "done"),
        (["none_such"], nothing, [None], "done"),
        (["wipe"], decide({"approved": True}), [("wiped", False)], "done"),
        (["wipe"], decide({"approved": False, "reason": "no"}), [None], "done"),
        (["list", "wipe"], cancel, [("a, b", False), (NOT_SENT, True)], "The run was cancelled."),
        (["list", "slow"], cancel, [("a, b", False), None], "The run was cancelled."),
    ],
)
async def test_later_turn_shows_each_call_and_its_end(
    world: World,
    autojump_clock: MockClock,
    calls: list[str],
    do: Do,
    results: list[tuple[str, bool] | None],
    final: str,
) -> None:
    world.settings["mcp_servers"] = WIDE
    world.tool("list", READ_ONLY, "a, b")
    world.tool("post", HARMLESS)
    world.tool("lost", HARMLESS, ToolOutcomeUnknown("the connection was lost"))
    world.tool("wipe", DESTRUCTIVE, "wiped")
    world.tool("slow", READ_ONLY, slow)
    made = [call(name, name=str(n)) for n, name in enumerate(calls)]
    world.plan("agent", use(*made, text="Let me see."), say("done"), turn=1)
    async with world.agent() as agent, trio.open_nursery() as nursery:
        id = (await agent.start_conversation()).conversation.id
        nursery.start_soon(agent.send, id, "first")
        await trio.sleep(0.5)
        await do(world, agent, id)
        shown = [m for m in (await agent.get(id)).messages if m.role == "tool"]
        await agent.send(id, "second")
    # Where the table says nothing, a result is the one that the conversation shows: an error.
    expected = [each or (shown[n].content, True) for n, each in enumerate(results)]
    assert all(content for content, _ in expected)
    asked = ("Let me see.", *((name, {"name": str(n)}) for n, name in enumerate(calls)))
    assert told(world.requests[-1].messages) == ["first", asked, *expected, final, "second"]
    async with world.agent() as agent:  # by the journal alone
        await agent.send(id, "third")
    assert told(world.requests[-1].messages)[:-2] == ["first", asked, *expected, final, "second"]


async def test_history_shows_edited_arguments(world: World, autojump_clock: MockClock) -> None:
    world.settings["mcp_servers"] = {"fs": {"command": "none", "expose": "server"}}
    world.tool("wipe", DESTRUCTIVE, server="fs")
    world.plan("agent", use(call("mcp_fs", tool="wipe", arguments={"name": "all"})), say("ok"), turn=1)
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await decide({"approved": True, "arguments": {"name": "one"}})(world, agent, id)
        await agent.send(id, "second")
    assert world.ledger == [("wipe", {"name": "one"})]
    asked = ("", ("mcp_fs", {"tool": "wipe", "arguments": {"name": "one"}}))
    assert told(world.requests[-1].messages) == ["first", asked, ("wipe ok", False), "ok", "second"]


async def test_history_shows_the_completed_part_of_a_failed_turn(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("list", READ_ONLY, "a, b")
    world.plan("agent", use(call("list")), ModelFailed("down"), turn=1)
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await agent.send(id, "second")
    assert told(world.requests[-1].messages) == [
        "first",
        ("", ("list", {})),
        ("a, b", False),
        "LLM error: down",
        "second",
    ]


async def test_results_are_as_long_as_the_model_was_shown_them(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["tools"] = {"max_result_chars": 100}
    world.tool("list", READ_ONLY, "x" * 300)
    kept = Verbatim("p", ["signed"])
    world.plan("agent", attrs.evolve(use(call("list")), verbatim=kept), say("done"), turn=1)
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
        await agent.send(id, "second")
        size = agent._cast.services.logs.kept.size
    _, then, now = world.requests
    assert size > 4 * PER_ITEM + 100  # the kept messages of the first turn, and the text that was cut
    assert now.messages[: len(then.messages)] == then.messages  # what a provider remembers counts again
    assert isinstance(reply := now.messages[1], AssistantMessage)
    assert reply.verbatim == kept
    assert (then.before, now.before) == (1, 5)


async def test_history_shows_only_the_nodes_own_calls(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY, work=_by_name)
    loop = {"type": "loop", "name": "loop", "max_iterations": 2, "agents": [llm("d", can_exit_loop=True)]}
    fan = parallel("fan", llm("b"), llm("c"))
    world.settings["agent"] = sequential("root", llm("a"), fan, loop)
    for node in "abcd":
        world.plan(node, use(call("list", name=node)), say(f"{node} says"), turn=1)
    async with world.agent() as agent:
        turn = await agent.start_conversation("first")
        await agent.send(turn.conversation.id, "second")
    final = answer(turn).response
    for node in "abc":
        asked, result = ("", ("list", {"name": node})), (f"of {node}", False)
        assert told(world.asked(node)[-1].messages) == ["first", asked, result, final, "second"]
    asked, result = ("", ("list", {"name": "d"})), ("of d", False)
    earlier = ["first", asked, result, asked, result, final, "second"]
    assert [told(each.messages) for each in world.asked("d") if each.turn == 2] == [
        earlier,
        [*earlier, "d done", "Iteration 2."],
    ]


async def _by_name(arguments: Mapping[str, Any]) -> str:
    return f"of {arguments['name']}"


async def test_stopped_iteration_is_shown_with_all_its_calls(world: World, autojump_clock: MockClock) -> None:
    world.settings["mcp_servers"] = WIDE
    world.tool("list", READ_ONLY, "a, b")
    world.tool("slow", READ_ONLY, slow)
    node = llm("n", timeout=10, on_error="continue")
    world.settings["agent"] = {"type": "loop", "name": "loop", "max_iterations": 2, "agents": [node]}
    world.plan("n", use(call("list"), call("slow")), say("never"), turn=1)
    async with world.agent() as agent:
        await agent.start_conversation("first")
    asked: object = ("", ("list", {}), ("slow", {}))
    results = [("a, b", False), (NO_RESULT, True)]
    assert told(world.asked("n")[1].messages) == ["first", asked, *results, "Iteration 2."]


async def test_history_of_a_renamed_node_shows_only_answers(world: World, autojump_clock: MockClock) -> None:
    world.tool("list", READ_ONLY, "a, b")
    world.plan("agent", use(call("list")), say("done"))
    async with world.agent() as agent:
        id = (await agent.start_conversation("first")).conversation.id
    world.settings["agent"] = llm("other")
    async with world.agent() as agent:
        await agent.send(id, "second")
    assert told(world.requests[-1].messages) == ["first", "done", "second"]
