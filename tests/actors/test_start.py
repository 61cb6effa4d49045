"""Start-up is all or nothing, and says everything that is wrong in the order of the file."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.common.errors import Misconfigured, StartError
from stopgo.actors.models.messages.errors import UnknownProvider
from stopgo.actors.models.providers.model import Model
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.nodes import LlmNode
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
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
    types,
    use,
    wall,
)

ECHO_SERVER = str(Path(__file__).parents[2] / "testdata" / "servers" / "echo_server.py")


async def refusal(world: World) -> str:
    with pytest.raises(StartError) as caught:
        async with world.agent():
            pytest.fail("it started")
    assert world.running == []
    return str(caught.value)


def servers(world: World, *names: str) -> None:
    world.settings["mcp_servers"] = [{"name": name, "command": "none"} for name in names]


async def test_file_name_in_place_of_a_configuration_is_named() -> None:
    with pytest.raises(
        TypeError, match=r"takes an AgentConfig, such as load_config\(FILE\), not a value of type str"
    ):
        async with open_agent("agent.yaml"):  # type: ignore[arg-type]
            pytest.fail("it started")


def test_program_without_trio_is_told_what_to_write() -> None:
    with pytest.raises(RuntimeError, match="for_asyncio"):
        open_agent(AgentConfig(agent=LlmNode(name="n", prompt="", model="m"))).__aenter__().send(None)


async def test_no_server_at_all_is_fine(world: World, autojump_clock: MockClock) -> None:
    async with world.agent() as agent:
        assert agent.tools() == ()
        assert agent.health().ready
        assert answer(await agent.start_conversation("hi")).response == "agent done"


async def test_the_tools_of_all_servers_each_with_its_own(world: World, autojump_clock: MockClock) -> None:
    servers(world, "one", "two", "empty")
    world.tool("a", READ_ONLY, server="one")
    world.tool("c", HARMLESS, server="two")
    world.tool("b", DESTRUCTIVE, server="two")
    async with world.agent() as agent:
        listed = [(each.tool.name, each.tool.server, each.policy) for each in agent.tools()]
        assert listed == [("a", "one", "run"), ("c", "two", "run"), ("b", "two", "ask")]
        health = agent.health()
        assert {(part.name, part.state) for part in health.servers} == {
            (name, "connected") for name in ("one", "two", "empty")
        }
        assert [part.name for part in health.models] == ["test:model"]
        assert health.ready
        assert sorted(world.running) == ["empty", "one", "two"]
    assert world.running == []


async def test_a_call_reaches_the_server_that_has_the_tool(world: World, autojump_clock: MockClock) -> None:
    servers(world, "one", "two")
    world.tool("a", server="one")
    world.tool("b", server="two")
    world.plan("agent", use(call("b"), call("a")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    calls = [m.call for m in turn.conversation.messages if m.call]
    assert [(each.server, each.result) for each in calls] == [("two", "b ok"), ("one", "a ok")]


@pytest.mark.repeat(5)
async def test_all_start_failures_are_reported_in_file_order(world: World, autojump_clock: MockClock) -> None:
    servers(world, "first", "good", "second", "third")
    world.broken = {"third": "reason 3", "first": "reason 1", "second": "reason 2"}
    text = await refusal(world)
    places = [text.index(f"reason {n}") for n in (1, 2, 3)]
    assert places == sorted(places)
    assert '"first"' in text
    assert '"good"' not in text


async def test_a_tool_on_two_servers_fails_the_start_with_these_words(
    world: World, autojump_clock: MockClock
) -> None:
    servers(world, "server-a", "server-b")
    world.tool("X", server="server-a")
    name, work = world.tools["X"]
    world.tools["again"] = (name.__class__("X", "", {}, "server-b"), work)
    text = await refusal(world)
    assert text == 'duplicate tool name "X" found in MCP servers "server-a" and "server-b"'


async def test_all_duplicates_are_reported(world: World, autojump_clock: MockClock) -> None:
    servers(world, "a", "b", "c")
    for server in "abc":
        world.tool("X", server=server)
        world.tools[f"X of {server}"] = world.tools.pop("X")
    world.tool("Y", server="a")
    world.tools["Y of a"] = world.tools.pop("Y")
    world.tool("Y", server="b")
    text = await refusal(world)
    for line in (
        'duplicate tool name "X" found in MCP servers "a" and "b"',
        'duplicate tool name "X" found in MCP servers "a" and "c"',
        'duplicate tool name "Y" found in MCP servers "a" and "b"',
    ):
        assert line in text.splitlines()


async def test_failed_connection_is_reported_before_duplicates(
    world: World, autojump_clock: MockClock
) -> None:
    servers(world, "a", "b", "c")
    world.tool("X", server="a")
    world.tools["X of a"] = world.tools.pop("X")
    world.tool("X", server="b")
    world.broken = {"c": "no such program"}
    text = await refusal(world)
    assert "no such program" in text


async def test_servers_connect_side_by_side(world: World, autojump_clock: MockClock) -> None:
    world.slow_start = 5.0
    servers(world, *(f"s{n}" for n in range(6)))
    start = trio.current_time()
    async with world.agent():
        assert trio.current_time() - start == pytest.approx(5)


async def test_all_unavailable_models_are_reported_together(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = sequential(
        "root", llm("a", model="test:bad-1"), parallel("p", llm("b", model="test:bad-2"), llm("c"))
    )

    def open_model(name: str, *, folder: Path) -> Model:
        if name.startswith("test:bad"):
            raise UnknownProvider(f"unknown model {name}")
        return world.open_model(name, folder=folder)

    with pytest.raises(
        Misconfigured, match=r"model: unknown model test:bad-1\n.*model: unknown model test:bad-2"
    ):
        async with open_agent(
            world.config(),
            journal=MemoryJournal(wall),
            open_server=world.open_server,
            open_model=open_model,
        ):
            pytest.fail("it started")


async def test_start_warns_of_calls_that_run_without_approval(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("look", READ_ONLY)
    world.settings["agent"] = parallel("fan", llm("a"), llm("b"))
    async with world.agent():
        warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    [line] = warnings
    assert '"wipe" of server "tools" in node "a" and 1 more' in line


class Silent(World):
    """Servers of a program's own, which do not say how they are."""

    def relist(self, server: str) -> None:
        pass


