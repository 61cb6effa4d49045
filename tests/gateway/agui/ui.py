"""A user interface that speaks AG-UI to an agent of this process, over real sockets."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import attrs
import httpx2

from stopgo.actors.agent.agent import Agent
from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import bind, open_server
from tests.actors.world import World
from tests.http_client import http_client

from .verifier import Json, check_stream

_numbers = itertools.count(1)


@attrs.define(eq=False)
class UI:
    world: World
    agent: Agent
    client: httpx2.AsyncClient

    def body(self, thread: str, said: str | None = None, **more: Any) -> dict[str, Any]:
        """A RunAgentInput; `id` is the id of the message."""
        number = next(_numbers)
        message = {"id": more.pop("id", f"m-{number}"), "role": "user", "content": said}
        messages = [message] if said is not None else []
        return {"threadId": thread, "runId": f"r-{number}", "messages": messages, **more}

    @asynccontextmanager
    async def stream(
        self, body: Json, token: str | None = None, session: str | None = None
    ) -> AsyncIterator[AsyncGenerator[Json, None]]:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        if session is not None:
            headers["X-Session-ID"] = session
        async with self.client.stream("POST", "/agui", json=body, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            assert response.headers["Content-Type"] == "text/event-stream"
            yield _events(response)

    async def run(
        self,
        thread: str,
        said: str | None = None,
        *,
        token: str | None = None,
        session: str | None = None,
        **more: Any,
    ) -> list[Json]:
        """All events of one run, which the protocol must allow."""
        body = self.body(thread, said, **more)
        async with self.stream(body, token, session) as stream:
            events = [event async for event in stream]
        check_stream(events)
        assert (events[0]["threadId"], events[0]["runId"]) == (thread, body["runId"])
        return events

    async def answer(self, thread: str, *entries: Json, **more: Any) -> list[Json]:
        return await self.run(thread, resume=list(entries), **more)

    async def refused(self, body: Json, **headers: str) -> tuple[int, str]:
        """The status and the code of a request that makes no stream."""
        response = await self.client.post("/agui", json=body, headers=headers)
        error = response.json()
        assert error["error"]
        return response.status_code, error["code"]

    async def get(self, path: str) -> Any:
        return (await self.client.get(path)).json()

    async def said(self, id: str) -> list[tuple[str, str]]:
        """The messages of a conversation, as REST has them."""
        messages = (await self.get(f"/conversations/{id}"))["conversation"]["messages"]
        return [(message["role"], message["content"]) for message in messages[1:]]


async def _events(response: httpx2.Response) -> AsyncGenerator[Json, None]:
    async for line in response.aiter_lines():
        if line:
            name, _, data = line.partition(": ")
            assert name in ("data", ""), line
            if name:
                yield json.loads(data)


@asynccontextmanager
async def shown(world: World) -> AsyncIterator[UI]:
    """Serve the agent once, with a client of AG-UI."""
    async with (
        world.agent() as agent,
        open_server(make_app(agent), bind("127.0.0.1", 0)) as server,
        http_client(base_url=server.url) as client,
    ):
        yield UI(world, agent, client)


# ------------------------------------------------------------------ reading a run


def conversation_of(events: Sequence[Json]) -> str:
    id: str = events[0]["metadata"]["conversation_id"]
    return id


def kinds(events: Sequence[Json]) -> list[str]:
    return [event["type"] for event in events]


def of_kind(events: Sequence[Json], kind: str) -> list[Json]:
    return [event for event in events if event["type"] == kind]


def texts(events: Sequence[Json]) -> list[str]:
    """Of the messages that count."""
    found: dict[str, str] = {}
    for event in events:
        match event["type"]:
            case "TEXT_MESSAGE_START":
                found[event["messageId"]] = ""
            case "TEXT_MESSAGE_CONTENT":
                found[event["messageId"]] += event["delta"]
            case "TEXT_MESSAGE_END" if event.get("metadata", {}).get("superseded"):
                del found[event["messageId"]]
    return list(found.values())


def results(events: Sequence[Json]) -> list[str]:
    return [event["content"] for event in of_kind(events, "TOOL_CALL_RESULT")]


def interrupts(events: Sequence[Json]) -> list[Json]:
    outcome = events[-1]["outcome"]
    assert outcome["type"] == "interrupt", events[-1]
    found: list[Json] = outcome["interrupts"]
    return found


def outcome(events: Sequence[Json]) -> str:
    end = events[-1]
    return f"error {end['code']}" if end["type"] == "RUN_ERROR" else str(end["outcome"]["type"])


def approve(interrupt: Json, **payload: Any) -> dict[str, Any]:
    return resolve(interrupt, {"approved": True, **payload})


def reject(interrupt: Json, **payload: Any) -> dict[str, Any]:
    return resolve(interrupt, {"approved": False, **payload})


def resolve(interrupt: Json, payload: Any) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "resolved", "payload": payload}


def cancel(interrupt: Json) -> dict[str, Any]:
    return {"interruptId": interrupt["id"], "status": "cancelled"}


def without_times(events: Sequence[Json]) -> list[Mapping[str, Any]]:
    """To compare two streams of one run."""
    mine = ("timestamp", "runId", "usage")
    return [{name: value for name, value in event.items() if name not in mine} for event in events]
