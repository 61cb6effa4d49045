"""The resource server: its tools in memory, its command over stdio and HTTP."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from stopgo.actors.mcp.transports.http import http_client
from stopgo.actors.mcp.transports.stdio import StdioTransport
from stopgo.actors.mcp.transports.streamable import StreamableHttp
from stopgo.actors.mcp.wire.wire import result_from_wire
from stopgo.gateway.cli.main import main
from stopgo.gateway.servers.resource_store import ResourceStore
from stopgo.gateway.servers.resources import resource_server
from stopgo.gateway.servers.serving import MAX_MESSAGE
from tests.http_client import get, post
from tests.waiting import until_true

Call = Callable[..., Any]
LAUNCH = (
    "import argparse; from stopgo.gateway.cli.commands.mcp_resources_command import register;"
    "from stopgo.gateway.servers import serving; serving.SHUTDOWN_GRACE = 3600.0;"
    "from stopgo.gateway import signals; signals.REPEAT = 0.0;"  # each signal is another one
    "parser = argparse.ArgumentParser(); register(parser.add_subparsers());"
    "args = parser.parse_args(); raise SystemExit(args.run(args))"
)


def command(*args: str) -> list[str]:
    return [sys.executable, "-c", LAUNCH, "mcp-resources", *args]


def launch(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command(*args), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@asynccontextmanager
async def in_memory(db: Path) -> AsyncIterator[Client]:
    store = ResourceStore(db)
    try:
        async with Client(resource_server(store)) as client:
            yield client
    finally:
        store.close()


@asynccontextmanager
async def over_stdio(db: Path) -> AsyncIterator[Client]:
    log = logging.getLogger("test")
    transport = StdioTransport(command("--db", str(db)), env={}, log=log, on_end=log.info)
    async with Client(transport.open()) as client:
        yield client


@asynccontextmanager
async def over_http(db: Path) -> AsyncIterator[Client]:
    with launch("--db", str(db), "--http", "127.0.0.1:0") as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().removeprefix("listening on ").strip()
            way = StreamableHttp(f"{address}/mcp", lambda: None)
            http = http_client(
                headers={},
                auth=None,
                on_lost=lambda _: None,
                on_stream=lambda: None,
                on_session=way.in_session,
            )
            async with Client(way.open(http)) as client:
                yield client
        finally:
            process.terminate()


async def text(client: Client, tool: str, arguments: dict[str, Any] | None = None) -> str:
    called = await client.call_tool(tool, arguments)
    result = result_from_wire(called.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert not result.is_error
    return result.content


async def refusal(client: Client, tool: str, arguments: dict[str, Any]) -> str:
    called = await client.call_tool(tool, arguments)
    result = result_from_wire(called.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert result.is_error
    return result.content


@pytest.mark.parametrize("connected", [over_stdio, over_http])
async def test_resources_are_added_listed_and_removed(connected: Any, tmp_path: Path) -> None:
    async with connected(tmp_path / "r.db") as client:
        added = json.loads(await text(client, "resources_add", {"name": "test-1", "value": 10}))
        assert list(added) == ["id", "name", "value", "created_at", "updated_at"]
        assert (added["name"], added["value"]) == ("test-1", 10)
        other = json.loads(await text(client, "resources_add", {"name": "test-10", "value": "x"}))
        assert json.loads(await text(client, "resources_list")) == {"resources": [added, other], "count": 2}
        listed = await text(client, "resources_list", {"pattern": "^test-1$"})
        assert listed == json.dumps({"resources": [added], "count": 1}, indent=2)
        removed = await text(client, "resources_remove", {"pattern": "^test-1$"})
        assert json.loads(removed) == {"removed_count": 1, "removed_ids": [added["id"]]}
        removed = await text(client, "resources_remove", {"id": other["id"]})
        assert json.loads(removed) == {"removed_count": 1, "removed_ids": [other["id"]]}


async def test_id_and_pattern_together_remove_only_what_matches_both(tmp_path: Path) -> None:
    async with in_memory(tmp_path / "r.db") as client:
        lamp = json.loads(await text(client, "resources_add", {"name": "lamp", "value": 1}))["id"]
        desk = json.loads(await text(client, "resources_add", {"name": "desk", "value": 2}))["id"]
        removed = await text(client, "resources_remove", {"id": desk, "pattern": "^lamp$"})
        assert json.loads(removed) == {"removed_count": 0, "removed_ids": None}
        removed = await text(client, "resources_remove", {"id": lamp, "pattern": "^lamp$"})
        assert json.loads(removed) == {"removed_count": 1, "removed_ids": [lamp]}


async def test_empty_lists_are_null(tmp_path: Path) -> None:
    async with in_memory(tmp_path / "r.db") as client:
        assert json.loads(await text(client, "resources_list")) == {"resources": None, "count": 0}
        nothing = {"removed_count": 0, "removed_ids": None}
        assert json.loads(await text(client, "resources_remove", {"id": "7"})) == nothing
        assert json.loads(await text(client, "resources_remove", {"pattern": "."})) == nothing


async def test_tools_are_listed_with_schemas_and_annotations(tmp_path: Path) -> None:
    async with in_memory(tmp_path / "r.db") as client:
        tools = (await client.list_tools()).tools
        assert client.server_info is not None
        assert client.server_info.name == "mcp-resources"
    listed = {
        tool.name: (
            {name: each["type"] for name, each in tool.input_schema["properties"].items()},
            tool.input_schema.get("required", []),
            tool.annotations and tool.annotations.model_dump(by_alias=True, exclude_none=True),
        )
        for tool in tools
    }
    assert listed == {
        "resources_add": (
            {"name": "string", "value": ["integer", "string"]},
            ["name", "value"],
            {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True},
        ),
        "resources_remove": (
            {"id": "string", "pattern": "string"},
            [],
            {"readOnlyHint": False, "destructiveHint": True},
        ),
        "resources_list": ({"pattern": "string"}, [], {"readOnlyHint": True}),
    }


REFUSALS: list[tuple[str, dict[str, Any], str]] = [
    ("resources_add", {"value": 1}, "name is required"),
    ("resources_add", {"name": "", "value": 1}, "name is required"),
    ("resources_add", {"name": 7, "value": 1}, "name must be a string"),
    ("resources_add", {"name": "a" * 1001, "value": 1}, "name must not be longer than 1000 characters"),
    ("resources_add", {"name": "a"}, "value is required"),
    ("resources_add", {"name": "a", "value": True}, "value must be an integer or a string"),
    ("resources_add", {"name": "a", "value": 1.5}, "value must be an integer or a string"),
    ("resources_add", {"name": "a", "value": [1]}, "value must be an integer or a string"),
    (
        "resources_add",
        {"name": "a", "value": 2**63},
        "value must fit into 64 bits; give a larger number as a string",
    ),
    ("resources_remove", {}, "either id or pattern is required"),
    ("resources_remove", {"id": 5}, "id must be a string"),
    (
        "resources_remove",
        {"pattern": "("},
        "invalid pattern: missing ), unterminated subpattern at position 0",
    ),
    (
        "resources_list",
        {"pattern": "["},
        "invalid pattern: unterminated character set at position 0",
    ),
    ("nothing", {}, "unknown tool: nothing"),
]


async def test_bad_arguments_are_refused_with_a_reason(tmp_path: Path) -> None:
    async with in_memory(tmp_path / "r.db") as client:
        for tool, arguments, expected in REFUSALS:
            assert await refusal(client, tool, arguments) == expected


async def test_database_error_is_a_tool_error(tmp_path: Path) -> None:
    db = tmp_path / "r.db"
    async with in_memory(db) as client:
        await text(client, "resources_list")
        for file in list(tmp_path.iterdir()):  # noqa: ASYNC240 - nobody else waits
            file.write_bytes(b"no longer a database" * 1000)
        assert "database error:" in await refusal(client, "resources_add", {"name": "a", "value": 1})


@pytest.mark.parametrize(
    ("words", "db", "number"),
    [((), "made/r.db", signal.SIGTERM), (("--db", "other.db"), "other.db", signal.SIGINT)],
)
def test_config_file_starts_http_and_a_signal_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], db: str, number: int
) -> None:
    monkeypatch.chdir(tmp_path)
    config = tmp_path / "resources.yaml"
    config.write_text(f"host: 127.0.0.1\nport: 0\ndb_path: {tmp_path}/${{DB:-made/r.db}}\n")
    with launch("--config", str(config), *words) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        address = process.stdout.readline().removeprefix("listening on ").strip()
        response = get(f"{address}/health")
        assert (response.status_code, response.text) == (200, "ok")
        assert post(f"{address}/mcp", content=b"{bad").status_code in (400, 406)
        process.send_signal(number)
        assert process.wait() == 0
        assert process.stderr.read() == ""
    assert (tmp_path / db).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_stdio_without_a_traceback(tmp_path: Path, number: int) -> None:
    with launch("--db", str(tmp_path / "r.db")) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write('not json\n{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        process.send_signal(number)
        assert process.wait() == 0
        assert "Traceback" not in process.stderr.read()


def test_piped_requests_are_all_answered(tmp_path: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    add = {"name": "resources_add", "arguments": {"name": "lamp", "value": 3}}
    requests: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": add} for number in range(1, 6)),
    ]
    done = subprocess.run(
        command("--db", str(tmp_path / "r.db")),
        input="".join(json.dumps({"jsonrpc": "2.0", **request}) + "\n" for request in requests),
        capture_output=True,
        text=True,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(answer["id"] for answer in answers) == list(range(6))
    assert (done.returncode, done.stderr) == (0, "")


def test_message_over_the_limit_ends_the_session(tmp_path: Path) -> None:
    with launch("--db", str(tmp_path / "r.db")) as process:
        out, err = process.communicate(
            '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n' + "x" * (MAX_MESSAGE + 500_000),
        )
    assert json.loads(out)["id"] == 1
    assert err == f"a message is longer than {MAX_MESSAGE} bytes\n"


def test_second_signal_stops_despite_a_client_that_does_not_read(tmp_path: Path) -> None:
    store = ResourceStore(tmp_path / "r.db")
    store.add("more than a socket takes", "x" * 20_000_000)
    store.close()
    body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "resources_list"}}'
    with launch("--db", str(tmp_path / "r.db"), "--http", "127.0.0.1:0") as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().rpartition(":")[2])
            with socket.create_connection(("127.0.0.1", port)) as client:
                head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
                types = "Accept: application/json\r\nContent-Type: application/json\r\n"
                client.sendall(f"{head}{types}\r\n{body}".encode())
                assert client.recv(12) == b"HTTP/1.1 200"
                process.send_signal(signal.SIGTERM)
                refused(port)
                process.send_signal(signal.SIGINT)
                assert process.wait() == 0
        finally:
            process.kill()


def refused(port: int) -> None:
    """Wait until the server no longer listens, because it has had a signal."""

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return True
        return False

    until_true(is_refused)


def run(*args: str) -> int:
    """Run the command in this process; return its exit code."""
    try:
        return main(["mcp-resources", *args])
    except SystemExit as error:
        return int(str(error.code))


def test_invalid_config_file_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "resources.yaml"
    config.write_text("hots: x\nport: 70000")
    assert run("--config", str(config)) == 2
    assert capsys.readouterr().err == (
        f'{config}:1:1: hots: unknown key "hots" (did you mean "host"?)\n'
        f"{config}:2:7: port: expected a whole number from 0 to 65535, found 70000\n"
    )


def test_unusable_database_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--db", str(tmp_path)) == 1
    assert capsys.readouterr().err == (
        f"stopgo mcp-resources: cannot use the database {tmp_path}: unable to open database file\n"
    )


def test_taken_port_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run("--db", str(tmp_path / "r.db"), "--http", f"127.0.0.1:{port}") == 1
    error = capsys.readouterr().err
    assert error.startswith(f"stopgo mcp-resources: cannot listen on 127.0.0.1:{port}: ")
    assert error.endswith(
        "Address already in use (another process has this port; `--http 127.0.0.1:0` takes a free one)\n"
    )


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ([], "--db or --config is required"),
        (["--db", "r.db", "--http", "somewhere"], "'somewhere' is not HOST:PORT"),
    ],
)
def test_invalid_options_are_refused(args: list[str], error: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*args) == 2
    assert error in capsys.readouterr().err
