"""Connections of misbehaving clients, and the stop of the server."""

import contextlib
import logging
import math
import resource
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
import trio
from quart import Response, websocket
from quart_trio import QuartTrio

from stopgo.gateway.http import http_connection as module
from stopgo.gateway.http import http_server
from stopgo.gateway.http.http_connection import HEAD_TIMEOUT, KEEP_ALIVE, SEND_TIMEOUT
from stopgo.gateway.http.http_server import PATIENCE, BindError, HttpServer, bind, open_server
from stopgo.gateway.http.request_task import BODY_GRACE, PIECE, RequestTask
from tests.http_client import http_client

pytestmark = pytest.mark.repeat(5)

UPGRADE = (
    b"GET %s HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
MEGABYTE = b"x" * 1024 * 1024
LARGE = 32
SPOONFUL = 4 * len(MEGABYTE)
"""More bytes than the system buffers for a client that does not read."""


class Probe:
    """An application whose routes misbehave."""

    def __init__(self) -> None:
        self.sent = 0
        self.left: list[str] = []
        self.go = trio.Event()
        self.app = QuartTrio(__name__, static_folder=None)
        self.app.config["RESPONSE_TIMEOUT"] = None
        self.app.add_url_rule("/quick", view_func=self.quick)
        self.app.add_url_rule("/slow", view_func=self.slow)
        self.app.add_url_rule("/large", view_func=self.large)
        self.app.add_url_rule("/flood", view_func=self.flood)
        self.app.add_url_rule("/spin", view_func=self.spin)
        self.app.add_url_rule("/begun", view_func=self.begun)
        self.app.websocket("/socket")(self.socket)
        self.app.websocket("/listening")(self.listening)

    async def quick(self) -> str:
        return "quick"

    async def slow(self) -> str:
        await self.go.wait()
        return "slow"

    async def large(self) -> Response:
        return Response(LARGE * MEGABYTE)

    async def flood(self) -> Response:
        async def body() -> AsyncIterator[bytes]:
            try:
                while True:
                    yield MEGABYTE
                    self.sent += 1
            finally:
                self.left.append("flood")

        return Response(body())

    async def spin(self) -> Response:
        async def body() -> AsyncIterator[bytes]:
            while True:
                yield b"x"
                self.sent += 1

        return Response(body())

    async def begun(self) -> Response:
        async def body() -> AsyncIterator[bytes]:
            yield b"x"
            await self.go.wait()

        return Response(body())

    async def listening(self) -> None:
        await websocket.receive()

    async def socket(self) -> None:
        try:
            while True:
                await websocket.send(MEGABYTE)
                self.sent += 1
        finally:
            self.left.append("socket")


@pytest.fixture
def probe() -> Probe:
    return Probe()


@pytest.fixture
async def server(probe: Probe) -> AsyncIterator[HttpServer]:
    async with open_server(probe.app, bind("127.0.0.1", 0)) as server:
        yield server


Connect = Callable[[bytes], Awaitable[trio.SocketStream]]


@pytest.fixture
def connect(server: HttpServer) -> Connect:
    async def connect(data: bytes) -> trio.SocketStream:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(data)
        return stream

    return connect


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()


async def read_until(stream: trio.SocketStream, end: bytes) -> None:
    read = b""
    while not read.endswith(end):
        chunk = await stream.receive_some()
        assert chunk
        read += chunk


async def settled() -> None:
    await trio.testing.wait_all_tasks_blocked(0.02)


async def test_port_0_is_a_free_port(server: HttpServer) -> None:
    assert server.port > 0
    assert server.url == f"http://127.0.0.1:{server.port}"


def test_an_address_that_is_taken_is_a_clear_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BindError, match=rf"127\.0\.0\.1:{port}: .* in use \(.*; port 0 takes a free one"):
            bind("127.0.0.1", port)


async def test_address_taken_between_bind_and_listen_is_a_bind_error(probe: Probe) -> None:
    sockets = bind("127.0.0.1", 0)
    port = sockets[0].getsockname()[1]
    late = bind("127.0.0.1", port)
    async with open_server(probe.app, sockets):
        with pytest.raises(BindError, match=rf"cannot listen on 127\.0\.0\.1:{port}: Address already in use"):
            async with open_server(probe.app, late):
                pass
    late[0].close()


@pytest.mark.parametrize("host", ["256.256.256.256", "no such host", "x" * 300, "8.8.8.8"])
def test_an_address_that_is_not_ours_is_a_clear_error(host: str) -> None:
    with pytest.raises(BindError, match="cannot listen on") as caught:
        bind(host, 0)
    assert "free one" not in str(caught.value)


