"""An agent of this process behind real sockets: spoken to by A2A, and by REST beside it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.models.messages.a2a_end import A2AEnd, TextArtifact
from stopgo.actors.models.messages.messages import ModelFailed, ModelReply, ModelRequest, ToolCall
from stopgo.actors.tools.tool import ToolAuthRequired, ToolResult
from stopgo.gateway.a2a.push import PushNotifier, open_push
from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import bind, open_server
from stopgo.gateway.http.quart_app import Application
from tests.actors.world import DESTRUCTIVE, READ_ONLY, World, call, say, use
from tests.contract import hold_async
from tests.gateway.keyring import Keyring
from tests.http_client import http_client

from .tongues import V1, Ask, Json, Refused, Told, Tongue, read

SLOW = 30.0
"""Seconds that a slow step takes, on the clock of the test."""

PARTS = (
    {"type": "text", "text": "two files"},
    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    {"type": "resource", "resource": {"uri": "file:///a/b.txt", "text": "said", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "file:///c.bin", "blob": "aGk="}},
    {"type": "resource_link", "uri": "https://files.test/d", "name": "d", "mimeType": "text/csv"},
)
STRUCTURED = {"rows": [1, 2]}
GIVEN: list[Json] = [
    {"raw": "aGk=", "mediaType": "image/png"},
    {"text": "said", "mediaType": "text/plain", "filename": "b.txt"},
    {"raw": "aGk=", "filename": "c.bin"},
    {"url": "https://files.test/d", "mediaType": "text/csv", "filename": "d"},
    {"data": STRUCTURED},
]
"""The parts and the structured result, as parts of an artifact."""


def furnish(world: World) -> World:
    """Tools of each kind, and a model that obeys its message."""

    async def locked(_: Mapping[str, Any]) -> ToolResult:
        if world.bearers[-1] != "good":
            raise ToolAuthRequired("no", status=401)
        return ToolResult("open")

    async def slow(_: Mapping[str, Any]) -> str:
        await trio.sleep(SLOW)
        return "slept"

    async def files(_: Mapping[str, Any]) -> ToolResult:
        return ToolResult("two files", parts=PARTS, structured=STRUCTURED)

    world.settings["mcp_servers"] = [
        {"name": "tools", "command": "none", "max_concurrency": 4},
        {"name": "remote", "url": "http://127.0.0.1:1/mcp"},
    ]
    world.tool("wipe", DESTRUCTIVE, description="Wipe something.")
    world.tool("slow", READ_ONLY, slow)
    world.tool("files", READ_ONLY, files)
    world.tool("locked", READ_ONLY, locked, server="remote")
    world.plan("agent", *[_obey] * 5)
    return world


async def _obey(request: ModelRequest) -> ModelReply:
    results = [result.content for result in request.results]
    match [request.user.split()[0], *request.user.split()[1:]]:
        case ["rest", *_]:
            await trio.sleep(SLOW)
            return say("rested")
        case ["fail", *_]:
            raise ModelFailed("no model today")
        case ["end", state, *_]:
            end: Any = state
            return attrs.evolve(say("so it ends"), a2a=A2AEnd(end, TextArtifact(("one ", "two"))))
        case ["tell", *_] if not results:
            return use(call("files"), text="I look for files.")
        case ["first", name, *_] if request.call == 1:
            return use(_call(name))
        case ["first", _, "then", name] if request.call == 2:
            return use(_call(name))
        case ["use", *names] if not results:
            return use(*map(_call, names))
        case _ if results:
            return say(f"it says: {' and '.join(results)}")
        case _:
            return say(f"you said {request.user}")


def _call(name: str) -> ToolCall:
    tool, _, label = name.partition(":")
    return call(tool, name=label) if label else call(tool)


@attrs.define
class Talk:
    world: World
    agent: Agent
    client: httpx2.AsyncClient
    rest: httpx2.AsyncClient
    """A client whose answers are checked against the OpenAPI document."""

    async def raw(self, wanted: Ask, **headers: str) -> httpx2.Response:
        return await self.client.request(**wanted.of_client(**headers))

    async def ask(self, wanted: Ask, **headers: str) -> Told | Refused:
        response = await self.raw(wanted, **headers)
        assert response.status_code < 500, response.text
        return read(response.json())

    async def told(self, wanted: Ask, **headers: str) -> Told:
        answer = await self.ask(wanted, **headers)
        assert isinstance(answer, Told), answer
        return answer

    async def refused(self, wanted: Ask, **headers: str) -> Refused:
        answer = await self.ask(wanted, **headers)
        assert isinstance(answer, Refused), answer
        return answer

    @asynccontextmanager
    async def stream(self, wanted: Ask, **headers: str) -> AsyncIterator[AsyncGenerator[Told, None]]:
        async with self.client.stream(**wanted.of_client(**headers)) as response:
            assert response.headers["Content-Type"] == "text/event-stream", await response.aread()
            yield _items(response)

    async def all_of(self, wanted: Ask, **headers: str) -> list[Told]:
        """Of a stream, to its end."""
        async with self.stream(wanted, **headers) as items:
            return [item async for item in items]

    async def get(self, id: str, tongue: Tongue = V1, **headers: str) -> Told:
        return await self.told(tongue.get(id), **headers)

    async def conversation(self, id: str) -> Json:
        """As REST has it."""
        response = await self.rest.get(f"/conversations/{id}")
        found: Json = response.json()["conversation"]
        return found

    async def approvals(self) -> list[Json]:
        """Those that are pending, as REST has them."""
        found: list[Json] = (await self.rest.get("/approvals")).json()["approvals"]
        return found

    async def last_said(self, id: str) -> str:
        """In the conversation, as REST has it."""
        said: str = (await self.conversation(id))["messages"][-1]["content"]
        return said

    async def waiting(self, wanted: str, tongue: Tongue = V1, **headers: str) -> Told:
        """A new task that waits for input."""
        task = await self.told(tongue.send(wanted), **headers)
        assert task.state == "input-required", task
        return task


async def _items(response: httpx2.Response) -> AsyncGenerator[Told, None]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            item = read(json.loads(line.removeprefix("data: ")))
            assert isinstance(item, Told), item
            yield item


@asynccontextmanager
async def talking(
    world: World, host: str = "127.0.0.1", *, keyring: Keyring | None = None
) -> AsyncIterator[Talk]:
    """Serve the agent once, with clients. With a keyring, it sends push notifications, too."""
    async with (
        world.agent() as agent,
        open_push(agent) as push,
        open_server(_app(agent, keyring, push), bind("127.0.0.1", 0)) as server,
        http_client(base_url=server.url) as client,
        http_client(base_url=server.url, event_hooks={"response": [hold_async]}) as rest,
    ):
        yield Talk(world, agent, client, rest)


def _app(agent: Agent, keyring: Keyring | None, push: PushNotifier) -> Application:
    if keyring is None:
        return make_app(agent)
    assert agent.config.auth is not None
    return make_app(agent, push=push, authenticator=keyring.authenticator(agent.config.auth))
