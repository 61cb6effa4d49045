"""The events of one conversation as server-sent events."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import jsonschema
import pytest
import trio

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words import events
from stopgo.actors.log.words.deltas import ModelDelta, ToolProgress
from stopgo.actors.models.messages.messages import ArgumentsDelta, TextDelta
from stopgo.actors.tools.tool import Progress
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.shape_schema import components
from stopgo.gateway.http.event_stream import HEARTBEAT
from stopgo.gateway.http.http_connection import SEND_TIMEOUT
from stopgo.gateway.http.http_server import HttpServer
from stopgo.gateway.http.request_task import PIECE
from stopgo.gateway.http.responses import STRETCH
from stopgo.runtime.journal.protocol import NewEvent

pytestmark = pytest.mark.repeat(5)

PATH = f"/conversations/{ex.CONVERSATION_ID}/events"


def strict(shape: str) -> Any:
    """The schema of a shape; no other fields are allowed."""
    return {**components()[shape], "additionalProperties": False, "components": {"schemas": components()}}


class Reader:
    """An EventSource of few words."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def block(self) -> dict[str, str] | None:
        """The fields of the next block; None when the stream has ended."""
        fields: dict[str, str] = {}
        async for line in self._lines:
            if not line:
                return fields
            name, _, value = line.partition(": ")
            fields[name] = value
        return None

    async def event(self) -> dict[str, Any]:
        while True:
            block = await self.block()
            assert block is not None
            if "data" in block:
                return {**block, "data": json.loads(block["data"])}


@asynccontextmanager
async def follow(
    client: httpx2.AsyncClient, query: str = "", headers: dict[str, str] | None = None
) -> AsyncIterator[Reader]:
    async with client.stream("GET", PATH + query, headers=headers) as response:
        assert response.status_code == 200
        yield Reader(response)


async def test_it_replays_and_then_follows(agent: Any, client: httpx2.AsyncClient) -> None:
    async with follow(client) as reader:
        assert reader.response.headers["Content-Type"] == "text/event-stream"
        assert reader.response.headers["X-Accel-Buffering"] == "no"  # a proxy would hold events back
        assert reader.response.headers["X-Session-ID"] == "1f0c9a7e"
        assert await reader.block() == {"retry": "1000"}
        seen = [await reader.event() for _ in agent.log]
        assert [event["id"] for event in seen] == ["1", "2", "3", "4", "5", "6"]
        assert [event["event"] for event in seen] == [event.type for event in agent.log]
        assert seen[1]["data"] == {
            "conversation_id": ex.CONVERSATION_ID,
            "seq": 2,
            "type": "message.added",
            "at": "2026-11-21T10:00:02.000Z",
            "body": {"text": "add a server web-1 with value 42", "command": "c1"},
        }
        agent.grow(events.ConversationCompleted())
        assert (await reader.event())["id"] == "7"


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("?after=0", {}, "1"),
        ("?after=4", {}, "5"),
        ("", {"Last-Event-ID": "3"}, "4"),
        ("?after=1", {"Last-Event-ID": "5"}, "6"),
    ],
)
async def test_it_begins_after_the_cursor(
    client: httpx2.AsyncClient, query: str, headers: dict[str, str], first: str
) -> None:
    async with follow(client, query, headers) as reader:
        assert (await reader.event())["id"] == first


async def test_a_client_that_saw_more_than_there_is_goes_on_from_the_end(
    agent: Any, client: httpx2.AsyncClient
) -> None:
    async with follow(client, headers={"Last-Event-ID": "99"}) as reader:
        agent.grow(events.ConversationCompleted())
        assert (await reader.event())["id"] == "7"


async def test_at_the_end_it_waits(agent: Any, client: httpx2.AsyncClient) -> None:
    async with follow(client, "?after=6") as reader:
        agent.grow(events.ConversationCompleted())
        assert (await reader.event())["id"] == "7"


