"""The actor against real child processes: answers, losses, repair."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.mcp import connection
from stopgo.actors.mcp.wire.wire import MAX_PROGRESS_MESSAGE
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import (
    CallTool,
    Hints,
    ListTools,
    Progress,
    ServerMessage,
    ToolChanged,
    ToolOutcomeUnknown,
    ToolResult,
    ToolUnavailable,
)
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from tests.actors.mcp.conftest import times_out
from tests.waiting import until

Config = Callable[..., McpServerConfig]
Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]


def executed(ledger: Path) -> list[str]:
    """The tools that ran, in order."""
    return [json.loads(line)["tool"] for line in ledger.read_text().splitlines()] if ledger.exists() else []


def child() -> psutil.Process:
    [process] = psutil.Process().children()
    return process


def states(statuses: list[ServerStatus]) -> list[tuple[str, str | None]]:
    return [(status.state, status.error) for status in statuses]


async def outcome(asking: Awaitable[ToolResult], into: list[object]) -> None:
    try:
        into.append(await asking)
    except (ToolOutcomeUnknown, ToolUnavailable) as error:
        into.append(error)


async def test_tools_have_server_and_hints(echo: Config, serving: Open, statuses: list[ServerStatus]) -> None:
    async with serving(echo()) as server:
        tools = {tool.name: tool for tool in await server.ask(ListTools())}
    assert list(tools) == ["echo", "slow", "crash", "wipe", "bump", "plain"]
    assert {tool.server for tool in tools.values()} == {"echo"}
    assert tools["wipe"].hints == Hints(read_only=False, destructive=True)
    assert tools["bump"].hints == Hints(read_only=False, destructive=False, idempotent=True)
    assert tools["plain"].hints == Hints()
    assert states(statuses) == [("connecting", None), ("connected", None)]
    assert statuses[-1].tools == tuple(tools.values())


async def test_call_runs_once_and_returns_its_result(echo: Config, serving: Open, ledger: Path) -> None:
    async with serving(echo()) as server:
        result = await server.ask(CallTool("wipe", {"text": "gone"}))
    assert result == ToolResult("gone", parts=({"type": "text", "text": "gone"},))
    assert executed(ledger) == ["wipe"]


async def test_death_in_a_call_leaves_its_outcome_unknown(
    echo: Config, serving: Open, ledger: Path, statuses: list[ServerStatus]
) -> None:
    async with serving(echo()) as server:
        with pytest.raises(
            ToolOutcomeUnknown, match=r'^MCP server "echo" connection lost: exited with code 7$'
        ):
            await server.ask(CallTool("crash", {}))
        assert (await server.ask(CallTool("echo", {"text": "back"}))).content == "back"
    assert executed(ledger) == ["crash", "echo"]
    assert states(statuses) == [
        ("connecting", None),
        ("connected", None),
        ("disconnected", "exited with code 7"),
        ("connecting", None),
        ("connected", None),
    ]


async def test_kill_ends_every_in_flight_call(echo: Config, serving: Open, ledger: Path) -> None:
    found: list[object] = []
    async with serving(echo(max_concurrency=3)) as server:
        async with trio.open_nursery() as asking:
            for _ in range(3):
                asking.start_soon(outcome, server.ask(CallTool("slow", {"seconds": 60})), found)
            await until(lambda: len(executed(ledger)) == 3)
            child().kill()
    assert [type(error) for error in found] == [ToolOutcomeUnknown] * 3
    assert executed(ledger) == ["slow"] * 3


async def test_timed_out_call_does_not_affect_others(
    echo: Config, serving: Open, ledger: Path, clock: MockClock
) -> None:
    async with serving(echo(timeout=600.0)) as server:
        before = child().pid
        slow = CallTool("slow", {"seconds": 1000})
        said = await times_out(server, slow, lambda: executed(ledger) == ["slow"], clock)
        assert said == 'MCP server "echo" timed out after 600 s'
        assert (await server.ask(CallTool("echo", {"text": "here"}))).content == "here"
        assert child().pid == before
    assert executed(ledger) == ["slow", "echo"]


async def test_cancelled_caller_cancels_the_call(echo: Config, serving: Open, ledger: Path) -> None:
    async with serving(echo()) as server:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as asking:
                asking.start_soon(server.ask, CallTool("slow", {"seconds": 60}))
                await until(lambda: executed(ledger) == ["slow"])
                scope.cancel()
        assert (await server.ask(CallTool("echo", {"text": "free"}))).content == "free"


@pytest.mark.parametrize(("max_retries", "seconds"), [(10_000, 600.0), (2, 0.0)])
async def test_wait_for_repair_is_bounded(
    echo: Config,
    serving: Open,
    tmp_path: Path,
    statuses: list[ServerStatus],
    clock: MockClock,
    max_retries: int,
    seconds: float,
) -> None:
    script = Path(shutil.copy(echo().args[1], tmp_path / "server.py"))
    async with serving(echo(args=("-S", str(script)), timeout=600.0, max_retries=max_retries)) as server:
        parked = tmp_path / "parked.py"
        os.rename(script, parked)
        child().kill()
        await until(lambda: statuses[-1].state == "disconnected")
        found: list[object] = []
        async with trio.open_nursery() as asking:
            asking.start_soon(outcome, server.ask(CallTool("echo", {"text": "too early"})), found)
            await until(lambda: any("exited with code 2" in (each.error or "") for each in statuses))
            clock.jump(seconds)
            await until(lambda: bool(found))
        [error] = found
        assert str(error).startswith('MCP server "echo" not connected: exited with code 2: ')
        os.rename(parked, script)
        await until(lambda: statuses[-1].state == "connected")
        assert (await server.ask(CallTool("echo", {"text": "back"}))).content == "back"


async def test_call_to_a_lost_server_triggers_an_attempt(
    echo: Config,
    serving: Open,
    tmp_path: Path,
    statuses: list[ServerStatus],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long the pause until the next regular attempt is."""
    monkeypatch.setattr(connection, "REPAIRS", Backoff(first=0.1, factor=6000.0, limit=600.0, jitter=0.0))
    script = Path(shutil.copy(echo().args[1], tmp_path / "server.py"))
    call = CallTool("echo", {"text": "back"})
    async with serving(echo(args=("-S", str(script)), max_retries=1)) as server:
        parked = tmp_path / "parked.py"
        os.rename(script, parked)
        child().kill()
        await until(lambda: statuses[-1].state == "disconnected" and "code 2" in str(statuses[-1].error))
        for attempts in (3, 4):
            with pytest.raises(ToolUnavailable) as raised:
                await server.ask(call)
            assert str(raised.value) == f'MCP server "echo" not connected: {statuses[-1].error}'
            assert [status.state for status in statuses].count("connecting") == attempts
        os.rename(parked, script)
        assert (await server.ask(call)).content == "back"


