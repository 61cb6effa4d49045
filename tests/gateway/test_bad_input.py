"""Whatever is wrong with a request: JSON with a stable code, and no traceback anywhere."""

import contextlib
import json
import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.body import MAX_BODY, MAX_DISCARDED, parse_object
from stopgo.gateway.http.errors import RequestError
from stopgo.runtime.json_text import MAX_DEPTH

POSTS = (
    "/conversations",
    f"/conversations/{ex.CONVERSATION_ID}/messages",
    f"/conversations/{ex.CONVERSATION_ID}/cancel",
    f"/conversations/{ex.CONVERSATION_ID}/complete",
    f"/conversations/{ex.CONVERSATION_ID}/resume",
    f"/approvals/{ex.APPROVAL_ID}",
)


@pytest.fixture(autouse=True)
def no_traceback(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{bad", "line 1, column 2"),
        (b"hello", "line 1, column 1"),
        (b'{"message": "x"} trailing', "line 1, column 18"),
        (b"[]", "expected an object, not an array"),
        (b'"x"', "not a string"),
        (b"true", "not a boolean"),
        (b"null", "not null"),
        (b"7", "not a number"),
        (b'{"message": NaN}', "NaN"),
        (b'{"message": -Infinity}', "Infinity"),
        (b'{"message": 1e999}', "out of range"),
        (b'{"message": "\xff"}', "UTF-8"),
        (b'{"message": "\\ud800"}', "surrogate"),
        (b"[" * 200_000, "nested too deeply"),
        (b'{"message": ' + b"[" * MAX_DEPTH + b"]" * MAX_DEPTH + b"}", "nested more than 100 deep"),
        (b'{"message": ' + b"9" * 5000 + b"}", "out of range"),
        (b'{"message": ' + b"9" * 310 + b"}", "out of range"),
        (b'{"approved": false, "approved": true}', "twice"),
        (b'{"message": {"a": [{"b": 1, "\\u0062": 2}]}}', "twice"),
    ],
)
async def test_body_that_is_not_a_json_object_is_400(
    client: httpx2.AsyncClient, agent: Any, body: bytes, why: str
) -> None:
    answer = await client.post("/conversations", content=body)
    assert answer.status_code == 400
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["code"] == "invalid_request_body"
    assert answer.json()["error"].startswith("invalid request body")
    assert why in answer.json()["error"]
    assert not agent.calls


@pytest.mark.parametrize("body", [b"approved=true", b"{'message': 'x'}", b"[]"])
async def test_invalid_body_gets_a_hint_with_an_example(client: httpx2.AsyncClient, body: bytes) -> None:
    for path, example in (("/conversations", "message"), (f"/approvals/{ex.APPROVAL_ID}", "approved")):
        answer = await client.post(path, content=body)
        assert answer.json()["hint"].startswith("Send one JSON object")
        assert f'{{"{example}": ' in answer.json()["hint"]


def changes(agent: Any) -> list[Any]:
    """The calls of the agent but for the look-up of an approval, whose conversation the log names."""
    return [call for call in agent.calls if call[0] != "approval"]


@pytest.mark.parametrize("path", POSTS)
async def test_every_post_checks_its_body(client: httpx2.AsyncClient, agent: Any, path: str) -> None:
    answer = await client.post(path, content=b"{bad", headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request_body")
    assert not changes(agent)


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"],
)
async def test_content_type_of_a_body_is_ignored(
    client: httpx2.AsyncClient, agent: Any, content_type: str
) -> None:
    answer = await client.post(
        "/conversations", content=b'{"message": "\\ud83d\\ude00"}', headers={"Content-Type": content_type}
    )
    assert answer.status_code == 201
    assert agent.calls[0][1] == ("\U0001f600",)


@pytest.mark.parametrize("body", [b"", b" \n", b"{}"])
async def test_empty_body_is_an_empty_object(client: httpx2.AsyncClient, body: bytes) -> None:
    assert (await client.post("/conversations", content=body)).status_code == 201


