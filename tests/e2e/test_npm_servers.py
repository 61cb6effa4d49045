"""Public tool servers, as published: `make npm-servers` installs them into STOPGO_NPM_DIR."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import trio

from stopgo.actors.mcp.server import mcp_server
from stopgo.actors.tools.tool import CallTool, ListTools, ServerMessage, Tool
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.supervision import open_supervisor

NPM_DIR = os.environ.get("STOPGO_NPM_DIR")
pytestmark = pytest.mark.npm


def script(package: str) -> str:
    path = Path(str(NPM_DIR)) / "node_modules" / "@modelcontextprotocol" / package / "dist" / "index.js"
    assert path.exists(), f"{package} is not installed in STOPGO_NPM_DIR: run `make npm-servers`"
    return str(path)


@asynccontextmanager
async def serving(**fields: Any) -> AsyncIterator[tuple[ActorRef[ServerMessage], dict[str, Tool]]]:
    config = McpServerConfig(name="public", **fields)
    before = set(psutil.Process().children(recursive=True))  # such as a browser that several tests share
    async with open_supervisor(EventBus()) as supervisor:
        server = await supervisor.start("public", mcp_server(config))
        yield server, {tool.name: tool for tool in await server.ask(ListTools())}
    if config.command is not None:
        assert set(psutil.Process().children(recursive=True)) - before == set()


@contextmanager
def everything_over(transport: str) -> Iterator[dict[str, Any]]:
    """The keys of a server's entry in the agent file that lead to the server with everything."""
    if transport == "stdio":
        yield {"command": "node", "args": [script("server-everything"), "stdio"]}
        return
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    how, path = {"http": ("streamableHttp", "mcp"), "sse": ("sse", "sse")}[transport]
    argv = ["node", script("server-everything"), how]
    env = {**os.environ, "PORT": str(port)}
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield {"url": f"http://127.0.0.1:{port}/{path}"}
        finally:
            process.kill()


async def test_the_filesystem_server(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    await trio.Path(folder).mkdir()
    async with serving(command="node", args=(script("server-filesystem"), str(folder))) as (server, tools):
        assert tools["write_file"].hints.destructive is True
        assert tools["read_text_file"].hints.read_only is True
        assert tools["create_directory"].hints.destructive is False
        note = str(folder / "note.txt")
        written = await server.ask(CallTool("write_file", {"path": note, "content": "grüße"}))
        assert not written.is_error
        assert (await server.ask(CallTool("read_text_file", {"path": note}))).content == "grüße"
        assert "note.txt" in (await server.ask(CallTool("list_directory", {"path": str(folder)}))).content
        outside = await server.ask(CallTool("read_text_file", {"path": "/etc/passwd"}))
    assert outside.is_error
    assert "outside allowed directories" in outside.content
    assert await trio.Path(note).read_text() == "grüße"


async def exercise(server: ActorRef[ServerMessage], tools: dict[str, Tool]) -> None:
    assert "echo" in tools
    assert (await server.ask(CallTool("echo", {"message": "hi"}))).content == "Echo: hi"
    assert "5" in (await server.ask(CallTool("get-sum", {"a": 2, "b": 3}))).content
    image = await server.ask(CallTool("get-tiny-image", {}))
    assert "image" in [part["type"] for part in image.parts]
    assert "[image: image/png, " in image.content
    structured = await server.ask(CallTool("get-structured-content", {"location": "New York"}))
    assert set(structured.structured) == {"temperature", "conditions", "humidity"}
    assert (await server.ask(CallTool("get-sum", {"a": "two"}))).is_error


@pytest.mark.parametrize("transport", ["stdio", "http", "sse"])
async def test_the_everything_server(transport: str) -> None:
    with everything_over(transport) as where:
        fields = {**where, "args": tuple(where["args"])} if "args" in where else where
        async with serving(**fields) as (server, tools):
            await exercise(server, tools)