async def test_stop_does_not_wait_for_the_next_attempt(
    statuses: list[ServerStatus], nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REPAIRS", Backoff(first=0.01, factor=60_000.0, limit=600.0, jitter=0.0))
    away = connection.ServerConnection(
        McpServerConfig("away", command="./none", required=False), statuses.append
    )
    nursery.start_soon(away.run)
    await until(lambda: [status.state for status in statuses].count("disconnected") == 2)
    await away.stop()


@pytest.mark.parametrize(("waited", "attempts"), [(True, 0), (False, 1)])
async def test_waiting_calls_share_one_attempt(
    echo: Config, serving: Open, tmp_path: Path, statuses: list[ServerStatus], waited: bool, attempts: int
) -> None:
    script = tmp_path / "server.py"
    async with serving(echo(required=False, args=("-S", str(script)), max_retries=1)) as server:
        before = trio.current_time()
        with pytest.raises(ToolUnavailable):
            await server.ask(CallTool("echo", {"text": "first"}))
        tried = [status.state for status in statuses].count("connecting")
        with pytest.raises(ToolUnavailable):
            await server.ask(CallTool("echo", {"text": "next"}, since=before if waited else None))
    assert [status.state for status in statuses].count("connecting") == tried + attempts


async def test_call_is_not_sent_to_a_changed_tool_after_repair(
    echo: Config, serving: Open, ledger: Path, tmp_path: Path, statuses: list[ServerStatus]
) -> None:
    config = echo()
    script = trio.Path(shutil.copy(config.args[1], tmp_path / "server.py"))
    async with serving(echo(args=("-S", str(script)))) as server:
        shown = {tool.name: tool for tool in await server.ask(ListTools())}
        source = await script.read_text()
        await script.write_text(source.replace("Give the text back", "Burn the text"))
        child().kill()
        await until(lambda: statuses[-1].state != "connected")
        with pytest.raises(ToolChanged, match="nothing was sent"):
            await server.ask(CallTool("echo", {"text": "a"}, shown=shown["echo"]))
        await server.ask(CallTool("plain", {"text": "b"}, shown=shown["plain"]))
    assert executed(ledger) == ["plain"]


async def test_idle_death_is_repaired_before_the_next_call(
    echo: Config, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(echo()) as server:
        child().kill()
        await until(lambda: len(statuses) >= 5)
        assert (await server.ask(CallTool("echo", {"text": "back"}))).content == "back"
    assert states(statuses)[2] == ("disconnected", "was killed by SIGKILL")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x7fELF nonsense", "Exec format error"),
        (b"#!/absent/python\n", "its interpreter does not exist"),
    ],
)
async def test_unrunnable_command_fails_the_start(
    echo: Config, serving: Open, tmp_path: Path, content: bytes, why: str
) -> None:
    command = tmp_path / "not-a-program"
    command.write_bytes(content)
    command.chmod(0o755)
    said = f'MCP server "echo" failed to start: {command} cannot be run: {why}'
    with pytest.raises(ServerStartFailed, match=f"^{re.escape(said)}$"):
        async with serving(echo(command=str(command), cwd=tmp_path)):
            pass