@pytest.mark.parametrize(
    ("value", "kind"),
    [(5, "a number"), (1.5, "a number"), (True, "a boolean"), ([], "an array"), ({}, "an object")],
)
@pytest.mark.parametrize("path", POSTS[:2])
async def test_wrong_type_names_its_field(
    client: httpx2.AsyncClient, agent: Any, path: str, value: object, kind: str
) -> None:
    answer = await client.post(path, json={"message": value})
    assert answer.status_code == 400
    assert answer.json() == {
        "error": f"invalid request body: message must be a string, not {kind}",
        "code": "invalid_request_body",
        "field": "message",
    }
    assert not agent.calls


async def chunks(size: int, of: int = 1000) -> AsyncIterator[bytes]:
    for _ in range(size // of):
        yield b"x" * of


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("path", POSTS)
async def test_a_body_of_2_mib_is_refused(
    client: httpx2.AsyncClient, agent: Any, path: str, chunked: bool
) -> None:
    content: Any = chunks(2 * MAX_BODY) if chunked else b"x" * (2 * MAX_BODY)
    answer = await client.post(path, content=content)
    assert answer.status_code == 413
    assert answer.json()["code"] == "body_too_large"
    assert "make pictures smaller" in answer.json()["hint"]
    assert not changes(agent)
    assert (await client.get("/health")).status_code == 200


async def test_a_body_of_1_mib_is_accepted(client: httpx2.AsyncClient, agent: Any) -> None:
    frame = len(b'{"message": ""}')
    body = b'{"message": "' + b"x" * (MAX_BODY - frame) + b'"}'
    assert len(body) == MAX_BODY
    assert (await client.post("/conversations", content=body)).status_code == 201
    assert (await client.post("/conversations", content=body + b" ")).status_code == 413


async def test_a_body_without_end_is_cut_off(raw: Any) -> None:
    stream = await raw(
        b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
    sent = 0
    with contextlib.suppress(trio.BrokenResourceError):
        while sent < 100 * MAX_BODY:
            await stream.send_all(chunk)
            sent += len(chunk)
    assert MAX_DISCARDED < sent < 3 * MAX_DISCARDED


async def test_a_body_that_does_not_come_in_time_is_not_waited_for(
    raw: Any, mock_clock: trio.testing.MockClock
) -> None:
    stream = await raw(b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{")
    await trio.testing.wait_all_tasks_blocked(0.05)
    mock_clock.jump(40)
    await stream.send_all(b" ")  # it may come in drops, and has no longer for that
    await trio.testing.wait_all_tasks_blocked(0.05)
    mock_clock.jump(21)
    answer = b""
    while chunk := await stream.receive_some():
        answer += chunk
    assert answer.startswith(b"HTTP/1.1 408")
    assert b'"code":"request_timeout"' in answer


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/nope"),
        ("GET", "/conversations/"),
        ("GET", "/static/x"),
        ("GET", "/event"),
        ("GET", "/asyncapi.json"),
        ("GET", "/%2e%2e/etc/passwd"),
        ("GET", "/%2fhealth"),
        ("GET", "/%2f/"),
        ("GET", "/<script>"),
    ],
)
async def test_an_unknown_path_is_404(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 404
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["code"] == "not_found"
    assert answer.json()["hint"] == "GET /docs lists every route."


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/conversations"),
        ("DELETE", "/conversations"),
        ("POST", "/health"),
        ("PATCH", "/docs"),
        ("BREW", "/tools"),
    ],
)
async def test_an_unknown_method_is_405(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.status_code == 405
    assert answer.json()["code"] == "method_not_allowed"
    assert answer.json()["hint"] == "GET /docs lists every route."
    assert "GET" in answer.headers["Allow"]


async def test_head_is_get_without_the_body(client: httpx2.AsyncClient) -> None:
    for path in (
        "/health",
        "/docs",
        f"/conversations/{ex.CONVERSATION_ID}",
        f"/conversations/{ex.CONVERSATION_ID}/events",
    ):
        answer = await client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    assert (await client.head("/nope")).status_code == 404


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/health", "GET, HEAD, OPTIONS"),
        (f"/conversations/{ex.CONVERSATION_ID}", "DELETE, GET, HEAD, OPTIONS"),
    ],
)
async def test_options_are_the_methods(client: httpx2.AsyncClient, path: str, methods: str) -> None:
    answer = await client.options(path)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["Allow"] == methods
    assert "Content-Type" not in answer.headers
    assert (answer.headers["X-Content-Type-Options"], answer.headers["Cache-Control"]) == (
        "nosniff",
        "no-store",
    )
    assert answer.headers["X-Session-ID"]


