"""Requests that must not become a stream: foreign hosts and origins, and wrong handshakes."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import Server

from .raw_websocket import PING, PONG, UPGRADE, Frame, RawSocket, frame, raw_socket, request

NOWHERE = "00000000-0000-4000-8000-000000000000"
STREAMS = ("/conversations/{id}/ws", "/conversations/{id}/events", "/events", "/events/ws")
FOREIGN: dict[str, tuple[dict[str, str], int, str]] = {
    "a foreign host": ({"Host": "evil.example"}, 421, "wrong_host"),
    "a foreign host and its origin": (
        {"Host": "evil.example", "Origin": "http://evil.example"},
        421,
        "wrong_host",
    ),
    "two hosts": ({"Host": "localhost", "host": "evil.example"}, 400, ""),
    "an empty host": ({"Host": ""}, 421, "wrong_host"),
    "a host that begins like an allowed one": ({"Host": "localhost.evil.example"}, 421, "wrong_host"),
    "a foreign origin": ({"Origin": "http://evil.example"}, 403, "cross_site"),
    "an opaque origin": ({"Origin": "null"}, 403, "cross_site"),
    "an empty origin": ({"Origin": ""}, 403, "cross_site"),
    "another port": ({"Origin": "http://localhost:1"}, 403, "cross_site"),
    "another scheme": ({"Origin": "https://localhost:{port}"}, 403, "cross_site"),
    "the scheme of a websocket": ({"Origin": "ws://localhost:{port}"}, 403, "cross_site"),
    "a foreign site": ({"Sec-Fetch-Site": "cross-site"}, 403, "cross_site"),
    "a page of the same site": (
        {"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "same-site"},
        403,
        "cross_site",
    ),
}
OWN: dict[str, dict[str, str]] = {
    "a program": {},
    "by address": {"Host": "127.0.0.1:{port}"},
    "its own page": {"Origin": "http://localhost:{port}", "Sec-Fetch-Site": "same-origin"},
    "its own page, by address": {"Host": "127.0.0.1:{port}", "Origin": "http://127.0.0.1:{port}"},
}


async def answer(
    raw: RawSocket, server: Server, path: str, headers: dict[str, str], **more: str
) -> tuple[int, str]:
    """The status and the code of the error."""
    port, id = server.run.url.rpartition(":")[2], server.new()
    path = path.replace("{id}", id)
    upgrade = UPGRADE if path.endswith("/ws") else {"Host": "localhost"}
    sent = {name: value.replace("{port}", port) for name, value in {**upgrade, **headers}.items()}
    await raw.send(request(path, sent, **more))
    status = await raw.answered()
    if status < 300:
        return status, ""
    assert "sec-websocket-accept" not in raw.head.lower()
    error = json.loads(await body(raw))
    return status, error["code"]


async def body(raw: RawSocket) -> bytes:
    """The rest of an answer that tells its length, or ends with its connection."""
    length = [line for line in raw.head.lower().split("\r\n") if line.startswith("content-length:")]
    if not length:
        return await raw.rest()
    while len(raw.data) < int(length[0].partition(":")[2]):
        assert await raw.more()
    return bytes(raw.data)


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize(("headers", "status", "code"), FOREIGN.values(), ids=FOREIGN.keys())
async def test_foreign_hosts_and_origins_are_refused(
    shared_server: Server, path: str, headers: dict[str, str], status: int, code: str
) -> None:
    async with raw_socket(shared_server.run.url) as raw:
        found = await answer(raw, shared_server, path, headers)
        assert found == (status, code or found[1])


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("headers", OWN.values(), ids=OWN.keys())
async def test_own_hosts_and_origins_are_served(
    shared_server: Server, path: str, headers: dict[str, str]
) -> None:
    async with raw_socket(shared_server.run.url) as raw:
        status, _ = await answer(raw, shared_server, path, headers)
        assert status == (101 if path.endswith("/ws") else 200)


WS = "/conversations/{id}/ws"
SSE = "/conversations/{id}/events"
# path, changed headers (an empty value: without it), what else of the request, allowed statuses
MISTAKES: dict[str, tuple[str, dict[str, str], dict[str, str], set[int]]] = {
    "an old version": (WS, {"Sec-WebSocket-Version": "8"}, {}, {400, 426}),
    "no version": (WS, {"Sec-WebSocket-Version": ""}, {}, {400, 426}),
    "a version that is not a number": (WS, {"Sec-WebSocket-Version": "thirteen"}, {}, {400, 426}),
    "no key": (WS, {"Sec-WebSocket-Key": ""}, {}, {400}),
    "no upgrade": (WS, {"Upgrade": ""}, {}, {400, 404, 426}),
    "an upgrade without Connection": (WS, {"Connection": "keep-alive"}, {}, {400, 404, 426}),
    "an upgrade to HTTP/2": (WS, {"Upgrade": "h2c"}, {}, {400, 404, 426}),
    "by POST": (WS, {}, {"method": "POST"}, {400, 404, 405, 426}),
    "by HEAD": (WS, {}, {"method": "HEAD"}, {400, 404, 405, 426}),
    "by OPTIONS": (WS, {}, {"method": "OPTIONS"}, {400, 404, 405, 426}),
    "in HTTP/1.0": (WS, {}, {"version": "1.0"}, {400, 404, 426, 505}),
    "in HTTP/2.0": (WS, {}, {"version": "2.0"}, {400, 505}),
    "with a body": (WS, {"Content-Length": "5"}, {}, {400}),
    "with a body in chunks": (WS, {"Transfer-Encoding": "chunked"}, {}, {400}),
    "with a huge head": (WS, {"X-Much": "x" * 2**17}, {}, {431}),
    "an unknown path": ("/nowhere/ws", {}, {}, {404}),
    "an unknown conversation": (f"/conversations/{NOWHERE}/ws", {}, {}, {404}),
    "a malformed conversation id": ("/conversations/x%00y/ws", {}, {}, {400, 404}),
    "a cursor that is not a number": (WS + "?after=x", {}, {}, {400}),
    "a cursor beyond the end": (WS + "?after=99", {}, {}, {400}),
    "an unknown parameter": (WS + "?afer=1", {}, {}, {400}),
    "a wrong value of deltas": (WS + "?deltas=yes", {}, {}, {400}),
    "a cursor for all events": ("/events/ws?after=1", {}, {}, {400}),
    "an unknown status": ("/events/ws?status=sleeping", {}, {}, {400}),
}
ELSEWHERE = ("/health", "/conversations", "/conversations/{id}", SSE, "/events", "/docs", "/approvals", "/")


@pytest.mark.parametrize(("path", "headers", "more", "statuses"), MISTAKES.values(), ids=MISTAKES.keys())
async def test_a_wrong_handshake_is_refused(
    shared_server: Server, path: str, headers: dict[str, str], more: dict[str, str], statuses: set[int]
) -> None:
    """The answer is an error like that of every route."""
    log = len(shared_server.log)
    sent = {name: value for name, value in {**UPGRADE, **headers}.items() if value}
    async with raw_socket(shared_server.run.url) as raw:
        await raw.send(request(path.replace("{id}", shared_server.new()), sent, **more))
        status = await raw.answered()
        assert status in statuses, raw.head
        if more.get("method") != "HEAD":
            error = json.loads(await body(raw))
            assert error["code"]
            assert error["error"]
        if status == 426:
            assert "upgrade: websocket" in raw.head.lower()
        if "Sec-WebSocket-Version" in headers:
            assert "sec-websocket-version: 13" in raw.head.lower()
    assert shared_server.get("/health")["status"] == "ok"
    assert "Traceback" not in shared_server.log[log:]


@pytest.mark.parametrize("path", ELSEWHERE)
async def test_no_other_path_becomes_a_websocket(shared_server: Server, path: str) -> None:
    """The upgrade is ignored (RFC 9110, section 7.8) or refused; an answer comes in either case."""
    async with raw_socket(shared_server.run.url) as raw:
        await raw.send(request(path.replace("{id}", shared_server.new()), UPGRADE))
        assert await raw.answered() in (200, 400, 404, 405, 426)


OFFERS: dict[str, dict[str, str]] = {
    "compression": {
        "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits, x-webkit-deflate-frame"
    },
    "compression, in an unknown form": {"Sec-WebSocket-Extensions": "permessage-deflate; x=y; =, ,"},
    "a protocol": {"Sec-WebSocket-Protocol": "graphql-ws, chat"},
}


@pytest.mark.parametrize("path", ["/conversations/{id}/ws", "/events/ws"])
@pytest.mark.parametrize("headers", OFFERS.values(), ids=OFFERS.keys())
async def test_offered_extensions_are_not_negotiated(
    shared_server: Server, path: str, headers: dict[str, str]
) -> None:
    async with raw_socket(shared_server.run.url) as raw:
        await raw.shake_hands(path.replace("{id}", shared_server.new()), headers)
        assert "sec-websocket-extensions" not in raw.head.lower()
        assert "sec-websocket-protocol" not in raw.head.lower()


async def test_frames_right_behind_the_handshake(shared_server: Server) -> None:
    """A client has to wait for the answer (RFC 6455, section 4.1): they are refused, or read as usual."""
    async with raw_socket(shared_server.run.url) as raw:
        await raw.send(request("/events/ws", UPGRADE) + frame(PING, b"already"))
        status = await raw.answered()
        assert status in (101, 400)
        if status == 101:
            assert await raw.frame() == Frame(PONG, b"already")
