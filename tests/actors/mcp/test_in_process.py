"""Servers that the program brings: objects of the SDK, called like any other server."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import yaml
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp_types import CallToolResult, ListToolsResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel
from trio.testing import MockClock

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.mcp.server import mcp_server
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import (
    CallTool,
    Elicitation,
    ElicitationAnswer,
    ListTools,
    Progress,
    ServerMessage,
    ToolOutcomeUnknown,
)
from stopgo.config.load import load_config
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.text.errors import ConfigError
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp.conftest import times_out
from tests.waiting import LIMIT, until

Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]
ENTRY = McpServerConfig("calc", timeout=LIMIT, connect_timeout=LIMIT)


class Stray(BaseException):
    """Like the `CancelledError` of asyncio."""


class Answer(BaseModel):
    really: bool


def server(**more: Any) -> MCPServer:
    return MCPServer("calc", **more)


@pytest.fixture
def calc() -> MCPServer:
    calc = server()

    @calc.tool(annotations=ToolAnnotations(read_only_hint=True))
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @calc.tool(annotations=ToolAnnotations(destructive_hint=True))
    async def wipe(name: str) -> str:
        await trio.lowlevel.checkpoint()
        return f"wiped {name}"

    @calc.tool()
    def where() -> str:
        """Name the thread."""
        return str(threading.current_thread() is threading.main_thread())

    @calc.tool()
    def fail() -> str:
        raise ValueError("no such luck")

    @calc.tool()
    def leave() -> str:
        sys.exit(3)

    @calc.tool()
    def give_up() -> str:
        raise Stray

    @calc.tool()
    def long(characters: int) -> str:
        return "x" * characters

    @calc.tool()
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        said = await ctx.elicit("Really?", Answer)
        return f"{said.action} {getattr(said, 'data', None)}"

    return calc


async def call(to: ActorRef[ServerMessage], tool: str, **arguments: Any) -> Any:
    return await to.ask(CallTool(tool, arguments))


async def test_in_process_tools_are_listed_and_called(
    calc: MCPServer, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(ENTRY, brought=calc) as actor:
        tools = {tool.name: tool for tool in await actor.ask(ListTools())}
        assert tools["add"].hints.read_only
        assert tools["wipe"].hints.destructive
        assert tools["add"].server == "calc"
        added = await call(actor, "add", a=1, b=2)
        assert (added.content, added.structured) == ("3", {"result": 3})
        assert (await call(actor, "wipe", name="x")).content == "wiped x"
        assert (await call(actor, "where")).content == "False"
        failed = await call(actor, "fail")
        assert failed.is_error
        assert failed.content == "Error executing tool fail"
    assert [status.state for status in statuses] == ["connecting", "connected"]


async def test_low_level_server_runs(serving: Open) -> None:
    async def list_tools(*_: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="echo", input_schema={"type": "object"})])

    async def call_tool(_: Any, params: Any) -> CallToolResult:
        return CallToolResult(content=[TextContent(type="text", text=str(params.arguments))])

    low = Server("low", on_list_tools=list_tools, on_call_tool=call_tool)
    async with serving(ENTRY, brought=low) as actor:
        assert (await call(actor, "echo", text="hi")).content == "{'text': 'hi'}"


async def test_in_process_long_result_is_abridged(calc: MCPServer, serving: Open) -> None:
    async with serving(ENTRY, brought=calc, max_stored_bytes=5000) as actor:
        assert len((await call(actor, "long", characters=100_000)).content) < 6000


async def test_question_and_progress_reach_their_own_call(calc: MCPServer, serving: Open) -> None:
    asked: list[str] = []
    told: list[Progress] = []
    both = trio.Event()

    def asking(name: str) -> CallTool:
        async def answer(question: Elicitation) -> ElicitationAnswer:
            asked.append(name)
            if len(asked) == 2:
                both.set()
            await both.wait()
            return ElicitationAnswer("accept", {"really": name == "a"})

        return CallTool("ask", {}, on_elicitation=answer, on_progress=told.append)

    said: dict[str, str] = {}
    async with serving(attrs.evolve(ENTRY, mode="legacy"), brought=calc) as actor:

        async def one(name: str) -> None:
            said[name] = (await actor.ask(asking(name))).content

        async with trio.open_nursery() as nursery:
            nursery.start_soon(one, "a")
            nursery.start_soon(one, "b")
    assert said == {"a": "accept really=True", "b": "accept really=False"}
    assert [each.message for each in told] == ["half", "half"]


async def test_invalid_utf_8_is_repaired(serving: Open) -> None:
    """File names may contain characters that UTF-8 cannot encode."""
    calc, began, release = server(), trio.Event(), trio.Event()
    calls = 0

    @calc.tool()
    async def slow() -> str:
        nonlocal calls
        calls += 1
        began.set()
        await release.wait()
        return "done"

    @calc.tool(structured_output=False)
    async def name() -> str:
        await trio.lowlevel.checkpoint()
        return "a\udc80"

    async with serving(ENTRY, brought=calc) as actor:
        said: list[str] = []

        async def wait() -> None:
            said.append((await call(actor, "slow")).content)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await began.wait()
            assert (await call(actor, "name")).content == "a\N{REPLACEMENT CHARACTER}"
            release.set()
    assert (said, calls) == (["done"], 1)


@pytest.mark.parametrize("tool", ["leave", "give_up"])
async def test_base_exception_ends_only_the_connection(
    calc: MCPServer, serving: Open, statuses: list[ServerStatus], tool: str
) -> None:
    async with serving(ENTRY, brought=calc) as actor:
        with pytest.raises(ToolOutcomeUnknown):
            await call(actor, tool)
        assert (await call(actor, "add", a=1, b=1)).content == "2"
    states = [(status.state, status.error) for status in statuses]
    assert ("disconnected", "it has ended") in states


async def test_timed_out_function_keeps_running(serving: Open, clock: MockClock) -> None:
    calc, began, release, ended = server(), threading.Event(), threading.Event(), threading.Event()

    @calc.tool()
    def block() -> str:
        began.set()
        release.wait()
        ended.set()
        return "too late"

    @calc.tool()
    def add(a: int, b: int) -> int:
        return a + b

    async with serving(McpServerConfig("calc", timeout=600.0), brought=calc) as actor:
        told = await times_out(actor, CallTool("block", {}), began.is_set, clock)
        assert told == 'MCP server "calc" timed out after 600 s'
        assert (await call(actor, "add", a=1, b=2)).content == "3"
        assert not ended.is_set()
        release.set()
        await until(ended.is_set)


async def test_cancelled_call_cancels_an_async_function(serving: Open) -> None:
    calc, began, cancelled = server(), trio.Event(), trio.Event()

    @calc.tool()
    async def block() -> str:
        began.set()
        try:
            await trio.sleep_forever()
        finally:
            cancelled.set()

    async with serving(ENTRY, brought=calc) as actor:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(actor.ask, CallTool("block", {}))
            await began.wait()
            nursery.cancel_scope.cancel()
        await cancelled.wait()


async def test_server_lifespan_is_that_of_its_connection(serving: Open) -> None:
    seen: list[str] = []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        seen.append("in")
        yield
        seen.append("out")

    async with serving(ENTRY, brought=server(lifespan=lifespan)):
        assert seen == ["in"]
    assert seen == ["in", "out"]


async def test_failed_lifespan_is_the_reason(serving: Open) -> None:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        raise RuntimeError("the database is away")
        yield

    with pytest.raises(ServerStartFailed, match="the database is away"):
        async with serving(ENTRY, brought=server(lifespan=lifespan)):
            pass


# ------------------------------------------------------------- names and objects

FILE = {
    "llm": {"model": "offline:rules"},
    "mcp_servers": [
        {"name": "calc", "brought_by": "program", "timeout": 5},
        {"name": "files", "command": "none", "enabled": False},
    ],
    "approval": {"rules": [{"server": "calc", "tool": "add", "then": "ask"}]},
}


def config(folder: Path, **changes: Any) -> AgentConfig:
    path = folder / "agent.yaml"
    path.write_text(yaml.safe_dump({**FILE, **changes, "data_dir": str(folder / "data")}))
    return load_config(path)


async def test_file_settings_apply_to_brought_servers(tmp_path: Path, calc: MCPServer) -> None:
    more = server()
    async with open_agent(config(tmp_path), servers={"calc": calc, "more": more}) as agent:
        policies = {each.tool.name: each.policy for each in agent.tools()}
        assert (policies["add"], policies["wipe"], policies["where"]) == ("ask", "ask", "run")
        assert {each.name: each.state for each in agent.health().servers} == {
            "calc": "connected",
            "more": "connected",
        }
        entries = {each.name: each for each in agent.config.enabled_servers}
    assert entries["calc"].timeout == 5.0
    assert {each.first_transport for each in entries.values()} == {"program"}


@pytest.mark.parametrize(
    ("servers", "codes", "text"),
    [
        ({}, "missing_server", 'open_agent(config, servers={"calc": server})'),
        ({"clac": server()}, "missing_server", 'did you mean "clac"?'),
        ({"calc": server(), "files": server()}, "duplicate_name", "brought_by: program"),
        ({"calc": server(), "my:tools": server()}, "bad_format", "is no name of a server"),
        ({"calc": server(), 7: server()}, "bad_format", "letters, digits"),
        ({7: server()}, "bad_format missing_server", "is no name of a server"),
        ({"calc": lambda: 1}, "wrong_type", "found an object of function"),
        ([server()], "wrong_type", 'servers={"calc": server}'),
    ],
)
async def test_invalid_servers_are_config_errors(tmp_path: Path, servers: Any, codes: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        async with open_agent(config(tmp_path), servers=servers):
            pass
    assert [problem.code for problem in caught.value.problems] == codes.split()
    assert text in str(caught.value)


async def test_open_server_does_not_open_brought_servers(tmp_path: Path, calc: MCPServer) -> None:
    opened: list[str] = []

    def open_server(config: McpServerConfig, *, report: Callable[[ServerStatus], None]) -> Any:
        opened.append(config.name)
        return mcp_server(McpServerConfig(config.name), report=report, brought=server())

    files = [{"name": "calc", "brought_by": "program"}, {"name": "files", "command": "none"}]
    mine = config(tmp_path, mcp_servers=files)
    async with open_agent(mine, servers={"calc": calc}, open_server=open_server) as agent:
        assert "add" in {each.tool.name for each in agent.tools()}
    assert opened == ["files"]


async def test_rule_on_a_missing_tool_fails_the_start(tmp_path: Path, calc: MCPServer) -> None:
    rules = {"rules": [{"server": "calc", "tool": "ad", "then": "ask"}]}
    with pytest.raises(ConfigError, match='no tool is called "ad"'):
        async with open_agent(config(tmp_path, approval=rules), servers={"calc": calc}):
            pass


async def test_other_commands_cannot_use_brought_servers(serving: Open) -> None:
    with pytest.raises(ServerStartFailed, match="only a program can bring it"):
        async with serving(ENTRY):
            pass
