"""Websockets through the proxy: frames, refusals and close codes of the agent, and an agent that is lost."""

import json
import struct
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha1
from typing import Any

import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, WebSocketConnection, wrap_client_stream

from stopgo.actors.common.errors import AgentError
from stopgo.actors.log.words import events
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_server import HttpServer
from stopgo.gateway.proxy import upstream, upstream_socket
from stopgo.runtime.journal.protocol import NewEvent
from tests.contract import HANDSHAKE
from tests.gateway.proxy.conftest import Proxied, Told, proxy_to

PATH = f"/conversations/{ex.CONVERSATION_ID}/ws"


@pytest.fixture
async def before(server: HttpServer) -> AsyncIterator[Proxied]:
    """The proxy in front of the agent whose events the test decides."""
    async with proxy_to(server.url) as opened:
        yield opened


@asynccontextmanager
async def socket(server: HttpServer, path: str) -> AsyncIterator[WebSocketConnection]:
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream, trio.open_nursery() as nursery:
        connection = await wrap_client_stream(nursery, stream, f"127.0.0.1:{server.port}", path)
        yield connection
        await connection.aclose()


async def frames(connection: WebSocketConnection, many: int) -> list[dict[str, Any]]:
    return [json.loads(await connection.get_message()) for _ in range(many)]


async def read_on(connection: WebSocketConnection) -> None:
    while True:
        await connection.get_message()


async def close_of(connection: WebSocketConnection) -> tuple[int, str | None]:
    with pytest.raises(ConnectionClosed) as caught:
        await read_on(connection)
    assert caught.value.reason is not None
    return caught.value.reason.code, caught.value.reason.reason


async def test_frames_come_as_they_are_stored(agent: Any, before: Proxied) -> None:
    async with socket(before.server, f"{PATH}?after=4&deltas=true") as connection:
        seen = await frames(connection, 2)
        agent.grow(events.ConversationCompleted())
        seen += await frames(connection, 1)
    assert [each["seq"] for each in seen] == [5, 6, 7]


async def test_events_of_all_conversations_come_over_a_socket(real: Proxied) -> None:
    async with socket(real.server, "/events/ws") as connection:
        await real.client.post("/conversations", json={"message": "hi"})
        [first] = await frames(connection, 1)
    assert first["type"] == "conversation.created"


async def test_a_close_code_of_the_agent_is_passed_on(agent: Any, before: Proxied) -> None:
    async with socket(before.server, f"{PATH}?after=6") as connection:
        agent.publish(NewEvent(events.CONVERSATION_DELETED, {}))
        assert await close_of(connection) == (1000, "conversation deleted")


async def test_stopping_agent_closes_with_1001(server: HttpServer, before: Proxied) -> None:
    async with socket(before.server, f"{PATH}?after=6") as connection, trio.open_nursery() as nursery:
        nursery.start_soon(server.drain)
        assert await close_of(connection) == (1001, "shutting down")
        nursery.cancel_scope.cancel()


async def test_stopping_proxy_closes_with_1001(before: Proxied) -> None:
    async with socket(before.server, f"{PATH}?after=6") as connection, trio.open_nursery() as nursery:
        nursery.start_soon(before.server.drain)
        assert await close_of(connection) == (1001, "shutting down")
        await connection.aclose()


async def test_a_failure_has_its_close_code(agent: Any, before: Proxied) -> None:
    agent.raises["events"] = AgentError("conversation_broken", "it is damaged")
    async with socket(before.server, f"{PATH}?after=6") as connection:
        assert await close_of(connection) == (1011, "conversation_broken")


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"{PATH}?after=7", 400, "invalid_request"),
        (f"{PATH}?afer=7", 400, "invalid_request"),
        ("/conversations/other/ws", 404, "conversation_not_found"),
    ],
)
async def test_a_refusal_of_the_agent_is_passed_on(
    server: HttpServer, before: Proxied, path: str, status: int, code: str
) -> None:
    refusals = []
    for url in (server.url, before.server.url):
        answer = await before.client.get(f"{url}{path}", headers=HANDSHAKE)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["connection"] == "close"
        refusals.append(answer.json())
    assert refusals[0] == refusals[1]


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
)