async def test_ignored_probe_is_bounded(
    unruly: Config, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stopgo.actors.mcp.transports.stdio.PROBE_TIMEOUT", 0.2)
    async with serving(unruly("selective", connect_timeout=600.0)) as server:
        assert (await server.ask(CallTool("environment", {}))).content


async def test_garbage_on_stdout_is_ignored(unruly: Config, serving: Open) -> None:
    async with serving(unruly("noise")) as server:
        assert (await server.ask(CallTool("broken_utf8", {}))).content == "caf\ufffd"
        assert (await server.ask(CallTool("broken_pair", {}))).content == "caf\ufffd"


async def test_message_at_the_limit_arrives(unruly: Config, serving: Open) -> None:
    async with serving(unruly(), max_stored_bytes=11_000_000) as server:
        assert (await server.ask(CallTool("big", {"size": 10_000_000}))).content == "x" * 10_000_000


@pytest.mark.parametrize(
    ("order", "size", "room"),
    [("id first", 30_000_000, 20e6), ("id last", 30_000_000, 20e6), ("list", 60_000_000, 80e6)],
)
async def test_longer_result_is_abridged_for_its_call(
    unruly: Config, serving: Open, caplog: pytest.LogCaptureFixture, order: str, size: int, room: float
) -> None:
    """The whole result is never in memory, where 60 MB took hundreds of megabytes."""
    process = psutil.Process()
    async with serving(unruly(), max_stored_bytes=100_000) as server:
        before, most = process.memory_info().rss, 0

        def look() -> bool:
            nonlocal most
            most = max(most, process.memory_info().rss)
            return False

        async with trio.open_nursery() as nursery:
            nursery.start_soon(until, look)
            result = await server.ask(CallTool("big", {"size": size, "order": order}))
            nursery.cancel_scope.cancel()
        assert (await server.ask(CallTool("big", {"size": 10}))).content == "x" * 10
    note, _, text = result.content.partition("\n")
    assert re.search(rf"^\[Note: the call was made, .*: it had {size // 100_000}\d{{5}} bytes, and ", note)
    assert set(text) == {"x"}
    assert len(text) < 100_000
    assert "not a message" not in caplog.text
    assert most - before < room


async def test_malformed_tool_does_not_lose_the_others(
    unruly: Config, serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(unruly("mixed")) as server:
        tools = {tool.name: tool for tool in await server.ask(ListTools())}
    assert next(iter(tools)) == "big"
    assert list(tools)[-1] == "no_type"
    assert tools["no_type"].input_schema["type"] == "object"
    assert not {"bad_schema", "bad_hint", "long_task"} & tools.keys()
    for name in ("bad_schema", "nameless", "bad_hint"):
        assert f"({name})" in caplog.text


async def test_pages_are_read_until_a_cursor_repeats(unruly: Config, serving: Open) -> None:
    async with serving(unruly("pages")) as server:
        names = [tool.name for tool in await server.ask(ListTools())]
    assert len(names) == len(set(names)) == 16


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        ("fails", "the disk is full"),
        ("refuses", "database is locked"),
    ],
)
async def test_every_answer_is_a_result(unruly: Config, serving: Open, tool: str, text: str) -> None:
    async with serving(unruly()) as server:
        result = await server.ask(CallTool(tool, {}))
    assert result.is_error
    assert re.fullmatch(text, result.content)