async def test_a_server_that_reports_nothing_is_used_all_the_same(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = Silent(tmp_path)
    world.tool("look", READ_ONLY, "seen")
    world.plan("agent", use(call("look")), say("done"))
    async with world.agent() as agent:
        assert answer(await agent.start_conversation("go")).response == "done"
        assert agent.health().ready
    assert world.called("look") == 1


async def test_a_failure_inside_the_block_stops_everything_too(
    world: World, autojump_clock: MockClock
) -> None:
    servers(world, "one")
    with pytest.raises(BaseException) as caught:
        async with world.agent():
            raise ZeroDivisionError
    assert "ZeroDivisionError" in repr(caught.value)
    assert world.running == []


async def test_after_a_failure_inside_the_block_no_further_step_begins(
    world: World, autojump_clock: MockClock
) -> None:
    async def slow(_: Mapping[str, Any]) -> str:
        await trio.sleep(2)
        return "slow ok"

    world.tool("put", HARMLESS, slow)
    world.plan("agent", use(call("put")), use(call("put")), say("done"))
    with suppress(BaseExceptionGroup, ZeroDivisionError):
        async with world.agent() as agent:
            id = (await agent.post_conversation("go")).conversation.id
            await trio.sleep(1)
            raise ZeroDivisionError
    assert (world.called("put"), len(world.requests)) == (1, 1)
    assert (await types(world.journal, id))[-2:] == ["tool.finished", "batch.finished"]
    async with world.agent() as agent:
        await trio.sleep(10)
        assert (await agent.get(id)).messages[-1].content == "done"
    assert world.called("put") == 2


async def test_a_server_that_is_switched_off_is_not_there(world: World, autojump_clock: MockClock) -> None:
    world.settings["mcp_servers"] = {"on": {"command": "none"}, "off": {"command": "none", "enabled": False}}
    world.broken["off"] = "it was started"
    world.tool("a", READ_ONLY, server="on")
    async with world.agent() as agent:
        assert world.running == ["on"]
        assert [each.tool.name for each in agent.tools()] == ["a"]
        assert agent.health().ready


@pytest.mark.parametrize("others", [(), ("there",), ("gone",), ("gone", "there")])
async def test_agent_is_ready_without_optional_servers_unless_all_failed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, others: tuple[str, ...]
) -> None:
    """The design of the MCP manager, 11.1: failed servers are warnings, and all of them an error."""
    nothing = str(tmp_path / "nothing")
    servers = [McpServerConfig(name=name, command=nothing, required=False) for name in ("away", "gone")]
    servers.append(McpServerConfig(name="there", command=sys.executable, args=("-S", ECHO_SERVER)))
    config = AgentConfig(
        agent=LlmNode(name="agent", prompt="", model="offline:rules"),
        mcp_servers=tuple(each for each in servers if each.name in ("away", *others)),
    )
    async with open_agent(config, journal=MemoryJournal()) as agent:
        health = agent.health()
        away = health.servers[0]
        assert (away.name, away.state) == ("away", "disconnected")
        assert "command not found" in (away.error or "")
        assert health.ready == ("there" in others)
    failed = [
        line for line in caplog.messages if line.startswith("all MCP servers failed: away: command not")
    ]
    assert len(failed) == (not health.ready)


async def test_a_server_that_fails_to_stop_keeps_none_of_the_others_from_stopping(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    servers(world, "one", "two", "three")
    world.stubborn = {"two": "the door is stuck"}
    async with world.agent():
        assert sorted(world.running) == ["one", "three", "two"]
    assert world.running == []
    assert "the door is stuck" in caplog.text


async def test_stopping_takes_as_long_as_the_slowest_server(world: World, autojump_clock: MockClock) -> None:
    servers(world, *"abcdef")
    world.slow_stop = 4.0
    async with world.agent():
        begin = trio.current_time()
    assert trio.current_time() - begin == 4.0