def test_every_address_of_a_name_gets_the_same_port() -> None:
    sockets = bind("localhost", 0)
    ports = {sock.getsockname()[1] for sock in sockets}
    for sock in sockets:
        sock.close()
    assert len(ports) == 1


@pytest.mark.parametrize(
    ("host", "families"),
    [("::", {socket.AF_INET6, socket.AF_INET}), ("::1", {socket.AF_INET6}), ("0.0.0.0", {socket.AF_INET})],
)
def test_every_address_means_those_of_ipv4_too(host: str, families: set[socket.AddressFamily]) -> None:
    # The health check of the image asks 127.0.0.1.
    sockets = bind(host, 0)
    found, ports = {sock.family for sock in sockets}, {sock.getsockname()[1] for sock in sockets}
    for sock in sockets:
        sock.close()
    assert (found, len(ports)) == (families, 1)


async def test_requests_in_flight_are_answered_before_it_stops(
    probe: Probe, server: HttpServer, connect: Connect
) -> None:
    async with await connect(get("/slow")) as stream, trio.open_nursery() as nursery:
        await settled()
        nursery.start_soon(server.drain)
        await settled()
        with pytest.raises(OSError, match=r"refused|connect"):
            await trio.open_tcp_stream("127.0.0.1", server.port)
        probe.go.set()
        assert b"200" in await stream.receive_some()
    # The nursery ended, so the server has drained.


@pytest.mark.parametrize("requests", [0, 1, 3])
async def test_idle_connections_do_not_hold_up_the_stop(
    server: HttpServer, connect: Connect, mock_clock: trio.testing.MockClock, requests: int
) -> None:
    async with await connect(b"") as stream:
        for _ in range(requests):
            await stream.send_all(get("/quick"))
            await read_until(stream, b"quick")
        await settled()
        await server.drain()
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("requests", [0, 1, 3])
async def test_idle_connections_are_closed_in_the_end(
    connect: Connect, mock_clock: trio.testing.MockClock, requests: int
) -> None:
    async with await connect(b"") as stream:
        for _ in range(requests):
            await stream.send_all(get("/quick"))
            await read_until(stream, b"quick")
        await settled()
        mock_clock.jump(KEEP_ALIVE + 1)
        assert await stream.receive_some() == b""


async def test_idle_connection_is_kept_as_long_as_the_server_says(
    probe: Probe, mock_clock: trio.testing.MockClock
) -> None:
    async with (
        open_server(probe.app, bind("127.0.0.1", 0), keep_alive=620) as server,
        await trio.open_tcp_stream("127.0.0.1", server.port) as stream,
    ):
        for _ in range(2):
            await stream.send_all(get("/quick"))
            await read_until(stream, b"quick")
            await settled()
            mock_clock.jump(619)
            await settled()
        mock_clock.jump(2)
        assert await stream.receive_some() == b""