async def test_stored_events_are_sent_in_few_chunks(agent: Any, raw: Any) -> None:
    """A replay of thousands of events costs a send for each stretch of them, and no fold."""
    for number in range(2000):
        agent.grow(events.MessageAdded(f"message {number}", "c"))
    stream = await raw(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    received = b""
    while f"\nid: {len(agent.log)}\n".encode() not in received:
        received += await stream.receive_some(2**20)
    assert all(f"\nid: {seq}\n".encode() in received for seq in range(1, len(agent.log)))
    chunks = len(re.findall(rb"\r\n[0-9A-Fa-f]+\r\n", received))
    assert chunks <= len(received) // STRETCH + len(received) // PIECE + 2  # a stretch may end within a piece
    assert agent.calls == []


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("?after=x", {}),
        ("?after=-1", {}),
        ("?after=7", {}),
        ("?after=99999999999999999999", {}),
        ("?after=1&after=2", {}),
        ("?afer=1", {}),
        ("", {"Last-Event-ID": "x"}),
        ("", {"Last-Event-ID": ""}),
    ],
)
async def test_a_wrong_query_or_cursor_is_400(
    client: httpx2.AsyncClient, query: str, headers: dict[str, str]
) -> None:
    answer = await client.get(PATH + query, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_it_ends_with_the_conversation(agent: Any, client: httpx2.AsyncClient) -> None:
    async with follow(client, "?after=6") as reader:
        agent.publish(NewEvent(events.CONVERSATION_DELETED, {}))
        assert (await reader.event())["event"] == "conversation.deleted"
        assert await reader.block() is None


async def test_it_ends_when_the_server_begins_to_stop(
    agent: Any, server: HttpServer, client: httpx2.AsyncClient
) -> None:
    async with follow(client, "?after=6") as reader, trio.open_nursery() as nursery:
        await reader.block()
        nursery.start_soon(server.drain)
        await trio.testing.wait_all_tasks_blocked(0.02)
        agent.draining.set()
        assert await reader.block() is None
    assert agent.following == 0


async def test_silence_is_filled_with_comments(
    client: httpx2.AsyncClient, mock_clock: trio.testing.MockClock
) -> None:
    async with follow(client, "?after=6") as reader:
        await reader.block()
        for _ in range(20):
            await trio.testing.wait_all_tasks_blocked(0.01)
            mock_clock.jump(HEARTBEAT)
            assert await reader.block() == {"": "keep-alive"}


async def test_disconnected_client_is_unsubscribed(agent: Any, client: httpx2.AsyncClient) -> None:
    for after in (0, 3, 6):
        async with follow(client, f"?after={after}") as reader:
            await reader.block()
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert agent.following == 1
        while agent.following:
            await trio.testing.wait_all_tasks_blocked(0.01)
    assert (await client.get("/health")).status_code == 200


async def test_a_client_that_stops_reading_is_closed(
    agent: Any, raw: Any, mock_clock: trio.testing.MockClock
) -> None:
    for _ in range(200):
        agent.grow(events.MessageAdded("x" * 100_000, "c"))
    await raw(f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert agent.following == 1
    assert agent.told < len(agent.log)  # what it does not take waits in the journal, not in memory
    mock_clock.jump(SEND_TIMEOUT + 1)
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert agent.following == 0


async def test_a_fault_ends_the_stream_and_is_in_the_log(
    agent: Any, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    agent.raises["events"] = RuntimeError("secret details")
    async with follow(client, "?after=5") as reader:
        assert (await reader.event())["id"] == "6"
        assert await reader.block() is None
    assert any("internal error id=" in record.getMessage() for record in caplog.records)


async def test_deletion_in_between_is_no_fault(
    agent: Any, client: httpx2.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    agent.raises["events"] = AgentError("conversation_not_found", "there is no such conversation")
    async with follow(client, "?after=6") as reader:
        assert await reader.block() == {"retry": "1000"}
        assert await reader.block() is None
    assert not [record for record in caplog.records if record.exc_info]


async def test_deltas_are_optional_and_have_no_id(agent: Any, client: httpx2.AsyncClient) -> None:
    where = (ex.CONVERSATION_ID, 6, "1/:2", "agent", "fast", 2)
    agent.deltas = [
        ModelDelta(*where, TextDelta("Hel\nlo")),
        ModelDelta(*where, ArgumentsDelta(1, "resources_add", '{"na')),
    ]
    said = {
        "type": "model.delta",
        "conversation_id": ex.CONVERSATION_ID,
        "key": "1/:2",
        "node": "agent",
        "model": "fast",
        "attempt": 2,
    }
    async with follow(client, "?after=5&deltas=true") as reader:
        seen = [await reader.event() for _ in range(3)]
        assert seen[0]["id"] == "6"
        assert seen[1] == {"event": "model.delta", "data": {**said, "text": "Hel\nlo"}}
        call = {"index": 1, "name": "resources_add", "json": '{"na'}
        assert seen[2] == {"event": "model.delta", "data": {**said, "call": call}}
        for data in (seen[1]["data"], seen[2]["data"]):
            jsonschema.validate(data, strict("Delta"))
    for query in ("?after=5", "?after=5&deltas=false"):
        async with follow(client, query) as reader:
            assert (await reader.event())["id"] == "6"
            agent.grow(events.ConversationCompleted())
            assert (await reader.event())["event"] == "conversation.completed"
            agent.log.pop()


async def test_progress_comes_with_the_deltas(agent: Any, client: httpx2.AsyncClient) -> None:
    where = (ex.CONVERSATION_ID, 6, "1/:2.0", 1, "agent", "index", "files")
    agent.deltas = [
        ToolProgress(*where, Progress(3, 10.5, "half a\nway")),
        ToolProgress(*where, Progress(4)),
    ]
    said = {
        "type": "tool.progress",
        "conversation_id": ex.CONVERSATION_ID,
        "key": "1/:2.0",
        "node": "agent",
        "tool": "index",
        "server": "files",
        "attempt": 1,
    }
    async with follow(client, "?after=5&deltas=true") as reader:
        seen = [await reader.event() for _ in range(3)]
    data = {**said, "progress": 3, "total": 10.5, "message": "half a\nway"}
    assert seen[1:] == [
        {"event": "tool.progress", "data": data},
        {"event": "tool.progress", "data": {**said, "progress": 4}},
    ]
    for frame in seen[1:]:
        jsonschema.validate(frame["data"], strict("Progress"))


async def test_deltas_are_true_or_false(client: httpx2.AsyncClient) -> None:
    answer = await client.get(f"{PATH}?deltas=yes")
    assert (answer.status_code, answer.json()["field"]) == (400, "deltas")
