"""The actor against a server of the SDK, which speaks every version and every transport."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import pytest
import trio

from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import CallTool, ListTools, Progress, ServerMessage, ToolUnavailable
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp.conftest import SERVERS
from tests.waiting import until

Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]


@contextmanager
def sdk_server(kind: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run the server; yield its URL and its process once it listens."""
    argv = [sys.executable, "-W", "ignore", str(SERVERS / "sdk_server.py"), kind, str(port)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip(), process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def urls() -> Iterator[dict[str, str]]:
    with sdk_server("http") as (http, _), sdk_server("sse") as (sse, _):
        yield {"http": http, "sse": sse}


@pytest.fixture(autouse=True)
def no_process_left() -> None:
    """Not here, because the servers of this module are children of this process."""


def web(url: str, **changes: Any) -> McpServerConfig:
    return McpServerConfig(name="web", url=url, **{"timeout": 600.0, "connect_timeout": 600.0, **changes})


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("http", "auto"), ("http", "modern"), ("http", "legacy"), ("sse", "auto"), ("sse", "legacy")],
)
async def test_changed_tools_are_noticed_in_every_era(
    urls: dict[str, str], serving: Open, statuses: list[ServerStatus], kind: str, mode: Any
) -> None:
    async with serving(web(urls[kind], mode=mode, max_concurrency=2)) as server:
        assert (await server.ask(CallTool("echo", {"text": "hello"}))).content == "hello"
        before = len(statuses)
        name = f"learnt_{kind}_{mode}"
        await server.ask(CallTool("learn", {"name": name}))
        await until(lambda: name in [tool.name for tool in statuses[-1].tools])
        assert name in [tool.name for tool in await server.ask(ListTools())]
    assert [status.state for status in statuses[before:]] == ["connected"]


async def test_mode_modern_refuses_an_older_server(unruly: Any, serving: Open) -> None:
    with pytest.raises(ServerStartFailed) as raised:
        async with serving(unruly(mode="modern")):
            pass
    reason = "it does not speak MCP 2026-07-28: Method not found: server/discover"
    assert str(raised.value) == f'MCP server "unruly" failed to start: {reason}'


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["modern", "legacy"])
async def test_death_of_an_idle_http_server_is_repaired(
    serving: Open, statuses: list[ServerStatus], free_port: int, mode: Any
) -> None:
    """Without a call, only the server's own stream shows the death, in both eras."""
    with sdk_server("http", free_port) as (url, process):
        async with serving(web(url, mode=mode, max_retries=1)) as server:
            await server.ask(CallTool("echo", {"text": "the stream is there when this is answered"}))
            process.kill()
            await until(lambda: statuses[-1].state == "disconnected")
            with pytest.raises(ToolUnavailable, match=r'^MCP server "web" not connected: '):
                await server.ask(CallTool("echo", {"text": "too early"}))
            with sdk_server("http", free_port):
                await until(lambda: statuses[-1].state == "connected")
                assert (await server.ask(CallTool("echo", {"text": "back"}))).content == "back"


@pytest.mark.crash
async def test_changes_before_listening_are_noticed(
    serving: Open, statuses: list[ServerStatus], free_port: int
) -> None:
    """The server restarts before the loss is noticed."""
    with sdk_server("http", free_port) as (url, process):
        async with serving(web(url, mode="modern")) as server:
            await server.ask(CallTool("learn", {"name": "forgotten"}))
            await until(lambda: "forgotten" in [tool.name for tool in statuses[-1].tools])
            process.kill()
            await trio.to_thread.run_sync(process.wait)
            with sdk_server("http", free_port):
                await until(lambda: "forgotten" not in [tool.name for tool in statuses[-1].tools])
                assert statuses[-1].state == "connected"


@pytest.mark.parametrize(
    ("mode", "content"),
    [
        ("auto", "its tools ask during a call; set mode: legacy for this server]"),
        ("legacy", "the answer is decline"),
    ],
)
async def test_question_during_a_call_needs_mode_legacy(
    urls: dict[str, str], serving: Open, mode: Any, content: str
) -> None:
    """`ctx.elicit` of the Python SDK has no way to the client in a call of MCP 2026-07-28."""
    async with serving(web(urls["http"], mode=mode)) as server:
        assert (await server.ask(CallTool("ask", {}))).content.endswith(content)


@pytest.mark.parametrize(
    ("kind", "mode"),
    [("http", "modern"), ("http", "legacy"), ("sse", "legacy")],
)
async def test_progress_is_reported_in_every_era(
    urls: dict[str, str], serving: Open, kind: str, mode: Any
) -> None:
    told: list[Progress] = []
    async with serving(web(urls[kind], mode=mode, transport=kind)) as server:
        result = await server.ask(CallTool("count", {"to": 20}, on_progress=told.append))
    assert result.content == "counted to 20"
    assert sorted(told, key=lambda each: each.progress) == [
        Progress(n, 20, f"step {n}") for n in range(1, 21)
    ]