async def test_idle_connection_is_closed_at_its_deadline(
    server: HttpServer, connect: Connect, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.jump(0.3)
    async with await connect(b"") as stream:
        await settled()
        serving = trio.lowlevel.current_statistics().tasks_living
        mock_clock.jump(HEAD_TIMEOUT - 0.3)
        await settled()
        mock_clock.jump(0.3)
        for _ in range(100):
            await trio.lowlevel.checkpoint()
        assert trio.lowlevel.current_statistics().tasks_living < serving
        assert await stream.receive_some() == b""


async def test_a_connection_in_use_is_kept(
    probe: Probe, connect: Connect, mock_clock: trio.testing.MockClock
) -> None:
    async with await connect(b"") as stream:
        for _ in range(3):
            await stream.send_all(get("/quick"))
            await read_until(stream, b"quick")
            await settled()
            mock_clock.jump(KEEP_ALIVE - 1)
            await settled()
        await stream.send_all(get("/slow"))
        await settled()
        mock_clock.jump(3 * KEEP_ALIVE)
        await settled()
        probe.go.set()
        await read_until(stream, b"slow")
        await settled()
        mock_clock.jump(KEEP_ALIVE + 1)
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("before", [b"", get("/quick"), get("/quick") * 3])
async def test_a_head_has_a_deadline_however_slowly_it_comes(
    connect: Connect, mock_clock: trio.testing.MockClock, before: bytes
) -> None:
    async with await connect(before) as stream:
        for _ in range(before.count(b"GET")):
            await read_until(stream, b"quick")
        for byte in (b"G", b"E"):
            await stream.send_all(byte)
            await settled()
            mock_clock.jump(HEAD_TIMEOUT * 0.49)
            await settled()
        await stream.send_all(b"T")
        await settled()
        mock_clock.jump(HEAD_TIMEOUT * 0.03)
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("requests", [0, 1, 3])
async def test_idle_connection_ends_when_its_client_disconnects(
    connect: Connect, mock_clock: trio.testing.MockClock, requests: int
) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    async with await connect(b"") as stream:
        for _ in range(requests):
            await stream.send_all(get("/quick"))
            await read_until(stream, b"quick")
        await settled()
        assert trio.lowlevel.current_statistics().tasks_living > tasks
    await settled()
    assert trio.lowlevel.current_statistics().tasks_living == tasks


@pytest.mark.parametrize("path", ["/flood", "/spin"])
async def test_disconnect_with_pipelined_requests_leaks_nothing(
    server: HttpServer, connect: Connect, path: str
) -> None:
    tasks = trio.lowlevel.current_statistics().tasks_living
    stream = await connect(get(path) + get("/quick"))
    await stream.receive_some(100)
    await trio.aclose_forcefully(stream)
    await settled()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    await server.drain()


@pytest.mark.parametrize("request_", [get("/flood"), UPGRADE % b"/socket"], ids=["http", "websocket"])
async def test_a_client_that_stops_reading_is_closed(
    probe: Probe, connect: Connect, mock_clock: trio.testing.MockClock, request_: bytes
) -> None:
    async with await connect(request_):
        await settled()
        stuck_at = probe.sent
        await settled()
        assert probe.sent == stuck_at
        assert not probe.left
        mock_clock.jump(SEND_TIMEOUT + 1)
        await settled()
        assert probe.left


async def test_a_client_that_reads_slowly_is_not(
    connect: Connect, mock_clock: trio.testing.MockClock
) -> None:
    async with await connect(get("/large")) as stream:
        read = 0
        while read < LARGE * len(MEGABYTE):
            chunk = await stream.receive_some()
            assert chunk
            if (read + len(chunk)) // SPOONFUL > read // SPOONFUL:
                await settled()
                mock_clock.jump(SEND_TIMEOUT - 1)
            read += len(chunk)


@pytest.mark.parametrize("request_", [get("/flood"), UPGRADE % b"/socket"], ids=["http", "websocket"])
async def test_a_client_that_stops_reading_cannot_keep_the_server(
    probe: Probe, mock_clock: trio.testing.MockClock, request_: bytes
) -> None:
    """Without the first guard, leaving the block hangs for ever. No time passes here at all."""
    async with open_server(probe.app, bind("127.0.0.1", 0)) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(request_)
        await settled()
    assert probe.left
    await stream.aclose()


@pytest.mark.parametrize("request_", [get("/spin"), UPGRADE % b"/socket"], ids=["http", "websocket"])
async def test_app_that_only_sends_does_not_starve_others(
    server: HttpServer, connect: Connect, caplog: pytest.LogCaptureFixture, request_: bytes
) -> None:
    """Without the second guard nothing runs any more once the client has left."""
    for _ in range(5):
        stream = await connect(request_)
        await stream.receive_some(100)
        await trio.aclose_forcefully(stream)
    async with http_client(verify=False) as client:
        assert (await client.get(f"{server.url}/quick")).status_code == 200
    assert not [record for record in caplog.records if record.exc_info]


async def test_an_answer_that_needs_no_body_does_not_cost_the_connection(
    server: HttpServer, connect: Connect
) -> None:
    async with await connect(b"GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n") as stream:
        await settled()
        await stream.send_all(b"{}")
        await read_until(stream, b"quick")
        await stream.send_all(get("/quick"))
        await read_until(stream, b"quick")


async def test_a_body_that_never_comes_is_not_waited_for_long(
    server: HttpServer, connect: Connect, autojump_clock: trio.testing.MockClock
) -> None:
    async with await connect(b"GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n") as stream:
        await read_until(stream, b"quick")
        assert trio.current_time() == pytest.approx(BODY_GRACE, abs=1)


async def test_a_connection_that_fails_harms_no_other(
    server: HttpServer, connect: Connect, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(self: Any) -> None:
        raise RuntimeError("unforeseen")

    with monkeypatch.context() as patch:
        patch.setattr(module.ClientConnection, "_read", fail)
        async with await connect(get("/quick")) as stream:
            assert await stream.receive_some() == b""
    assert any("a connection failed" in record.getMessage() for record in caplog.records)
    async with await connect(get("/quick")) as stream:
        assert b"200" in await stream.receive_some()


@pytest.mark.parametrize(
    ("request_", "start", "told"),
    [
        (get("/slow"), b"HTTP/1.1 503 ", True),
        (b"GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n", b"HTTP/1.1 503 ", True),
        (get("/begun"), b"HTTP/1.1 200 ", False),
        (UPGRADE % b"/listening", b"HTTP/1.1 101 ", False),
    ],
    ids=["waiting", "waiting for the body", "answered", "websocket"],
)
async def test_exit_closes_open_connections(
    probe: Probe, caplog: pytest.LogCaptureFixture, request_: bytes, start: bytes, told: bool
) -> None:
    caplog.set_level(logging.INFO, logger="stopgo.access")
    async with open_server(probe.app, bind("127.0.0.1", 0)) as server:
        stream = await trio.open_tcp_stream("127.0.0.1", server.port)
        await stream.send_all(request_)
        await settled()
    received = b"".join([chunk async for chunk in stream])
    assert received.startswith(start)
    assert (b'"code": "stopped"' in received) == told
    await stream.aclose()
    lines = [record.getMessage().split() for record in caplog.records if record.name == "stopgo.access"]
    assert [line[:3] for line in lines] == [
        [word.decode() for word in (*request_.split()[:2], start.split()[1])]
    ]


def test_limit_of_open_files_stays_if_the_system_refuses_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("current limit exceeds maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert http_server._allowed_files(8000) == 256


async def test_one_connection_too_many_is_turned_away(
    server: HttpServer, connect: Connect, mock_clock: trio.testing.MockClock
) -> None:
    server.max_connections = 2
    async with await connect(get("/slow")), await connect(get("/slow")) as leaving:
        await settled()
        async with await connect(b"") as refused:
            answer = b"".join([chunk async for chunk in refused])
        assert answer.startswith(b"HTTP/1.1 503")
        assert b"Retry-After: 5" in answer
        assert b'"code": "too_many_connections"' in answer
        await leaving.aclose()
        await settled()
        async with await connect(get("/quick")) as next_one:
            await read_until(next_one, b"quick")


@pytest.mark.parametrize("said", [b"", get("/quick")[:-1], get("/quick")])
async def test_idle_and_unfinished_connections_make_room(
    probe: Probe, server: HttpServer, connect: Connect, said: bytes
) -> None:
    """The oldest of them make room at once; a connection that is answered never does."""
    bound = 20
    server.max_connections = bound
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(await connect(get("/begun")))
        await settled()
        others = [await stack.enter_async_context(await connect(said)) for _ in range(bound)]
        await settled()
        async with await connect(b"") as client:
            await settled()
            await client.send_all(get("/quick"))
            await read_until(client, b"quick")
        for oldest in others[:2]:
            assert b"503" not in b"".join([chunk async for chunk in oldest])
        probe.go.set()
        await read_until(busy, b"0\r\n\r\n")


@pytest.mark.parametrize(
    "said",
    [
        get("/large"),
        UPGRADE % b"/socket",
        b"GET /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ],
    ids=["does not read", "does not read frames", "does not send its body"],
)
async def test_slow_clients_make_room(
    probe: Probe, server: HttpServer, connect: Connect, mock_clock: trio.testing.MockClock, said: bytes
) -> None:
    """Clients that neither read nor write do not lock out the person who halts the agent."""
    server.max_connections = 3
    async with AsyncExitStack() as stack:
        busy = await stack.enter_async_context(await connect(get("/slow")))
        slow = [await stack.enter_async_context(await connect(said)) for _ in range(2)]
        await settled()
        async with await connect(get("/quick")) as client:  # a client may be slow for a moment
            assert (await client.receive_some()).startswith(b"HTTP/1.1 503")
        mock_clock.jump(PATIENCE + 0.1)
        async with await connect(get("/quick")) as client:
            await read_until(client, b"quick")
        await settled()
        assert server.connections == 3 - 1
        probe.go.set()
        await read_until(busy, b"slow")
        for stream in slow:
            await trio.aclose_forcefully(stream)


async def test_an_answer_that_is_not_read_is_not_copied_for_each_client() -> None:
    body = bytes(len(MEGABYTE))
    sizes: list[int] = []

    class Fake:
        beats_at, draining = math.inf, False
        waiting = contextlib.nullcontext

        def delay_next(self) -> None: ...

        def write_last(self, data: bytes) -> None: ...

    async def send(message: Any) -> None:
        if message is not None and message["type"] == "http.response.body":
            sizes.append(len(message["body"]))

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    scope: Any = {"type": "http", "state": {}}
    task = RequestTask(Fake(), scope, send)
    await task.put({"type": "http.request", "body": b"", "more_body": False})
    await task.run(answer)
    assert sum(sizes) == len(body)
    assert max(sizes) <= PIECE
