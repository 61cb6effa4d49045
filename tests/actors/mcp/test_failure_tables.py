"""Every way a server fails: the right error, in bounded time, no process left, another server unaffected."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import psutil
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.transports import http, stdio
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import CallTool, ServerMessage, ToolOutcomeUnknown, ToolUnavailable
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp.conftest import attempts_end, times_out
from tests.actors.mcp.test_eras import sdk_server
from tests.waiting import until

Config = Callable[..., McpServerConfig]
Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]

NEIGHBOURS_CALL = 0.2
"""Seconds of a call to the other server, during which the failure happens."""


@pytest.fixture(autouse=True)
async def neighbour(echo: Config, serving: Open) -> AsyncIterator[None]:
    async with serving(echo(name="neighbour", env={}, max_concurrency=2, timeout=60_000.0)) as server:
        async with trio.open_nursery() as nursery:
            texts: list[str] = []

            async def call() -> None:
                texts.append((await server.ask(CallTool("slow", {"seconds": NEIGHBOURS_CALL}))).content)

            nursery.start_soon(call)
            yield
        assert (await server.ask(CallTool("echo", {"text": "calm"}))).content == "calm"
    assert texts == ["slow done"]


def web(url: str, **changes: Any) -> McpServerConfig:
    return McpServerConfig(name="web", url=url, **{"timeout": 600.0, "connect_timeout": 600.0, **changes})


@pytest.mark.parametrize(
    ("modes", "changes", "reason"),
    [
        ("exit", {}, "exited with code 3: fatal: no database"),
        ("", {"command": "no-such-thing"}, "command not found: no-such-thing (looked in..."),
        ("", {"cwd": Path("/absent")}, "cwd /absent: No such file or directory"),
        ("", {"command": "true"}, 'exited with code 0; is "true" an MCP server?'),
        (
            "",
            {"command": "echo", "args": ("a",) * 101},
            f'exited with code 0; "echo" wrote "{"a " * 100}", no message of MCP: is it an MCP server?',
        ),
        ("", {"command": "cat", "args": ()}, 'Method not found; "cat" wrote "{...'),
        (
            "",
            {"command": "sh", "args": ("-c", "echo $KEY"), "env": {"KEY": "s3cret-0123456789abcdef"}},
            'exited with code 0; "sh" wrote "***", no message of MCP...',
        ),
        ("", {"command": "sh", "args": ("-c", "kill -40 $$")}, "was killed by signal 40"),
        ("", {"command": "sh", "args": ("-c", "kill -SEGV $$")}, "was killed by SIGSEGV"),
        ("listless", {}, "its answer is no valid ListToolsResult: tools: Input should be a valid list"),
        ("mute", {"connect_timeout": 0.5}, "no answer within 0.5 s"),
    ],
)
async def test_unusable_child_fails_the_start(
    serving: Open, unruly: Config, modes: str, changes: dict[str, Any], reason: str
) -> None:
    config = McpServerConfig(**{**_fields(unruly(modes)), **changes})
    with pytest.raises(ServerStartFailed) as raised:
        async with serving(config):
            pass
    text = f'MCP server "unruly" failed to start: {reason}'
    assert str(raised.value).startswith(text.removesuffix("..."))
    assert str(raised.value) == text or text.endswith("...")
    assert (raised.value.name, raised.value.code) == ("unruly", "mcp_server_failed")


async def test_first_line_of_a_child_that_never_answers_is_the_reason(
    serving: Open, nursery: trio.Nursery, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async def time_passes_after_its_line() -> None:
        await until(lambda: "not a message on stdout: b'up'" in caplog.text)
        clock.jump(600.0)

    nursery.start_soon(time_passes_after_its_line)
    config = McpServerConfig(
        name="busy", command="sh", args=("-c", "echo up; exec sleep 3600"), connect_timeout=600.0
    )
    text = 'failed to start: no answer within 600 s; "sh" wrote "up", no message of MCP'
    with pytest.raises(ServerStartFailed, match=text):
        async with serving(config):
            pass


@pytest.mark.parametrize(("slow", "lines"), [(0.01, 1), (600.0, 0)])
async def test_slow_start_is_logged(
    serving: Open,
    unruly: Config,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    slow: float,
    lines: int,
) -> None:
    monkeypatch.setattr("stopgo.actors.mcp.server.SLOW", slow)
    async with serving(attrs.evolve(unruly(""), as_written="npx")):
        pass
    told = [record.message for record in caplog.records if record.name == "stopgo.mcp.slow_start"]
    assert len(told) == lines
    for line in told:
        assert line.startswith('MCP server "unruly": no answer from npx yet; waiting up to ')


def _fields(config: McpServerConfig) -> dict[str, Any]:
    return {
        "name": config.name,
        "command": config.command,
        "args": config.args,
        "env": config.env,
        "connect_timeout": 600.0,
    }


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (404, "HTTP 404 Not Found (as an older SSE server: HTTP 405 Method Not Allowed)"),
        (307, "Redirect to http://elsewhere.invalid/mcp not followed"),
        (410, "HTTP 410 Gone"),
    ],
)
async def test_refusing_server_fails_the_start(
    http_peer: Any, serving: Open, status: int, reason: str
) -> None:
    http_peer.on_connect = status
    with pytest.raises(ServerStartFailed) as raised:
        async with serving(web(http_peer.url)):
            pass
    assert str(raised.value).startswith(f'MCP server "web" failed to start: {reason}')


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (429, "HTTP 429 Too Many Requests"),
        (500, "HTTP 500 Internal Server Error"),
    ],
)
async def test_temporary_failure_is_retried_until_the_timeout(
    http_peer: Any,
    serving: Open,
    statuses: list[ServerStatus],
    nursery: trio.Nursery,
    clock: MockClock,
    status: int,
    reason: str,
) -> None:
    """The error is that of the last attempt."""
    http_peer.on_connect = status

    nursery.start_soon(attempts_end, statuses, clock)
    with pytest.raises(ServerStartFailed) as raised:
        async with serving(web(http_peer.url)):
            pass
    assert str(raised.value).startswith('MCP server "web" failed to start: ')
    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("hang_up", 'unknown: MCP server "web" connection lost: '),
        ("500", 'unknown: MCP server "web" failed: HTTP 500 Internal Server Error'),
        ("307", "answer: Redirect to http://elsewhere.invalid/mcp not followed"),
        ("409", "answer: HTTP 409 Conflict"),
    ],
)
async def test_failed_http_call_does_not_affect_the_next(
    http_peer: Any, serving: Open, how: str, expected: str
) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = how
        assert (await outcome(server, CallTool("echo", {}))).startswith(expected)
        http_peer.on_call = "answer"
        assert await outcome(server, CallTool("echo", {})) == "answer: echo"
    assert len(http_peer.calls) == 2


@pytest.mark.parametrize(
    ("tool", "expected"),
    [
        ("crash", 'unknown: MCP server "echo" connection lost: exited with code 7'),
        ("nothing of ours", "answer: Unknown tool: nothing of ours"),
    ],
)
async def test_failed_stdio_call_does_not_affect_the_next(
    echo: Config, serving: Open, tool: str, expected: str
) -> None:
    async with serving(echo()) as server:
        assert await outcome(server, CallTool(tool, {})) == expected
        assert await outcome(server, CallTool("echo", {"text": "here"})) == "answer: here"


async def outcome(server: ActorRef[ServerMessage], call: CallTool) -> str:
    try:
        return f"answer: {(await server.ask(call)).content}"
    except ToolOutcomeUnknown as error:
        return f"unknown: {error}"
    except ToolUnavailable as error:
        return f"unavailable: {error}"


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_silent_http_server_times_out_every_call(
    serving: Open, monkeypatch: pytest.MonkeyPatch, clock: MockClock, mode: Any
) -> None:
    """Notifications of cancelled calls hang, too, and must not delay other calls."""
    monkeypatch.setattr(http, "SIDE_TIMEOUT", 10_000.0)
    with sdk_server("http") as (url, process):
        async with serving(web(url, mode=mode, max_concurrency=3)) as server:
            process.send_signal(signal.SIGSTOP)
            await time_out(server, "echo", 3, clock)
            await time_out(server, "echo", 1, clock)
            process.send_signal(signal.SIGCONT)
            assert await outcome(server, CallTool("echo", {"text": "x"})) == "answer: x"


async def time_out(server: ActorRef[ServerMessage], tool: str, calls: int, clock: MockClock) -> None:
    """Let the 600 s of some calls pass once all of them are sent."""
    sent: list[None] = []
    found: list[str] = []

    async def call() -> None:
        on_sent = partial(sent.append, None)
        found.append(await outcome(server, CallTool(tool, {"text": "x"}, on_sent=on_sent)))

    async with trio.open_nursery() as nursery:
        for _ in range(calls):
            nursery.start_soon(call)
        await until(lambda: len(sent) == calls)
        await wait_all_tasks_blocked()
        clock.jump(600.0)
    assert found == ['unknown: MCP server "web" timed out after 600 s'] * calls


async def test_unanswered_calls_do_not_exhaust_connections(
    http_peer: Any, serving: Open, clock: MockClock
) -> None:
    async with serving(web(http_peer.url)) as server:
        for _ in range(10):
            slow = CallTool("slow", {})
            http_peer.calls.clear()
            assert "timed out" in await times_out(server, slow, lambda: bool(http_peer.calls), clock)
        assert await outcome(server, CallTool("echo", {})) == "answer: echo"


@pytest.mark.crash
async def test_endless_streams_do_not_exhaust_connections(serving: Open, clock: MockClock) -> None:
    with sdk_server("http") as (url, _):
        async with serving(web(url, mode="legacy")) as server:
            for _ in range(10):
                await time_out(server, "stubborn", 1, clock)
            assert await outcome(server, CallTool("echo", {"text": "x"})) == "answer: x"


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_killed_http_server_ends_its_calls(serving: Open, kind: str) -> None:
    with sdk_server(kind) as (url, process):
        async with serving(web(url, max_concurrency=3, max_retries=1)) as server:
            found: list[str] = []
            sent: list[None] = []
            slow = CallTool("slow", {"seconds": 600}, on_sent=lambda: sent.append(None))

            async def call() -> None:
                found.append(await outcome(server, slow))

            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(call)
                await until(lambda: len(sent) == 3)
                process.kill()
            await trio.to_thread.run_sync(process.wait)  # its listener goes last
            told = await outcome(server, CallTool("echo", {"text": "x"}))
            assert told.startswith('unavailable: MCP server "web" not connected: ')
    assert [text.partition(" lost: ")[0] for text in found] == ['unknown: MCP server "web" connection'] * 3


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_long_reply_arrives_as_a_stream(serving: Open, kind: str) -> None:
    with sdk_server(kind) as (url, _):
        async with serving(web(url), max_stored_bytes=8_000_000) as server:
            text = "x" * 2_000_000
            assert await outcome(server, CallTool("echo", {"text": text})) == f"answer: {text}"


async def test_hanging_session_end_is_bounded(
    http_peer: Any, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "SIDE_TIMEOUT", 0.3)
    http_peer.on_leave = "hang"
    async with serving(web(http_peer.url)) as server:
        assert await outcome(server, CallTool("echo", {})) == "answer: echo"


async def test_suspended_child_times_out_and_is_killed(
    echo: Config, serving: Open, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    monkeypatch.setattr(stdio, "EXIT_GRACE", 0.3)
    before = set(psutil.Process().children())
    async with serving(echo(name="web", timeout=600.0)) as server:
        [child] = set(psutil.Process().children()) - before
        os.kill(child.pid, signal.SIGSTOP)
        await time_out(server, "echo", 1, clock)
    assert not child.is_running()
