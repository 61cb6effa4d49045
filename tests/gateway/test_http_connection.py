"""Connections of clients that behave, in every way that HTTP allows."""

import gc
import logging
import re
from contextlib import suppress
from typing import Any, cast

import httpx2
import pytest
import trio

from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_connection import MAX_RECEIVED, ClientConnection
from stopgo.gateway.http.http_server import MAX_HEAD, bind, open_server
from stopgo.gateway.http.request_task import MAX_QUEUED, MAX_UNWANTED, RequestTask

HEALTHY = b'{"status":"ok","policy":"5feceb66ffc86f38"}\n'
POST = b"POST /conversations HTTP/1.1\r\nHost: localhost\r\n"


async def read(stream: trio.SocketStream, *ends: bytes) -> bytes:
    """What comes up to and with the last of these, each after the one before."""
    data, at = b"", 0
    for end in ends:
        while (found := data.find(end, at)) < 0:
            chunk = await stream.receive_some()
            assert chunk
            data += chunk
        at = found + len(end)
    assert len(data) == at
    return data


@pytest.mark.parametrize("path", ["/health", "/nope", f"/conversations/{ex.CONVERSATION_ID}"])
async def test_an_answer_is_one_write(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    written: list[bytes] = []
    write_now = ClientConnection._write_now

    def recorded(self: ClientConnection, data: bytes) -> bytes:
        written.append(data)
        return write_now(self, data)

    monkeypatch.setattr(ClientConnection, "_write_now", recorded)
    answer = await client.get(path)
    assert len(written) == 1
    assert written[0].endswith(answer.content)


async def test_requests_sent_at_once_are_answered_in_their_order(raw: Any) -> None:
    asked = b"".join(f"GET /nope{n} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for n in range(20))
    stream = await raw(
        asked + POST + b"Content-Length: 2\r\n\r\n{}" + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    said = await read(stream, *(f"/nope{n}".encode() for n in range(20)), b" 201 ", HEALTHY)
    assert re.findall(rb"HTTP/1.1 (\d+)", said) == [b"404"] * 20 + [b"201", b"200"]


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        (b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 200),
        (b"no HTTP\r\n\r\n", 400),
    ],
)
async def test_closed_connection_logs_no_error(
    raw: Any, caplog: pytest.LogCaptureFixture, asked: bytes, status: int
) -> None:
    for _ in range(3):
        stream = await raw(asked)
        answer = b"".join([chunk async for chunk in stream])
        assert answer.startswith(b"HTTP/1.1 %d " % status)
        await trio.testing.wait_all_tasks_blocked()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_client_may_ask_before_it_sends_a_body(raw: Any, agent: Any) -> None:
    stream = await raw(POST + b"Content-Length: 17\r\nExpect: 100-continue\r\n\r\n")
    assert (await read(stream, b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
    await stream.send_all(b'{"message":"hey"}')
    await read(stream, b"HTTP/1.1 201 ", b"}\n")
    assert agent.calls[-1][1] == ("hey",)


async def test_a_body_may_come_byte_by_byte(raw: Any, agent: Any) -> None:
    stream = await raw(POST + b"Transfer-Encoding: chunked\r\n\r\n")
    for byte in b'{"message":"hey"}':
        await stream.send_all(b"1\r\n%c\r\n" % byte)
        await trio.testing.wait_all_tasks_blocked()
    await stream.send_all(b"0\r\n\r\n")
    await read(stream, b"HTTP/1.1 201 ", b"}\n")
    assert agent.calls[-1][1] == ("hey",)


async def test_a_head_may_come_in_pieces(raw: Any) -> None:
    stream = await raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: ")
    for _ in range(6):
        await stream.send_all(b"x" * 10_000)
        await trio.testing.wait_all_tasks_blocked()
    await stream.send_all(b"\r\n\r\n")
    assert (await read(stream, HEALTHY)).startswith(b"HTTP/1.1 200 ")


async def test_oversized_head_is_refused_however_it_is_split(raw: Any) -> None:
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Large: " + b"x" * MAX_HEAD + b"\r\n\r\n"
    for size in (len(head), 10_000):
        stream = await raw(b"")
        for at in range(0, len(head), size):
            await stream.send_all(head[at : at + size])
            await trio.testing.wait_all_tasks_blocked()
        answer = await read(stream, b'"request_header_fields_too_large"}\n')
        assert answer.startswith(b"HTTP/1.1 431 ")


async def test_unread_body_is_discarded(raw: Any) -> None:
    size = 4 * MAX_QUEUED * MAX_RECEIVED
    stream = await raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
    await stream.send_all(b"x" * size + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await read(stream, HEALTHY, HEALTHY)


async def test_unread_body_is_discarded_up_to_a_bound(raw: Any) -> None:
    stream = await raw(b"POST /nope HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % 2**40)
    sent = 0
    with suppress(trio.BrokenResourceError):
        while sent < 16 * MAX_UNWANTED:
            await stream.send_all(b"x" * 2**20)
            sent += 2**20
    assert MAX_UNWANTED <= sent < 2 * MAX_UNWANTED


async def test_a_body_with_two_lengths_is_refused_with_all_that_follows(raw: Any, agent: Any) -> None:
    stream = await raw(
        POST
        + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        + b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    )
    answer = await stream.receive_some()
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"connection: close" in answer.lower()
    assert HEALTHY not in answer
    with suppress(trio.BrokenResourceError):  # what was not read resets it
        assert await stream.receive_some() == b""
    assert not agent.calls


async def test_http_2_is_not_spoken(raw: Any, caplog: pytest.LogCaptureFixture) -> None:
    stream = await raw(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    answer = b"".join([chunk async for chunk in stream])
    assert answer.startswith(b"HTTP/1.1 505 ")
    assert b"connection: close" in answer.lower()
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_client_that_would_like_http_2_is_answered_as_it_asked(raw: Any) -> None:
    stream = await raw(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\n"
        b"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    )
    assert (await read(stream, HEALTHY)).startswith(b"HTTP/1.1 200 ")
    await stream.send_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await read(stream, HEALTHY)


async def test_requests_and_connections_make_no_reference_cycles(raw: Any) -> None:
    """It stops everything while it looks, and with many clients looks through all that they wait for."""

    gc.collect()
    of_other_tests = [each for each in gc.get_objects() if type(each) in (RequestTask, ClientConnection)]
    known = set(map(id, of_other_tests))

    def left(kind: type) -> int:
        return sum(type(each) is kind and id(each) not in known for each in gc.get_objects())

    gc.disable()
    try:
        stream = await raw(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await read(stream, HEALTHY)
        await trio.testing.wait_all_tasks_blocked()
        assert (left(RequestTask), left(ClientConnection)) == (0, 1)
        await stream.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert left(ClientConnection) == 0
    finally:
        gc.enable()


async def test_an_application_that_fails_holds_up_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await trio.testing.wait_all_tasks_blocked()
        raise RuntimeError("boom")

    size = 4 * MAX_QUEUED * MAX_RECEIVED
    async with open_server(app, bind("127.0.0.1", 0)) as server:
        serving = trio.lowlevel.current_statistics().tasks_living
        async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
            await stream.send_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % size)
            with suppress(trio.BrokenResourceError):
                await stream.send_all(b"x" * size)
        await trio.testing.wait_all_tasks_blocked(0.02)
        assert trio.lowlevel.current_statistics().tasks_living == serving
    assert any("the application failed" in record.getMessage() for record in caplog.records)


async def test_client_gone_before_accept_is_ignored() -> None:
    async with trio.SocketStream(trio.socket.socket()) as never_connected:
        nothing = cast(Any, None)
        await ClientConnection(nothing, nothing, nothing, never_connected).run()
