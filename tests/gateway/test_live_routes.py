"""Websockets and the stream of all conversations, in front of an agent whose events the test decides."""

import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import httpx2
import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words import events
from stopgo.actors.log.words.deltas import ModelDelta
from stopgo.actors.models.messages.messages import TextDelta
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_connection import ClientConnection
from stopgo.gateway.http.http_protocol import HEARTBEAT_INTERVAL
from stopgo.gateway.http.http_server import HttpServer
from stopgo.runtime.journal.protocol import NewEvent
from tests.contract import HANDSHAKE

pytestmark = pytest.mark.repeat(3)

PATH = f"/conversations/{ex.CONVERSATION_ID}/ws"


@asynccontextmanager
async def socket(server: HttpServer, path: str) -> AsyncIterator[WebSocketConnection]:
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream, trio.open_nursery() as nursery:
        connection = await wrap_client_stream(nursery, stream, f"127.0.0.1:{server.port}", path)
        yield connection
        await connection.aclose()


async def frames(connection: WebSocketConnection, many: int) -> list[dict[str, Any]]:
    return [json.loads(await connection.get_message()) for _ in range(many)]


async def close_of(connection: WebSocketConnection) -> tuple[int, str | None]:
    with pytest.raises(ConnectionClosed) as caught:
        await connection.get_message()
    assert caught.value.reason is not None
    return caught.value.reason.code, caught.value.reason.reason


async def test_stored_events_precede_live_events(agent: Any, server: HttpServer) -> None:
    agent.deltas = [ModelDelta(ex.CONVERSATION_ID, 6, "1/:2", "agent", "fast", 1, TextDelta("Hel"))]
    async with socket(server, f"{PATH}?after=4&deltas=true") as connection:
        seen = await frames(connection, 3)
        agent.deltas = []
        agent.grow(events.ConversationCompleted())
        seen += await frames(connection, 1)
    assert [each.get("seq") for each in seen] == [5, 6, None, 7]
    assert (seen[2]["type"], seen[2]["text"]) == ("model.delta", "Hel")


async def test_the_same_frames_come_as_server_sent_events(
    agent: Any, server: HttpServer, client: httpx2.AsyncClient
) -> None:
    async with socket(server, PATH) as connection, socket(server, "/events/ws") as every:
        seen, watched = await frames(connection, 6), await frames(every, 6)
    for path, expected in ((f"/conversations/{ex.CONVERSATION_ID}/events", seen), ("/events", watched)):
        data = []
        async with client.stream("GET", path) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    data.append(json.loads(line.removeprefix("data: ")))
                if len(data) == 6:
                    break
        assert data == expected
    assert watched == [{**each, "status": "waiting_approval"} for each in seen]


async def test_a_deleted_conversation_ends_with_its_last_frame(agent: Any, server: HttpServer) -> None:
    async with socket(server, f"{PATH}?after=6") as connection:
        agent.publish(NewEvent(events.CONVERSATION_DELETED, {}))
        [last] = await frames(connection, 1)
        assert (last["type"], last["seq"]) == ("conversation.deleted", 7)
        assert await close_of(connection) == (1000, "conversation deleted")


@pytest.mark.parametrize(
    ("error", "code", "reason"),
    [
        (partial(AgentError, "conversation_not_found", "it was deleted"), 1000, "conversation deleted"),
        (partial(AgentError, "conversation_broken", "it is damaged"), 1011, "conversation_broken"),
        (partial(RuntimeError, "secret"), 1011, "internal error "),
    ],
)
async def test_a_failure_is_a_close_code(
    agent: Any, server: HttpServer, error: Callable[[], Exception], code: int, reason: str
) -> None:
    agent.raises["events"] = error()
    async with socket(server, f"{PATH}?after=6") as connection:
        closed = await close_of(connection)
    assert closed[0] == code
    assert str(closed[1]).startswith(reason)
    assert "secret" not in str(closed[1])


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{PATH}?after=7", 400, "invalid_request"),
        (f"{PATH}?afer=7", 400, "invalid_request"),
        ("/conversations/other/ws", 404, "conversation_not_found"),
        ("/events/ws?type=run", 400, "invalid_request"),
        ("/events/ws?status=busy", 400, "invalid_request"),
    ],
)
async def test_mistakes_are_refused_before_the_handshake(
    agent: Any, client: httpx2.AsyncClient, path: str, status: int, code: str
) -> None:
    answer = await client.get(path, headers=HANDSHAKE)
    assert (answer.status_code, answer.json()["code"]) == (status, code)


async def test_a_silent_socket_has_a_heartbeat(
    agent: Any, server: HttpServer, autojump_clock: MockClock
) -> None:
    async with socket(server, f"{PATH}?after=6") as connection:
        begun = trio.current_time()
        for _ in range(3):
            assert await frames(connection, 1) == [{"type": "heartbeat"}]
        assert 3 * HEARTBEAT_INTERVAL <= trio.current_time() - begun <= 3 * (HEARTBEAT_INTERVAL + 1)


@pytest.fixture
def slow_close(monkeypatch: pytest.MonkeyPatch) -> list[ClientConnection]:
    """The connections whose end has begun. It takes a while, in which the server still knows them."""
    ended: list[ClientConnection] = []
    close = ClientConnection._close

    async def slowly(self: ClientConnection) -> None:
        ended.append(self)
        for _ in range(5):
            await trio.testing.wait_all_tasks_blocked()
        await close(self)

    monkeypatch.setattr(ClientConnection, "_close", slowly)
    return ended


async def test_heartbeat_after_disconnect_is_harmless(
    agent: Any, server: HttpServer, slow_close: list[ClientConnection]
) -> None:
    async with socket(server, f"{PATH}?after=6"):
        pass
    while len(slow_close) < 2:  # when the protocol ends, and when the connection does
        await trio.testing.wait_all_tasks_blocked()
    connection = slow_close[-1]
    connection.beats_at = 0.0
    connection.beat()  # as the timer of the server does
    assert connection.beats_at == math.inf


async def test_frames_after_a_refused_handshake_are_discarded(
    agent: Any, raw: Any, slow_close: list[ClientConnection], caplog: pytest.LogCaptureFixture
) -> None:
    lines = [f"{name}: {value}" for name, value in {**HANDSHAKE, "Host": "localhost"}.items()]
    stream = await raw("\r\n".join(["GET /conversations/other/ws HTTP/1.1", *lines, "", ""]).encode())
    assert (await stream.receive_some()).startswith(b"HTTP/1.1 404")
    assert slow_close
    await stream.send_all(b"\x89\x80\0\0\0\0" * 100)
    with suppress(trio.BrokenResourceError):
        assert await stream.receive_some() == b""
    assert "a connection failed" not in caplog.text


async def test_stopping_server_closes_with_1001(agent: Any, server: HttpServer) -> None:
    async with socket(server, f"{PATH}?after=6") as one, socket(server, "/events/ws") as every:
        await frames(every, 6)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.drain)
            assert await close_of(one) == (1001, "shutting down")
            assert await close_of(every) == (1001, "shutting down")
    assert agent.following == 0