async def test_invalid_reply_does_not_affect_other_calls(unruly: Config, serving: Open) -> None:
    async with serving(unruly()) as server:
        with pytest.raises(ToolOutcomeUnknown, match="the server's reply is not a valid JSON-RPC message"):
            await server.ask(CallTool("no_reply", {}))
        assert (await server.ask(CallTool("fails", {}))).content == "the disk is full"


@pytest.mark.parametrize(
    ("tool", "text", "structured"),
    [
        (
            "structured",
            "[Note: this result does not fit the output schema of its tool: n: 'seven' is not of type"
            " 'integer']\nno structure\n"
            '{"n": "seven"}',
            {"n": "seven"},
        ),
        ("invalid", "not a list", None),
        ("nothing", "(empty result)", None),
        ("only_structured", '{"n": 7}', {"n": 7}),
        ("unheard_of", 'a\n{"type": "hologram", "data": [1, null]}\njust a text\n{"type": []}', None),
    ],
)
async def test_unusual_results_are_kept(
    unruly: Config, serving: Open, tool: str, text: str, structured: Any
) -> None:
    async with serving(unruly()) as server:
        result = await server.ask(CallTool(tool, {}))
    assert (result.content, result.structured, result.is_error) == (text, structured, False)


async def test_odd_progress_is_survived(unruly: Config, serving: Open) -> None:
    told: list[Progress] = []
    async with serving(unruly()) as server:
        result = await server.ask(CallTool("chatty", {"steps": 2000}, on_progress=told.append))
        assert result.content == "said it all"
        assert (await server.ask(CallTool("big", {"size": 1}))).content == "x"
    assert len(told) >= 2000
    assert {len(each.message or "") for each in told[:2000]} == {MAX_PROGRESS_MESSAGE}


