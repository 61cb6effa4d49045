"""The stdio transport: no process survives its connection, however that ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.transports import stdio
from stopgo.actors.mcp.transports.watcher import Watcher
from stopgo.actors.tools.tool import CallTool, ServerMessage, ToolOutcomeUnknown, ToolUnavailable
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp.conftest import times_out
from tests.actors.mcp.test_watcher import end, process_of
from tests.waiting import LIMIT, until

Config = Callable[..., McpServerConfig]
Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]


@pytest.fixture(autouse=True)
def little_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stdio, "EXIT_GRACE", 0.3)


def family(file: Path) -> list[psutil.Process]:
    return [psutil.Process(int(pid)) for pid in file.read_text().split()]


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


async def all_gone(processes: list[psutil.Process]) -> None:
    # A grandchild is reaped by init, which may take its time.
    await until(lambda: not alive(processes))


async def test_server_exits_when_its_stdin_is_closed(
    echo: Config, serving: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stdio, "EXIT_GRACE", LIMIT)
    caplog.set_level("INFO")
    async with serving(echo()):
        [child] = psutil.Process().children()
    assert not child.is_running()
    assert "SIGTERM" not in caplog.text


async def test_stubborn_server_is_killed(
    unruly: Config, serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    async with serving(unruly("stubborn")):
        [child] = psutil.Process().children()
    assert not child.is_running()
    assert "sending SIGTERM" in caplog.text
    assert "sending SIGKILL" in caplog.text


@pytest.mark.parametrize("modes", ["family", "family,stubborn"])
async def test_the_whole_group_is_killed(unruly: Config, serving: Open, tmp_path: Path, modes: str) -> None:
    file = tmp_path / "pids"
    async with serving(unruly(modes, env={"FAMILY": str(file)})):
        processes = family(file)
        assert len(alive(processes)) == 2
    await all_gone(processes)


async def test_cancellation_leaves_nothing_behind_and_shortens_the_graces(
    unruly: Config, serving: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A shutdown cancels when its time is over."""
    caplog.set_level("INFO")
    file = tmp_path / "pids"
    with trio.CancelScope() as scope:
        async with serving(unruly("family,stubborn", env={"FAMILY": str(file)})):
            processes = family(file)
            scope.cancel()
    assert scope.cancelled_caught
    await all_gone(processes)
    assert f"still running {stdio.LEAST_GRACE:.2g} s after its input was closed" in caplog.text
    assert f"still running {stdio.LEAST_GRACE:.2g} s after SIGTERM" in caplog.text


@pytest.mark.parametrize("moment", ["before it", "during its start", "it exists", "it waits for messages"])
async def test_cancellation_while_it_connects_leaves_nothing_behind(
    unruly: Config, serving: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    file = tmp_path / "pids"
    popen, scope, processes = subprocess.Popen, trio.CancelScope(), list[psutil.Process]()

    def cancelled(*args: Any, **more: Any) -> Any:
        trio.from_thread.run_sync(scope.cancel)
        return popen(*args, **more)

    async def connect() -> None:
        with scope:
            async with serving(unruly("mute,family", env={"FAMILY": str(file)})):
                pass

    if moment == "before it":
        scope.cancel()
    if moment == "during its start":
        monkeypatch.setattr(subprocess, "Popen", cancelled)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connect)
        if moment == "it exists":
            await until(lambda: bool(psutil.Process().children()))
        if moment == "it waits for messages":
            await until(lambda: file.exists() and " " in file.read_text())
            processes = family(file)
        if moment in ("it exists", "it waits for messages"):
            scope.cancel()
    assert scope.cancelled_caught
    assert psutil.Process().children(recursive=True) == []
    await all_gone(processes)


async def test_grandchildren_do_not_keep_the_connection_open(
    unruly: Config, serving: Open, tmp_path: Path, statuses: list[object]
) -> None:
    file = tmp_path / "pids"
    async with serving(unruly("family", env={"FAMILY": str(file)})):
        leader, grandchild = processes = family(file)
        leader.kill()
        await all_gone([grandchild])
        await until(lambda: len(statuses) >= 5)
    await all_gone(processes)


async def test_ctrl_c_does_not_reach_the_child(echo: Config, serving: Open) -> None:
    async with serving(echo()):
        [child] = psutil.Process().children()
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        assert os.getsid(child.pid) == child.pid


