"""Calls over Streamable HTTP, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import httpx2
import pytest
import trio
import trio.testing
from mcp import MCPError
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from stopgo.actors.mcp.transports.streamable import RESUME_ATTEMPTS, StreamableHttp
from stopgo.actors.mcp.wire.failures import SESSION_LOST, meaning
from stopgo.actors.mcp.wire.requests import Outgoing
from tests.http_client import http_client

Answer: TypeAlias = Callable[[httpx2.Request], Coroutine[None, None, httpx2.Response]]


def call(version: str = LATEST_MODERN_VERSION) -> Outgoing:
    return Outgoing("tools/call", {"name": "t", "arguments": {}}, {"mcp-protocol-version": version})


def error_with(code: int) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "its own words"}}


@asynccontextmanager
async def way_to(answer: Answer) -> AsyncIterator[StreamableHttp]:
    way = StreamableHttp("http://server.test/mcp", lambda: None)
    async with way.open(http_client(transport=httpx2.MockTransport(answer))):
        yield way


@pytest.mark.parametrize("version", [LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION])
async def test_only_older_servers_are_notified_of_cancellation(version: str) -> None:
    """Newer ones see it by the end of the POST (MCP 2026-07-28, "Cancellation"). A redirect that a call
    follows, its cancellation follows, too."""
    sent: list[dict[str, Any]] = []
    reached = trio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp":
            return httpx2.Response(307, headers={"location": "/mcp/"})
        sent.append(json.loads(request.content))
        if sent[-1]["method"] == "tools/call":
            reached.set()
            await trio.sleep_forever()
        return httpx2.Response(202)

    async with way_to(answer) as way:
        way.in_session("s")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(way.request, call(version))
            await reached.wait()
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
    told = [message["params"]["requestId"] for message in sent[1:] if "params" in message]
    assert told == ([sent[0]["id"]] if version == LATEST_HANDSHAKE_VERSION else [])


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (httpx2.Response(202), "the server answered a request with 202 Accepted"),
        (httpx2.Response(200, text="hello"), "Unexpected content type: text/plain"),
        (httpx2.Response(200, json=[1]), "the server's reply is not a valid JSON-RPC message"),
        (
            httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}),
            "the server's reply is not a valid JSON-RPC message",
        ),
    ],
)
async def test_invalid_reply_leaves_the_outcome_unknown(response: httpx2.Response, text: str) -> None:
    async def answer(_: httpx2.Request) -> httpx2.Response:
        return response

    async with way_to(answer) as way:
        with pytest.raises(MCPError) as raised:
            await way.request(call())
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "outcome_unknown"
    assert error.message.startswith(text)


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (
            httpx2.Response(302, headers={"location": "http://user:secret@elsewhere.test/x?key=k"}),
            "Redirect to http://elsewhere.test/x not followed; use that URL if it is the intended server",
        ),
        (httpx2.Response(409), "HTTP 409 Conflict"),
        (httpx2.Response(500, json=error_with(SESSION_LOST)), "its own words"),
        (httpx2.Response(200, json=error_with(SESSION_LOST)), "its own words"),
    ],
)
async def test_refusal_is_an_answer(response: httpx2.Response, text: str) -> None:
    async def answer(_: httpx2.Request) -> httpx2.Response:
        return response

    async with way_to(answer) as way:
        with pytest.raises(MCPError) as raised:
            await way.request(call())
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "answered"
    assert error.message == text


async def test_redirect_within_the_server_is_followed() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/mcp":
            return httpx2.Response(307, headers={"location": "/mcp/"})
        message = {
            "jsonrpc": "2.0",
            "id": json.loads(request.content)["id"],
            "result": {"path": request.url.path},
        }
        return httpx2.Response(200, json=message)

    async with way_to(answer) as way:
        assert await way.request(call()) == {"path": "/mcp/"}


async def test_nothing_is_sent_after_the_connection_ends() -> None:
    async def answer(_: httpx2.Request) -> httpx2.Response:
        raise AssertionError

    async with way_to(answer) as way:
        pass
    with pytest.raises(MCPError) as raised:
        await way.request(call())
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "never_ran"


async def test_reply_is_accepted_with_any_content_type() -> None:
    """The call may have run."""

    async def answer(request: httpx2.Request) -> httpx2.Response:
        message = {"jsonrpc": "2.0", "id": json.loads(request.content)["id"], "result": {"n": 1}}
        return httpx2.Response(200, content=json.dumps(message).encode())

    async with way_to(answer) as way:
        assert await way.request(call()) == {"n": 1}


def in_stream(text: str, kind: str = "text/event-stream") -> httpx2.Response:
    return httpx2.Response(200, content=text.encode(), headers={"content-type": kind})


def reply_to(request_id: int) -> str:
    return "data: " + json.dumps({"jsonrpc": "2.0", "id": request_id, "result": {}}) + "\n\n"


@pytest.mark.parametrize("kind", ["Text/Event-Stream", "text/event-stream; charset=utf-8"])
async def test_media_type_is_case_insensitive(kind: str) -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        return in_stream(reply_to(json.loads(request.content)["id"]), kind)

    async with way_to(answer) as way:
        assert await way.request(call()) == {}


async def test_other_events_before_the_reply_are_skipped() -> None:
    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.headers["mcp-session-id"] == "patient":
            return in_stream("data: alive\n\n" + reply_to(json.loads(request.content)["id"]))
        return in_stream('data: {"jsonrpc": "2.0", "id": 1, "resu\n\n')

    async with way_to(answer) as way:
        way.in_session("patient")
        assert await way.request(call()) == {}
        way.in_session("cut")
        with pytest.raises(MCPError) as raised:
            await way.request(call())
    error = raised.value
    assert meaning(error.code, error.message, error.data) == "reply_lost"


@pytest.mark.parametrize(
    ("first", "pause"),
    [
        ("id: a\nretry: 0\n", 0.05),
        ("id: a\nretry: -1\n", 1.0),
        ("id: a\nretry: 300\n", 0.3),
        (f"id: a\nretry: {'9' * 400}\n", 3600.0),
        ("id: größer\n", 1.0),
    ],
)
async def test_stream_is_resumed_at_its_last_id_after_its_delay(
    first: str, pause: float, autojump_clock: trio.testing.MockClock
) -> None:
    posted: list[int] = []

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            posted.append(json.loads(request.content)["id"])
            return in_stream(f"{first}data:\n\n")
        expected = first.partition("\n")[0].removeprefix("id: ")
        assert dict(request.headers.raw)[b"last-event-id"].decode() == expected
        return in_stream(reply_to(posted[0]))

    async with way_to(answer) as way:
        began = trio.current_time()
        assert await way.request(call()) == {}
    assert trio.current_time() - began == pytest.approx(pause)
    assert len(posted) == 1


async def test_call_between_streams_fails_when_the_connection_ends(
    nursery: trio.Nursery, autojump_clock: trio.testing.MockClock
) -> None:
    async def answer(_: httpx2.Request) -> httpx2.Response:
        return in_stream("id: a\nretry: 60000\ndata:\n\n")

    async def lost(way: StreamableHttp) -> None:
        with pytest.raises(MCPError) as raised:
            await way.request(call())
        error = raised.value
        assert meaning(error.code, error.message, error.data) == "connection_lost"
        ended.append(trio.current_time())

    ended: list[float] = []
    async with way_to(answer) as way:
        nursery.start_soon(lost, way)
        await trio.sleep(1)
        assert ended == []
    await trio.testing.wait_all_tasks_blocked()
    assert ended == [pytest.approx(trio.current_time())]


async def resumed_by(*answers: httpx2.Response) -> tuple[object, int]:
    """Make a call whose stream ends without a reply; resuming it gives these answers, then the reply.

    Returns the outcome, and the number of answers that were requested.
    """
    left, posted = list(answers), list[int]()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.method == "POST":
            posted.append(json.loads(request.content)["id"])
            return in_stream("id: a\ndata:\n\n")
        return left.pop(0) if left else in_stream(reply_to(posted[0]))

    async with way_to(answer) as way:
        outcome: object
        try:
            outcome = await way.request(call())
        except MCPError as error:
            outcome = meaning(error.code, error.message, error.data)
    return outcome, len(answers) - len(left)


async def test_resumption_stops_after_failures_in_a_row(
    autojump_clock: trio.testing.MockClock,
) -> None:
    failed, alive = [httpx2.Response(503)] * (RESUME_ATTEMPTS - 1), in_stream("data:\n\n")
    assert await resumed_by(*failed, alive, *failed) == ({}, 2 * len(failed) + 1)
    often = [httpx2.Response(503)] * (RESUME_ATTEMPTS + 1)
    assert await resumed_by(*often) == ("reply_lost", RESUME_ATTEMPTS)
