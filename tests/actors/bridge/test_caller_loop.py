"""Tool servers that a program on asyncio brings: they run on its loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import BaseModel

from stopgo import AsyncioAgent, blocking, for_asyncio, load_config, open_agent
from stopgo.actors.bridge import caller_loop
from stopgo.actors.mcp.transports.foreign_loop import USES_ASYNCIO, USES_TRIO, reason_of
from stopgo.config.sections.agent_config import AgentConfig

READ_ONLY = ToolAnnotations(read_only_hint=True)


class Answer(BaseModel):
    really: bool


def config(folder: Path, tool: str, times: int = 1) -> AgentConfig:
    call = f"{{name: {tool}}}"
    calls = f"{{when: {{call: 1}}, tool_calls: [{', '.join([call] * times)}]}}"
    (folder / "replies.yaml").write_text(f"replies: [{calls}, {{text: done}}]\n")
    # In the older era of MCP, servers ask while a call runs.
    (folder / "agent.yaml").write_text(
        "llm: {model: 'script:replies.yaml'}\n"
        "mcp_servers: [{name: shop, brought_by: program, mode: legacy}]\n"
    )
    return load_config(folder / "agent.yaml", data_dir=folder / "data")


async def results(agent: AsyncioAgent, text: str = "go") -> list[str]:
    turn = await agent.start_conversation(text)
    assert turn.result is not None
    assert (turn.result.state, turn.result.response) == ("finished", "done")
    return await contents(agent, turn.conversation.id)


async def contents(agent: AsyncioAgent, id: str) -> list[str]:
    """The results of the tools in a run, once it has finished."""
    found = []
    async for event in agent.events(id):
        if event.type == "tool.finished":
            found.append(str(event.body["result"]["content"]))
        if event.type == "run.finished":
            break
    return found


def test_async_functions_use_the_connections_of_the_program(tmp_path: Path) -> None:
    """As asyncpg and aiohttp need it: a pool that was made on the loop of the program, and tasks of it."""
    shop = MCPServer("shop", log_level="CRITICAL")

    async def main() -> None:
        async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"42")
            writer.close()

        served = await asyncio.start_server(serve, "127.0.0.1", 0)
        address = served.sockets[0].getsockname()
        loop, lock, seen = asyncio.get_running_loop(), asyncio.Lock(), set[object]()

        @shop.tool(annotations=READ_ONLY, structured_output=False)
        async def stock() -> str:
            seen.add(asyncio.get_running_loop())
            async with lock, asyncio.timeout(None), asyncio.TaskGroup() as tasks:
                reader, writer = await tasks.create_task(asyncio.open_connection(*address[:2]))
            read = await reader.read()
            writer.close()
            return read.decode()

        async with (
            served,
            for_asyncio(open_agent(config(tmp_path, "stock", 3), servers={"shop": shop})) as agent,
        ):
            assert await results(agent) == ["42"] * 3
        assert seen == {loop}

    asyncio.run(main())


def test_lifespan_is_on_the_loop_of_the_program(tmp_path: Path) -> None:
    seen: list[object] = []

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        seen.append(asyncio.get_running_loop())
        yield
        await asyncio.sleep(0)
        seen.append("closed")

    shop = MCPServer("shop", log_level="CRITICAL", lifespan=lifespan)

    @shop.tool(annotations=READ_ONLY, structured_output=False)
    def thread() -> str:
        return str(threading.current_thread() is threading.main_thread())

    async def main() -> None:
        async with for_asyncio(open_agent(config(tmp_path, "thread"), servers={"shop": shop})) as agent:
            assert await results(agent) == ["False"]
            assert seen == [asyncio.get_running_loop()]
        assert seen[1:] == ["closed"]

    asyncio.run(main())


def test_question_of_a_function_finds_its_call(tmp_path: Path) -> None:
    shop = MCPServer("shop", log_level="CRITICAL")

    @shop.tool(annotations=READ_ONLY, structured_output=False)
    async def ask(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        said = await ctx.elicit("Really?", Answer)
        return f"{said.action} {getattr(said, 'data', None)}"

    async def main() -> None:
        async with for_asyncio(open_agent(config(tmp_path, "ask"), servers={"shop": shop})) as agent:
            turn = await agent.start_conversation("go")
            assert turn.result is not None
            [approval] = turn.result.approvals
            await agent.decide(approval, {"action": "accept", "content": {"really": True}})
            assert await contents(agent, turn.conversation.id) == ["accept really=True"]

    asyncio.run(main())


def test_cancelled_call_cancels_the_function(tmp_path: Path) -> None:
    shop = MCPServer("shop", log_level="CRITICAL")

    async def main() -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        @shop.tool(annotations=READ_ONLY)
        async def wait() -> str:
            began.set()
            try:
                await asyncio.Event().wait()
                return ""
            finally:
                ended.set()

        async with for_asyncio(open_agent(config(tmp_path, "wait"), servers={"shop": shop})) as agent:
            turn = await agent.post_conversation("go")
            await began.wait()
            await agent.cancel(turn.conversation.id)
            await ended.wait()

    asyncio.run(main())


def test_server_that_does_not_start_is_the_reason(tmp_path: Path) -> None:
    @asynccontextmanager
    async def lifespan(_: object) -> AsyncIterator[None]:
        raise RuntimeError("the database is away")
        yield

    shop = MCPServer("shop", log_level="CRITICAL", lifespan=lifespan)

    async def main() -> None:
        with pytest.raises(Exception, match="the database is away"):
            async with for_asyncio(open_agent(config(tmp_path, "x"), servers={"shop": shop})):
                pass

    asyncio.run(main())


def test_loop_that_was_stopped_ends_the_agent_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that leaves its loop without leaving the block."""
    monkeypatch.setattr(caller_loop, "CLOSE", 0.01)
    shop = MCPServer("shop", log_level="CRITICAL")
    loop = asyncio.new_event_loop()
    entered = for_asyncio(open_agent(config(tmp_path, "x"), servers={"shop": shop}))
    agent = loop.run_until_complete(entered.__aenter__())
    agent._thread.stop()
    agent._thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