SILENT = """
import json, sys

for line in sys.stdin:
    message = json.loads(line)
    match message["method"]:
        case "initialize":
            server = {"name": "s", "version": "1"}
            result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": server}
        case "tools/list":
            result = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        case _:
            with open(sys.argv[1], "a") as seen:
                seen.write(line)
            continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_server_is_notified_of_a_cancelled_call(
    serving: Open, tmp_path: Path, clock: MockClock
) -> None:
    seen = tmp_path / "seen"
    config = McpServerConfig(
        name="s", command=sys.executable, args=("-c", SILENT, str(seen)), mode="legacy", timeout=600.0
    )
    async with serving(config) as server:
        await times_out(server, CallTool("t", {}), lambda: seen.read_text().count("\n") == 2, clock)
        await until(lambda: seen.read_text().count("\n") == 3)
    _, call, cancelled = map(json.loads, seen.read_text().splitlines())
    assert (call["method"], cancelled["method"]) == ("tools/call", "notifications/cancelled")
    assert cancelled["params"]["requestId"] == call["id"]


async def test_unsent_call_is_made_over_the_next_connection(
    echo: Config, serving: Open, ledger: Path
) -> None:
    """A call of which a full pipe accepted nothing certainly did not run."""
    found: list[str] = []

    async def call(server: ActorRef[ServerMessage], text: str) -> None:
        try:
            found.append((await server.ask(CallTool("wipe", {"text": text}))).content)
        except ToolOutcomeUnknown:
            found.append("unknown")

    async with serving(echo(max_concurrency=2)) as server:
        [child] = psutil.Process().children()
        child.suspend()
        async with trio.open_nursery() as asking:
            for text in ("x" * 1_000_000, "short"):
                asking.start_soon(call, server, text)
                await wait_all_tasks_blocked()
            child.kill()
    assert found == ["unknown", "short"]
    assert arguments_in(ledger) == [{"text": "short"}]


async def test_call_to_a_full_pipe_is_not_made_after_its_timeout(
    echo: Config, serving: Open, ledger: Path, clock: MockClock
) -> None:
    """A suspended server later reads the content of its pipe, and nothing that waited behind it."""
    found: list[str] = []

    async def call(server: ActorRef[ServerMessage], text: str) -> None:
        with pytest.raises((ToolOutcomeUnknown, ToolUnavailable)) as caught:
            await server.ask(CallTool("wipe", {"text": text}))
        found.append(str(caught.value))

    async with serving(echo(max_concurrency=2, timeout=600.0)) as server:
        [child] = psutil.Process().children()
        child.suspend()
        async with trio.open_nursery() as asking:
            for text in ("x" * 1_000_000, "short"):
                asking.start_soon(call, server, text)
                await wait_all_tasks_blocked()
            clock.jump(600.0)
            await until(lambda: len(found) == 2)
        child.resume()
        result = await server.ask(CallTool("echo", {"text": "after"}))
    assert result.content == "after"
    name = 'MCP server "echo"'
    assert sorted(found) == [
        f"{name} read nothing for 600 s; nothing was sent",
        f"{name} timed out after 600 s",
    ]
    assert {"text": "short"} not in arguments_in(ledger)


def arguments_in(ledger: Path) -> list[object]:
    return [json.loads(line)["arguments"] for line in ledger.read_text().splitlines()]


async def test_killed_watcher_is_replaced_in_a_thread(
    echo: Config, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher()
    monkeypatch.setattr(stdio, "watcher", watcher)
    threads: list[threading.Thread] = []
    run = subprocess.run

    def noted(*args: Any, **more: Any) -> object:
        threads.append(threading.current_thread())
        return run(*args, **more)

    async def kill() -> None:
        process = process_of(watcher)
        process.kill()
        await all_gone([process])

    monkeypatch.setattr(subprocess, "run", noted)
    async with serving(echo(name="a")):
        async with serving(echo(name="b")):
            await kill()
            async with serving(echo(name="c")):  # its start finds out
                assert process_of(watcher).is_running()
            await kill()
        await until(lambda: len(threads) == 3)  # the end of one finds out
        assert process_of(watcher).is_running()
    assert threading.main_thread() not in threads
    end(watcher)