async def test_changed_tools_are_reported(
    unruly: Config, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(unruly()) as server:
        await server.ask(CallTool("relist", {}))
        await until(lambda: "fresh" in [tool.name for tool in statuses[-1].tools])
        assert "fresh" in [tool.name for tool in await server.ask(ListTools())]


async def test_constantly_changing_list_is_read_with_pauses(
    unruly: Config,
    serving: Open,
    statuses: list[ServerStatus],
    monkeypatch: pytest.MonkeyPatch,
    clock: MockClock,
) -> None:
    monkeypatch.setattr(
        connection, "LISTINGS", Backoff(first=600.0, factor=1.0, jitter=0.0, healthy=10_000.0)
    )

    def listings() -> int:
        return [status.state for status in statuses].count("connected")

    def listed(at_least: int) -> Callable[[], bool]:
        return lambda: listings() >= at_least

    async with serving(unruly("restless", timeout=60_000.0)) as server:
        # The listing of the start, an immediate one, and two more.
        for times in range(2, 5):
            await until(listed(times))
            for _ in range(20):  # meanwhile it would list many times
                await server.ask(CallTool("nothing", {}))
            assert listings() == times
            clock.jump(600.0)


async def test_failed_listing_is_retried(
    unruly: Config, serving: Open, statuses: list[ServerStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "LISTINGS", Backoff(first=0.05, healthy=1.0))
    async with serving(unruly()) as server:
        await server.ask(CallTool("relist", {"refusals": 2}))
        await until(lambda: "fresh" in [tool.name for tool in statuses[-1].tools])
    assert [status.state for status in statuses] == ["connecting", "connected", "connected"]


async def test_child_environment_is_safe_variables_and_its_own(
    unruly: Config, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    async with serving(unruly(env={"OWN": "1"})) as server:
        names = set(json.loads((await server.ask(CallTool("environment", {}))).content))
    assert {"OWN", "UNRULY", "PATH"} <= names
    assert "SOME_API_KEY" not in names


async def test_env_overrides_env_file(
    unruly: Config, serving: Open, tmp_path: Path, statuses: list[ServerStatus]
) -> None:
    file = tmp_path / "server.env"
    file.write_text("# for the server\nFIRST='of the file'\nSECOND=of the file\n")
    async with serving(unruly(env={"SECOND": "of the configuration"}, env_file=file)) as server:
        variables = json.loads((await server.ask(CallTool("environment", {}))).content)
    assert variables["FIRST"] == "of the file"
    assert variables["SECOND"] == "of the configuration"


async def test_common_word_in_env_file_leaves_the_data_of_the_server(
    unruly: Config, serving: Open, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "server.env"
    caplog.set_level(logging.INFO)
    file.write_text("PGPASSWORD=postgres\nPGDATABASE=postgres\n")
    async with serving(unruly(env_file=file)) as server:
        variables = json.loads((await server.ask(CallTool("environment", {}))).content)
    assert variables["PGDATABASE"] == "postgres"
    assert variables["PGPASSWORD"] == "***"
    assert "the value of PGPASSWORD is not masked everywhere: it is a common word" in caplog.text


async def test_command_is_found_on_the_servers_own_path(serving: Open, tmp_path: Path) -> None:
    command = tmp_path / "own-server"
    command.write_text("#!/bin/sh\necho started >&2\nexit 3\n")
    command.chmod(0o755)
    config = McpServerConfig(name="own", command=command.name, env={"PATH": str(tmp_path)})
    with pytest.raises(ServerStartFailed, match="started"):
        async with serving(config):
            pass


async def test_invalid_env_file_fails_the_start(unruly: Config, serving: Open, tmp_path: Path) -> None:
    file = tmp_path / "server.env"
    with pytest.raises(ServerStartFailed, match=f"env_file {file}: No such file or directory$"):
        async with serving(unruly(env_file=file)):
            pass


async def test_child_runs_in_its_cwd(unruly: Config, serving: Open, tmp_path: Path) -> None:
    async with serving(unruly(cwd=tmp_path)) as server:
        assert (await server.ask(CallTool("directory", {}))).content == str(tmp_path)
    with pytest.raises(ServerStartFailed, match=r"cwd .*nowhere: No such file or directory$"):
        async with serving(unruly(cwd=tmp_path / "nowhere")):
            pass


async def test_server_not_required_may_connect_later(
    echo: Config,
    serving: Open,
    tmp_path: Path,
    statuses: list[ServerStatus],
    caplog: pytest.LogCaptureFixture,
) -> None:
    script = tmp_path / "server.py"
    async with serving(echo(required=False, args=("-S", str(script)))) as server:
        assert await server.ask(ListTools()) == ()
        with pytest.raises(ToolUnavailable, match=r'^MCP server "echo" not connected: exited with code 2: '):
            await server.ask(CallTool("echo", {"text": "too early"}))
        await until(lambda: [status.state for status in statuses].count("disconnected") >= 3)
        shutil.copy(echo().args[1], script)
        await until(lambda: statuses[-1].state == "connected")
        tools = await server.ask(ListTools())
        assert len(tools) == 6
        assert (await server.ask(CallTool("echo", {"text": "here"}))).content == "here"
    # A server that stays away is logged once.
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert [record.getMessage()[:12] for record in warnings if "can't open file" in record.getMessage()] == [
        "disconnected"
    ]


async def test_stderr_is_logged(unruly: Config, serving: Open, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stopgo.mcp.unruly")
    with pytest.raises(ServerStartFailed):
        async with serving(unruly("exit")):
            pass
    assert ("stopgo.mcp.unruly", logging.INFO, "fatal: no database") in caplog.record_tuples


def test_only_http_servers_get_tokens(echo: Config) -> None:
    assert not echo().forwards_bearer
    for url in ("http://127.0.0.1:1/mcp", "http://[::1]/mcp", "https://host/@x", "https://host?at=a@b"):
        assert McpServerConfig(name="web", url=url).forwards_bearer


def test_server_with_its_own_credentials_gets_no_tokens() -> None:
    for url in ("https://user:secret@host/mcp", "https://key@[::1]:1/mcp", "https://a@b@host?x"):
        assert not McpServerConfig(name="web", url=url).forwards_bearer


def test_sdk_is_not_loaded_before_a_server_starts() -> None:
    heavy = {"mcp", "mcp_types", "httpx2", "pydantic"}
    code = f"import sys, stopgo.actors.mcp.server; print({heavy} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"


async def test_unsendable_arguments_do_not_affect_other_calls(
    echo: Config, serving: Open, ledger: Path
) -> None:
    deep: Any = []
    for _ in range(400):
        deep = [deep]
    async with serving(echo()) as server:
        for argument in (deep, "\ud800"):
            result = await server.ask(CallTool("echo", {"text": argument}))
            assert result.is_error
            assert result.content.startswith("the arguments cannot be sent: ")
        assert not (await server.ask(CallTool("echo", {"text": "fine"}))).is_error
    assert executed(ledger) == ["echo"]
