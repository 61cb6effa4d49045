"""The answers after which the server closes the connection. A client that keeps connections has to know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from stopgo.gateway.http import body, request_task
from stopgo.gateway.http.http_server import HttpServer, bind, open_server
from tests.contract import HANDSHAKE

Raw = Callable[[bytes], Awaitable[trio.SocketStream]]

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def get(path: str, *, host: str = "localhost", version: str = "1.1", **headers: str) -> bytes:
    lines = [f"GET {path} HTTP/{version}", f"Host: {host}", *(f"{name}: {headers[name]}" for name in headers)]
    return "\r\n".join([*lines, "", ""]).encode()


def handshake(path: str = "/events/ws", *, host: str = "localhost", **changed: str) -> bytes:
    return get(path, host=host, **(HANDSHAKE | changed))


def post(content: bytes, length: int | None = None) -> bytes:
    size = len(content) if length is None else length
    return b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size + content


LAST = {
    "handshake with a wrong filter": (handshake("/events/ws?after=1"), 400),
    "handshake for an unknown conversation": (handshake("/conversations/other/ws"), 404),
    "handshake for a path that is no websocket": (handshake("/health"), 400),
    "handshake for a path that does not exist": (handshake("/nope"), 404),
    "handshake for another host": (handshake(host="other.example"), 421),
    "handshake from another site": (handshake(Origin="http://other.example"), 403),
    "handshake of another version": (handshake(**{"Sec-WebSocket-Version": "12"}), 426),
    "handshake with a bad key": (handshake(**{"Sec-WebSocket-Key": "x"}), 400),
    "handshake with a body": (handshake(**{"Content-Length": "2"}) + b"{}", 400),
    "no HTTP": (b"no HTTP\r\n\r\n", 400),
    "another version of HTTP": (get("/health", version="2.0"), 505),
    "older version of HTTP": (get("/health", version="1.0"), 200),
    "client asks for it": (get("/health", Connection="close"), 200),
    "body that does not arrive, and is not read": (post(b"", 2).replace(b"conversations", b"nope"), 404),
    "body that does not arrive in time": (post(b"", 2), 408),
    "body that is too large to be read": (post(bytes(11), 2**40), 413),
}
NOT_LAST = {
    "answer": (HEALTH, 200),
    "wrong filter": (get("/events?after=1"), 400),
    "path that does not exist": (get("/nope"), 404),
    "websocket without a handshake": (get("/events/ws"), 426),
    "another host": (get("/health", host="other.example"), 421),
    "wrong body": (post(b"[]"), 400),
    "body that is too large": (post(bytes(10)), 413),
}


async def answer_of(stream: trio.SocketStream) -> tuple[int, bytes]:
    """Status and head of the answer, without its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = await stream.receive_some()
        assert chunk
        data += chunk
    head, _, rest = data.lower().partition(b"\r\n\r\n")
    lengths = [line for line in head.split(b"\r\n") if line.startswith(b"content-length: ")]
    missing = int(lengths[0].split()[1]) - len(rest)
    while missing:
        chunk = await stream.receive_some(missing)
        assert chunk
        missing -= len(chunk)
    return int(head.split()[1]), head


async def has_ended(stream: trio.SocketStream) -> bool:
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:  # the request was not read to its end
        return True


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No body is waited for, and few bytes are read."""
    monkeypatch.setattr(request_task, "BODY_GRACE", 0.0)
    monkeypatch.setattr(request_task, "BODY_TIMEOUT", 0.0)
    monkeypatch.setattr(body, "MAX_DISCARDED", 10)
    monkeypatch.setattr(body, "MAX_BODY", 9)


@pytest.mark.parametrize(("asked", "status"), LAST.values(), ids=LAST.keys())
async def test_last_answer_of_a_connection_says_so(
    raw: Raw, impatient: None, asked: bytes, status: int
) -> None:
    stream = await raw(asked)
    found, head = await answer_of(stream)
    assert found == status
    assert head.count(b"\r\nconnection: close") == 1
    assert await has_ended(stream)


@pytest.mark.parametrize(("asked", "status"), NOT_LAST.values(), ids=NOT_LAST.keys())
async def test_connection_is_kept_after_any_other_answer(
    raw: Raw, monkeypatch: pytest.MonkeyPatch, asked: bytes, status: int
) -> None:
    monkeypatch.setattr(body, "MAX_BODY", 9)
    stream = await raw(asked)
    found, head = await answer_of(stream)
    assert found == status
    assert b"connection: close" not in head
    await stream.send_all(HEALTH)
    assert (await answer_of(stream))[0] == 200


async def test_answer_while_the_server_stops_says_close(server: HttpServer, raw: Raw, agent: Any) -> None:
    agent.gate = trio.Event()
    stream = await raw(post(b'{"message":"hey"}'))
    await trio.testing.wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.drain)
        await trio.testing.wait_all_tasks_blocked()
        agent.gate.set()
        status, head = await answer_of(stream)
        assert (status, head.count(b"connection: close")) == (201, 1)
        assert await has_ended(stream)


@pytest.mark.parametrize("asked", [HEALTH, handshake()], ids=["request", "handshake"])
async def test_answer_for_an_application_that_failed_says_close(asked: bytes) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("boom")

    async with (
        open_server(app, bind("127.0.0.1", 0)) as server,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stream,
    ):
        await stream.send_all(asked)
        status, head = await answer_of(stream)
        assert (status, head.count(b"connection: close")) == (500, 1)
        assert await has_ended(stream)