@pytest.mark.parametrize(("path", "status"), [("/nope", 404), ("//events/ws", 404), ("/health", 400)])
async def test_a_websocket_where_there_is_none(raw: Any, path: str, status: int) -> None:
    stream = await raw(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    answer = b""
    while chunk := await stream.receive_some():
        answer += chunk
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status}".encode())
    assert json.loads(body)["code"] in ("not_found", "not_a_websocket")


@pytest.mark.parametrize(
    ("rest", "status"),
    [
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 8\r\n\r\n", 426),
        (b"Sec-WebSocket-Version: 13\r\n\r\n", 400),
        (b"Sec-WebSocket-Key: short\r\nSec-WebSocket-Version: 13\r\n\r\n", 400),
        (b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\nearly", 400),
    ],
)
async def test_a_handshake_that_is_none_ends_its_connection(raw: Any, rest: bytes, status: int) -> None:
    stream = await raw(
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" + rest
    )
    assert (await whole_answer(stream)).startswith(b"HTTP/1.1 %d " % status)


GET = b"GET /health HTTP/1.1\r\n"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x00\x01\x02\r\n\r\n", "bad_request"),
        (b"GET / HTTP/9\r\n\r\n", "bad_request"),
        (b"GET /" + b"x" * 70_000, "request_header_fields_too_large"),
        (GET + b"\r\n", "bad_request"),
        (GET + b"Host: localhost\r\nno header\r\n\r\n", "bad_request"),
        (GET + b"Host: localhost\r\nTransfer-Encoding: gzip\r\n\r\n", "not_implemented"),
        (
            b"POST /conversations HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "bad_request",
        ),
        (b"HEAD /health HTTP/2.0\r\nHost: localhost\r\n\r\n", "http_version_not_supported"),
        (b"GET ?limit=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad_request"),
        (b"GET http://[/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad_request"),
        (b"GET http://%5B/health HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad_request"),
        (b"CONNECT x:443 HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad_request"),
        (b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n", "bad_request"),
    ],
)
async def test_what_is_no_request_is_refused_in_json_with_its_connection(
    client: httpx2.AsyncClient, raw: Any, caplog: pytest.LogCaptureFixture, data: bytes, code: str
) -> None:
    head, _, body = (await whole_answer(await raw(data))).partition(b"\r\n\r\n")
    assert b"\r\nContent-Length: %d\r\n" % len(body) in head
    assert b"\r\nConnection: close" in head
    assert json.loads(body) == {"error": code.replace("_", " "), "code": code}
    assert (await client.get("/health")).status_code == 200
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_request_may_name_its_host_as_one_asks_a_proxy(raw: Any) -> None:
    stream = await raw(
        b"GET http://127.0.0.1:80/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )
    assert (await whole_answer(stream)).startswith(b"HTTP/1.1 200 ")


async def whole_answer(stream: trio.SocketStream) -> bytes:
    """All bytes until the connection ends."""
    return b"".join([chunk async for chunk in stream])


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_in_one_way(data: bytes) -> None:
    error: RequestError | None = None
    try:
        assert isinstance(parse_object(data), dict)
    except RequestError as raised:
        error = raised
    assert error is None or (error.status == 400 and error.message.startswith("invalid request body: "))