def test_function_that_uses_asyncio_on_the_agents_loop_is_told_so(tmp_path: Path) -> None:
    shop = MCPServer("shop", log_level="CRITICAL")

    @shop.tool(annotations=READ_ONLY)
    async def sleep() -> str:
        await asyncio.sleep(1)
        return ""

    with blocking(open_agent(config(tmp_path, "sleep"), servers={"shop": shop})) as agent:
        turn = agent.start_conversation("go")
        found = [
            each.body["result"]["content"]
            for each, _ in zip(agent.events(turn.conversation.id), range(6), strict=False)
            if each.type == "tool.finished"
        ]
    assert found == [f"Error executing tool sleep\n{USES_ASYNCIO}"]


def test_function_that_uses_trio_on_the_loop_of_the_program_is_told_so(tmp_path: Path) -> None:
    shop = MCPServer("shop", log_level="CRITICAL")

    @shop.tool(annotations=READ_ONLY)
    async def sleep() -> str:
        await trio.sleep(1)
        return ""

    async def main() -> None:
        async with for_asyncio(open_agent(config(tmp_path, "sleep"), servers={"shop": shop})) as agent:
            assert await results(agent) == [f"Error executing tool sleep\n{USES_TRIO}"]

    asyncio.run(main())


def test_exceptions_of_the_wrong_loop_are_known() -> None:
    """As the libraries raise them on trio."""

    async def future() -> None:
        await asyncio.Future(loop=loop)

    loop = asyncio.new_event_loop()
    try:
        for function in (
            asyncio.get_running_loop,
            lambda: trio.run(future),
            lambda: trio.run(asyncio.sleep, 1),
        ):
            with pytest.raises((RuntimeError, TypeError)) as caught:
                function()
            assert reason_of(caught.value) == USES_ASYNCIO
    finally:
        loop.close()
    wrapped = ValueError("x")
    wrapped.__cause__ = caught.value
    assert reason_of(wrapped) == USES_ASYNCIO
    assert reason_of(RuntimeError("the database is away")) is None
    looped = ValueError("x")
    looped.__cause__ = looped
    assert reason_of(looped) is None
