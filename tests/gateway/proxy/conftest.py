"""`stopgo web` over real sockets, in front of a real agent, or of a scripted one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio

from stopgo.actors.agent.open_agent import open_agent
from stopgo.config.load import load_config
from stopgo.config.web_config import WebConfig
from stopgo.gateway.http.http_server import HttpServer, bind, open_server
from stopgo.gateway.proxy.agent_address import AgentAddress
from stopgo.gateway.proxy.proxy_app import make_proxy
from stopgo.gateway.proxy.upstream import Upstream, open_upstream
from stopgo.gateway.servers.resource_store import ResourceStore
from stopgo.gateway.servers.resources import resource_server
from tests.http_client import http_client

REPLIES = """
replies:
  - when: {user: slow}
    text: at last
    delay: 3600
  - when: {user: 'add (?P<name>\\S+)', call: 1}
    tool_calls: [{name: resources_add, arguments: {name: '${name}', value: 1}}]
  - when: {tool_result: '"name": "(?P<name>[^"]+)"'}
    text: added ${name}
  - when: {user: '(?P<what>.*)'}
    text: you said ${what}
"""
AGENT = """
name: a
shutdown_grace: 0
llm: {model: 'script:replies.yaml'}
"""
TOOLS = "mcp_servers: [{name: resources, brought_by: program}]\n"


@attrs.frozen(eq=False)
class Proxied:
    server: HttpServer
    client: httpx2.AsyncClient
    upstream: Upstream


@asynccontextmanager
async def proxy_to(agent_url: str, **keys: Any) -> AsyncIterator[Proxied]:
    """The proxy in front of an agent's URL; `keys` are those of the web file."""
    config = WebConfig(agent_url=agent_url, **keys)
    async with (
        open_upstream(AgentAddress.of(agent_url)) as upstream,
        open_server(make_proxy(config, upstream), bind("127.0.0.1", 0)) as server,
        http_client(base_url=server.url, verify=False) as client,
    ):
        yield Proxied(server, client, upstream)


@pytest.fixture
async def real(tmp_path: Path, serve: Callable[[Any], Any]) -> AsyncIterator[Proxied]:
    """The proxy in front of a real agent without tools."""
    async with proxy_to_agent(tmp_path, serve, AGENT) as proxied:
        yield proxied


@pytest.fixture
async def with_tools(tmp_path: Path, serve: Callable[[Any], Any]) -> AsyncIterator[Proxied]:
    """The proxy in front of a real agent that can add resources. Its tool server runs in this process."""
    with closing(ResourceStore(tmp_path / "r.db")) as store:
        servers = {"resources": resource_server(store)}
        async with proxy_to_agent(tmp_path, serve, AGENT + TOOLS, servers=servers) as proxied:
            yield proxied


@asynccontextmanager
async def proxy_to_agent(
    folder: Path, serve: Callable[[Any], Any], text: str, **options: Any
) -> AsyncIterator[Proxied]:
    (folder / "replies.yaml").write_text(REPLIES)
    (folder / "agent.yaml").write_text(text)
    config = load_config(folder / "agent.yaml", environ={}, data_dir=folder / "data")
    async with (
        open_agent(config, **options) as agent,
        serve(agent) as (server, _),
        proxy_to(server.url) as proxied,
    ):
        yield proxied


@attrs.define(eq=False)
class Told:
    """An agent that answers each connection with given bytes, and records the requests."""

    answer: bytes = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    stays: bool = False
    """Keep the connection open after the answer."""
    asked: list[bytes] = attrs.field(factory=list)
    left: trio.Event = attrs.field(factory=trio.Event)
    """A client has gone."""
    heard: trio.Event = attrs.field(factory=trio.Event)
    url: str = ""

    async def converse(self, stream: trio.abc.Stream) -> None:
        async with stream:
            data = b""
            while b"\r\n\r\n" not in data:
                piece = await stream.receive_some()
                if not piece:
                    return
                data += piece
            self.asked.append(data)
            self.heard.set()
            await stream.send_all(self.answer)
            if self.stays:
                while await stream.receive_some():
                    pass
                self.left.set()

    @property
    def lines(self) -> list[str]:
        """The first line and the headers of the last request; the latter with their names in lower case."""
        first, *rest = self.asked[-1].partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        named = (line.partition(": ") for line in rest)
        return [first, *(f"{name.lower()}: {value}" for name, _, value in named)]


@pytest.fixture
async def told() -> AsyncIterator[Told]:
    agent = Told()
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        agent.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        nursery.start_soon(trio.serve_listeners, agent.converse, [listener])
        yield agent
        nursery.cancel_scope.cancel()


@pytest.fixture
async def proxied(told: Told) -> AsyncIterator[Proxied]:
    """The proxy in front of that agent."""
    async with proxy_to(told.url) as opened:
        yield opened