@pytest.mark.parametrize(
    ("answer", "status", "code"),
    [
        (b"", 502, "agent_unreachable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 502, "agent_unreachable"),
        (
            b"HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 0\r\n\r\n",
            502,
            "agent_unreachable",
        ),
        (b"HTTP/1.1 401 No\r\nContent-Length: 2\r\n\r\nno", 401, "unauthorized"),
        (b"HTTP/1.1 599 No\r\nContent-Length: 0\r\n\r\n", 599, "refused"),
        (ACCEPTED + b"x\r\n\r\n", 502, "agent_unreachable"),
        (b"SSH-2.0\r\n\r\n", 502, "agent_unreachable"),
    ],
)
async def test_what_is_no_websocket_of_an_agent(
    told: Told,
    proxied: Proxied,
    answer: bytes,
    status: int,
    code: str,
) -> None:
    told.answer = answer
    refused = await proxied.client.get("/events/ws", headers=HANDSHAKE)
    assert (refused.status_code, refused.json()["code"]) == (status, code)


async def test_an_agent_that_is_not_there() -> None:
    sock = trio.socket.socket()
    await sock.bind(("127.0.0.1", 0))  # nobody listens there
    async with proxy_to(f"http://127.0.0.1:{sock.getsockname()[1]}") as proxied:
        refused = await proxied.client.get("/events/ws", headers=HANDSHAKE)
    assert (refused.status_code, refused.json()["code"]) == (502, "agent_unreachable")
    sock.close()


class Sockets:
    """An agent that sends given bytes over each websocket, and then disconnects or falls silent."""

    def __init__(self, data: bytes, *, stays: bool = False) -> None:
        self.data = data
        self.stays = stays
        self.left = trio.Event()
        self.headers: dict[str, str] = {}

    async def converse(self, stream: trio.SocketStream) -> None:
        async with stream:
            data = b""
            while not data.endswith(b"\r\n\r\n"):
                data += await stream.receive_some()
            for line in data.decode().split("\r\n")[1:]:
                name, _, value = line.partition(": ")
                self.headers[name.lower()] = value
            key = self.headers["sec-websocket-key"].encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            await stream.send_all(ACCEPTED + b64encode(sha1(key).digest()) + b"\r\n\r\n" + self.data)
            if self.stays:
                while await stream.receive_some():
                    pass
        self.left.set()


@asynccontextmanager
async def before_sockets(agent: Sockets) -> AsyncIterator[Proxied]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, agent.converse, [listener])
        async with proxy_to(f"http://127.0.0.1:{port}") as proxied:
            yield proxied
        nursery.cancel_scope.cancel()


def close_frame(code: int, reason: bytes = b"") -> bytes:
    return struct.pack("!BBH", 0x88, 2 + len(reason), code) + reason


TEXT = b"\x81\x02{}"


@pytest.mark.parametrize(
    ("data", "closed"),
    [
        pytest.param(TEXT, upstream_socket.LOST, id="cut off"),
        pytest.param(TEXT + TEXT[:2], upstream_socket.LOST, id="cut off in a frame"),
        pytest.param(TEXT + b"\x88\x00", upstream_socket.LOST, id="closed without a code"),
        pytest.param(TEXT + close_frame(1013, b"later"), (1013, "later"), id="closed with a code"),
        pytest.param(TEXT + close_frame(4001), (4001, ""), id="closed with a code of its own"),
        pytest.param(TEXT + b"\xff", upstream_socket.LOST, id="what is no frame"),
    ],
)
async def test_the_end_of_a_socket(data: bytes, closed: tuple[int, str]) -> None:
    async with before_sockets(Sockets(data)) as proxied, socket(proxied.server, "/events/ws") as connection:
        code, reason = await close_of(connection)
    assert (code, reason or "") == closed


async def test_an_agent_that_falls_silent_is_lost(mock_clock: MockClock) -> None:
    agent = Sockets(TEXT, stays=True)
    async with before_sockets(agent) as proxied, socket(proxied.server, "/events/ws") as connection:
        await connection.get_message()
        mock_clock.autojump_threshold = 0.0
        assert await close_of(connection) == upstream_socket.LOST
        await agent.left.wait()
    assert trio.current_time() >= upstream.SILENCE


async def test_disconnected_client_closes_the_agent_socket() -> None:
    agent = Sockets(TEXT, stays=True)
    async with before_sockets(agent) as proxied:
        async with socket(proxied.server, "/events/ws") as connection:
            await connection.get_message()
        await agent.left.wait()


async def test_a_handshake_has_no_more_headers_than_a_request() -> None:
    agent = Sockets(TEXT)
    async with before_sockets(agent) as proxied:
        await proxied.client.get(
            "/events/ws",
            headers={
                **HANDSHAKE,
                "Origin": proxied.server.url,
                "Cookie": "a=b",
                "Authorization": "Bearer t",
                "Sec-Fetch-Site": "same-origin",
            },
        )
    assert agent.headers["authorization"] == "Bearer t"
    assert {"origin", "cookie", "sec-fetch-site"}.isdisjoint(agent.headers)
