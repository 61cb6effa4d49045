"""Requests of the SDK when the network fails, without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp.transports.http import SIDE_TIMEOUT, McpTransport
from stopgo.actors.mcp.transports.response_body import STREAM
from stopgo.actors.mcp.wire.failures import UNREACHABLE
from stopgo.actors.servers.bearer import forwarding

URL = "http://server.test/mcp"
REFUSED = httpx2.ConnectError("refused")
CUT = httpx2.ReadError("reset")


@attrs.define
class Wire:
    """Gives prepared responses, or raises prepared errors."""

    says: list[httpx2.Response | httpx2.TransportError]
    asked: list[httpx2.Request] = attrs.field(factory=list)
    lost: list[str] = attrs.field(factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.asked.append(request)
        await trio.lowlevel.checkpoint()
        if not self.says:
            await trio.sleep_forever()
        said = self.says.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    async def aclose(self) -> None:
        pass


def transport(wire: Wire, nursery: trio.Nursery) -> McpTransport:
    made = McpTransport(wire.lost.append, lambda: None, lambda _: None, nursery)
    cast(Any, made)._transport = wire
    return made


def message(method: str, **more: Any) -> httpx2.Request:
    return httpx2.Request("POST", URL, json={"jsonrpc": "2.0", "method": method, **more})


def own_stream() -> httpx2.Request:
    return httpx2.Request("GET", URL, headers={"accept": STREAM})


class Endless(httpx2.AsyncByteStream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        await trio.sleep_forever()
        yield b""

    async def aclose(self) -> None:
        pass


def streaming() -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": STREAM}, stream=Endless())


@pytest.mark.parametrize(("error", "sent"), [(REFUSED, False), (CUT, True)])
async def test_failed_request_gets_an_error_reply(
    nursery: trio.Nursery, error: httpx2.TransportError, sent: bool
) -> None:
    answer = await transport(Wire([error] * 2), nursery).handle_async_request(message("tools/list", id=1))
    told = json.loads(await answer.aread())["error"]
    assert answer.status_code == 503
    assert (told["code"], told["message"], told["data"]) == (UNREACHABLE, str(error), {"sent": sent})


async def test_request_is_sent_again_if_its_connection_ends(nursery: trio.Nursery) -> None:
    wire = Wire([CUT, httpx2.Response(200), CUT, httpx2.Response(202), CUT, CUT])
    sending = transport(wire, nursery)
    for request in (message("tools/list", id=1), message("notifications/initialized")):
        assert (await sending.handle_async_request(request)).is_success
    assert (await sending.handle_async_request(message("tools/list", id=2))).status_code == 503
    assert len(wire.asked) == 6


async def test_failed_notification_is_ignored(nursery: trio.Nursery) -> None:
    wire = Wire([REFUSED])
    answer = await transport(wire, nursery).handle_async_request(message("notifications/initialized"))
    assert answer.status_code == 202
    assert set(wire.asked[0].extensions["timeout"].values()) == {SIDE_TIMEOUT}


@pytest.mark.parametrize("content", [b"grant_type=client_credentials", b'{"grant_type": "x"}'])
async def test_token_request_carries_no_bearer_and_may_fail(nursery: trio.Nursery, content: bytes) -> None:
    wire = Wire([REFUSED, REFUSED])
    sending = transport(wire, nursery)
    request = httpx2.Request("POST", "http://tokens.test/", content=content)
    with forwarding("secret"):
        assert (await sending.handle_async_request(request)).status_code == 503
        await sending.handle_async_request(message("tools/list", id=1))
    assert ["authorization" in asked.headers for asked in wire.asked] == [False, True]


async def test_session_end_is_bounded(nursery: trio.Nursery) -> None:
    wire = Wire([CUT])
    with pytest.raises(httpx2.ReadError):
        await transport(wire, nursery).handle_async_request(httpx2.Request("DELETE", URL))
    assert set(wire.asked[0].extensions["timeout"].values()) == {SIDE_TIMEOUT}


async def test_refused_own_stream_reports_the_loss(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    wire = Wire([REFUSED, streaming(), CUT, CUT, httpx2.Response(500), REFUSED])
    sending = transport(wire, nursery)
    with pytest.raises(httpx2.ConnectError):
        await sending.handle_async_request(own_stream())
    assert wire.lost == []  # it may never have been there
    assert (await sending.handle_async_request(own_stream())).status_code == 200
    with pytest.raises(httpx2.ConnectError):
        await sending.handle_async_request(own_stream())
    assert wire.lost == ["refused"]
    assert wire.says == []


async def test_unknown_session_reports_the_loss(nursery: trio.Nursery, autojump_clock: MockClock) -> None:
    wire = Wire([httpx2.Response(404), streaming(), httpx2.Response(404)])
    sending = transport(wire, nursery)
    answers = [(await sending.handle_async_request(own_stream())).status_code for _ in range(3)]
    assert answers == [404, 200, 404]
    assert wire.lost == ["the server no longer knows this session"]


@pytest.mark.parametrize("streams", [False, True])
async def test_cancelled_request_ends_the_wait(
    nursery: trio.Nursery, autojump_clock: MockClock, streams: bool
) -> None:
    """The cancellation is not awaited either, because such a server will not answer it."""
    wire = Wire([streaming()] if streams else [])
    sending = transport(wire, nursery)

    ended: list[object] = []

    async def ask() -> None:
        answer = await sending.handle_async_request(message("tools/list", id=1))
        try:
            await answer.aread()
            ended.append(answer.status_code)
        except httpx2.SSEError as error:
            ended.append(str(error))

    cancelled = message("notifications/cancelled", params={"requestId": 1})
    async with trio.open_nursery() as asking:
        asking.start_soon(ask)
        await wait_all_tasks_blocked()
        assert (await sending.handle_async_request(cancelled)).status_code == 202
    await wait_all_tasks_blocked()
    assert ended == ["given up" if streams else 503]
    assert wire.asked[1] is cancelled


async def test_failed_cancellation_is_ignored(nursery: trio.Nursery) -> None:
    wire = Wire([REFUSED])
    cancelled = message("notifications/cancelled", params={"requestId": 1})
    assert (await transport(wire, nursery).handle_async_request(cancelled)).status_code == 202
    await wait_all_tasks_blocked()
    assert wire.says == []
