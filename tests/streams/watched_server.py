"""A `stopgo serve` process that is stopped, killed and started again at one address, and its REST client."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import attrs
import httpx2
import psutil
import trio

from tests.contract import hold_async
from tests.e2e.conftest import Server, Servers
from tests.http_client import http_client

Json = dict[str, Any]

AGENT = """
name: watched
prompt: {prompt}
shutdown_grace: {grace}
llm: {{model: "script:replies.yaml"}}
"""
ASKING = (
    AGENT
    + """
agent:
  type: sequential
  name: both
  agents:
    - {{type: approval, name: gate, message: "Go on?"}}
    - {{type: llm, name: worker}}
"""
)
"""It asks a person at every message."""
REPLIES = """
replies:
  - when: {user: slow}
    delay: 0.3
    text: done slowly
  - text: done
"""
GRACE = 10.0
CLIENT_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
SMALL_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)
"""An option of every client socket: else some systems hold all that a test sends, and nothing overflows."""


class Stopping(Exception):
    """The server refuses a stream, or has ended it, because it stops."""


AWAY = (httpx2.TransportError, httpx2.StreamError, Stopping, trio.BrokenResourceError, OSError)
"""Errors that a client gets from a server that stops, is killed, or does not listen yet."""


@attrs.define(eq=False)
class WatchedServer:
    _servers: Servers
    _folder: Path
    _server: Server
    client: httpx2.AsyncClient

    @property
    def url(self) -> str:
        return self._server.run.url

    @property
    def log(self) -> str:
        return self._server.log

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._server.run.process.pid)

    def rss(self) -> int:
        """Bytes of memory."""
        rss: int = self.process.memory_info().rss
        return rss

    def connections(self) -> set[int]:
        """Ports of the clients that are connected."""
        here = urlsplit(self.url).port
        return {
            each.raddr.port
            for each in self.process.net_connections("tcp")
            if each.status == psutil.CONN_ESTABLISHED and each.laddr.port == here
        }

    # -------------------------------------------------------------- its process

    async def stop(self) -> float:
        """Stop it by SIGTERM, which has to succeed; the seconds that it took."""
        began = trio.current_time()
        await trio.to_thread.run_sync(self._server.run.interrupt)
        return trio.current_time() - began

    async def restart(self, *, kill: bool = False) -> None:
        """End it, by SIGKILL or SIGTERM, and start it again at the same address."""
        await trio.to_thread.run_sync(self._server.run.kill if kill else self._server.run.interrupt)
        port = urlsplit(self.url).port or 0
        start = partial(self._servers, self._folder / "data", config=self._folder / "agent.yaml", port=port)
        self._server = await trio.to_thread.run_sync(start)

    # -------------------------------------------------------------- its clients

    async def post(self, path: str, body: object = None) -> Json:
        """POST until there is an answer, over restarts: the key makes repeats harmless."""
        headers = {"Idempotency-Key": str(uuid4())}
        while True:
            try:
                answer = await self.client.post(path, json=body or {}, headers=headers)
            except AWAY:
                continue
            if answer.status_code == 503:
                continue
            assert answer.is_success, answer.text
            found: Json = answer.json() if answer.content else {}
            return found

    async def get(self, path: str, **params: str) -> Json:
        answer = await self.client.get(path, params=params)
        assert answer.is_success, answer.text
        found: Json = answer.json()
        return found

    async def new(self, message: str | None = None) -> str:
        """The id of a new conversation."""
        body = {} if message is None else {"message": message}
        id: str = (await self.post("/conversations", body))["conversation"]["id"]
        return id

    async def say(self, id: str, message: str) -> Json:
        return await self.post(f"/conversations/{id}/messages", {"message": message})

    async def complete(self, id: str) -> None:
        await self.post(f"/conversations/{id}/complete")

    async def delete(self, id: str) -> None:
        answer = await self.client.delete(f"/conversations/{id}")
        assert answer.status_code == 204, answer.text

    async def journal(self, id: str, after: int = 0) -> list[Json]:
        """Every event that is stored after `after`, as the server replays it. Raises one of `AWAY`."""
        found: list[Json] = []
        last = (await self.get(f"/conversations/{id}"))["conversation"]["last_seq"]
        if after >= last:
            return found
        params = {"after": str(after)}
        async with self.client.stream("GET", f"/conversations/{id}/events", params=params) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    found.append(json.loads(line.removeprefix("data: ")))
                    if found[-1]["seq"] == last:
                        break
        assert [each["seq"] for each in found] == [*range(after + 1, after + 1 + len(found))]
        if after + len(found) < last:
            raise Stopping
        return found


def write_agent(folder: Path, agent: str = AGENT, prompt: str = "Be brief.", grace: float = GRACE) -> Path:
    """The agent file, beside which its script lies."""
    (folder / "replies.yaml").write_text(REPLIES)
    config = folder / "agent.yaml"
    config.write_text(agent.format(prompt=prompt, grace=grace))
    return config


@asynccontextmanager
async def watched_server(
    servers: Servers,
    folder: Path,
    agent: str = AGENT,
    *,
    prompt: str = "Be brief.",
    grace: float = GRACE,
    program: str = "",
) -> AsyncIterator[WatchedServer]:
    config = write_agent(folder, agent, prompt, grace)
    start = partial(servers, folder / "data", config=config, program=program)
    server = await trio.to_thread.run_sync(start)
    async with http_client(
        base_url=server.run.url,
        transport=httpx2.AsyncHTTPTransport(limits=CLIENT_LIMITS, socket_options=[SMALL_BUFFER]),
        event_hooks={"response": [hold_async]},
    ) as client:
        yield WatchedServer(servers, folder, server, client)
