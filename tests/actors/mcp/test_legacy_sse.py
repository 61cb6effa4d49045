"""The actor against servers of the older HTTP kind: one event stream, one POST for each message."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import mcp_types as types
import pytest
import trio
from mcp.shared.message import SessionMessage
from trio.testing import MockClock

from stopgo.actors.mcp.transports import http
from stopgo.actors.mcp.transports.legacy_sse import Posts, places
from stopgo.actors.mcp.wire.failures import UNREACHABLE
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import CallTool, ListTools, ServerMessage, ToolOutcomeUnknown, ToolResult
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from tests.actors.mcp import sse_peer as sse_peer_module
from tests.actors.mcp.conftest import times_out
from tests.actors.mcp.sse_peer import SsePeer, sse_peer
from tests.waiting import until

Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]


@pytest.fixture
def peer() -> Iterator[SsePeer]:
    with sse_peer() as peer:
        yield peer


def older(peer: SsePeer, **changes: Any) -> McpServerConfig:
    return McpServerConfig(
        name="older",
        url=peer.url,
        **{"transport": "sse", "timeout": 600.0, "connect_timeout": 600.0, **changes},
    )


@pytest.mark.parametrize("transport", ["sse", None])
async def test_tools_and_calls(peer: SsePeer, serving: Open, transport: Any) -> None:
    """Without a configured `transport`, the older one is used if the server refuses the newer one."""
    async with serving(older(peer, transport=transport, headers={"X-Key": "k"})) as server:
        assert [tool.name for tool in await server.ask(ListTools())] == ["echo", "silent"]
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert peer.calls == [("echo", None)]
    assert set(peer.headers) == {"k"}


async def test_tool_list_may_be_longer_than_a_result(
    peer: SsePeer, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse_peer_module, "DESCRIPTION", "x" * 10_000)
    async with serving(older(peer), max_stored_bytes=4096) as server:
        assert [tool.name for tool in await server.ask(ListTools())] == ["echo", "silent"]
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


async def test_older_transport_is_remembered(
    peer: SsePeer, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(older(peer, transport=None)) as server:
        before = len(peer.headers)
        peer.say.put(None)
        await until(lambda: [status.state for status in statuses].count("connected") == 2)
        # The stream, the handshake with its notification, and the list: the newer transport was not tried.
        assert len(peer.headers) - before == 4
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


async def test_token_is_sent_with_its_own_call(peer: SsePeer, serving: Open) -> None:
    async with serving(older(peer, max_concurrency=8)) as server:
        async with trio.open_nursery() as asking:
            for n in range(8):
                bearer = f"secret-{n}" if n else None
                asking.start_soon(server.ask, CallTool("echo", {"n": n}, bearer=bearer))
        await server.ask(CallTool("echo", {}))
    assert sorted(peer.calls[:8], key=str) == [
        *(("echo", f"Bearer secret-{n}") for n in range(1, 8)),
        ("echo", None),
    ]
    assert peer.calls[8] == ("echo", None)


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (409, b"", "HTTP 409 Conflict"),
        (430, b"", "HTTP 430"),
        (400, b'{"detail":"no such tool"}', "HTTP 400 Bad Request"),
        (400, b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such tool"}}', "no such tool"),
    ],
)
async def test_refused_post_does_not_affect_other_calls(
    peer: SsePeer, serving: Open, status: int, body: bytes, text: str
) -> None:
    async with serving(older(peer)) as server:
        peer.on_message, peer.body = status, body
        result = await server.ask(CallTool("echo", {}))
        assert (result.is_error, result.content) == (True, text)
        peer.on_message = 202
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


@pytest.mark.parametrize(
    ("status", "text"), [(0, "connection lost: "), (502, "failed: HTTP 502 Bad Gateway")]
)
async def test_broken_post_does_not_affect_other_calls(
    peer: SsePeer, serving: Open, status: int, text: str
) -> None:
    async with serving(older(peer)) as server:
        peer.on_message = status
        with pytest.raises(ToolOutcomeUnknown, match=f'^MCP server "older" {text}'):
            await server.ask(CallTool("echo", {}))
        peer.on_message = 202
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert len(peer.calls) == 2


async def test_forgotten_session_is_reopened_and_call_runs_once(
    peer: SsePeer, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(older(peer)) as server:
        peer.on_message = 404
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await server.ask(CallTool("echo", {})))

        async with trio.open_nursery() as asking:
            asking.start_soon(call)
            await until(lambda: statuses[-1].state == "disconnected")
            peer.on_message = 202
            peer.say.put(None)  # the thread of the old stream
        assert [result.content for result in results] == ["echo"]
    assert len(peer.calls) == 2


@pytest.mark.parametrize(("promised", "reason"), [(0, "its stream ended"), (10**6, "peer closed connection")])
async def test_end_of_the_stream_ends_every_in_flight_call(
    peer: SsePeer, serving: Open, promised: int, reason: str
) -> None:
    peer.promised = promised
    lost: list[str] = []

    async def call(server: ActorRef[ServerMessage]) -> None:
        with pytest.raises(ToolOutcomeUnknown) as raised:
            await server.ask(CallTool("silent", {}))
        lost.append(str(raised.value))

    async with serving(older(peer, max_concurrency=3)) as server:
        async with trio.open_nursery() as asking:
            for _ in range(3):
                asking.start_soon(call, server)
            await until(lambda: len(peer.calls) == 3)
            peer.say.put(None)
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert len(lost) == 3
    assert all(text.startswith(f'MCP server "older" connection lost: {reason}') for text in lost)


async def test_reply_does_not_wait_for_the_post(peer: SsePeer, serving: Open) -> None:
    async with serving(older(peer)) as server:
        peer.on_message = -1
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
        async with trio.open_nursery() as asking:
            asking.start_soon(_learns_of_the_end, server)
            await until(lambda: len(peer.calls) == 2)
            peer.say.put(None)


async def _learns_of_the_end(server: ActorRef[ServerMessage]) -> None:
    with pytest.raises(ToolOutcomeUnknown, match="its stream ended"):
        await server.ask(CallTool("silent", {}))


async def test_unanswered_call_times_out(peer: SsePeer, serving: Open, clock: MockClock) -> None:
    async with serving(older(peer)) as server:
        said = await times_out(server, CallTool("silent", {}), lambda: bool(peer.calls), clock)
        assert said == 'MCP server "older" timed out after 600 s'
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


async def test_redirect_within_the_server_is_followed(peer: SsePeer, serving: Open, clock: MockClock) -> None:
    """By the stream, by calls, and by cancellations."""
    peer.moved = "/moved"
    async with serving(older(peer)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
        await times_out(server, CallTool("silent", {}), lambda: len(peer.calls) == 2, clock)
        await until(lambda: len(peer.cancelled) == 1)
        peer.moved = "http://user:secret@elsewhere.invalid/moved"
        result = await server.ask(CallTool("echo", {}))
    assert result.is_error
    assert result.content.startswith("Redirect to http://elsewhere.invalid/moved/messages not followed")


@pytest.mark.parametrize(
    ("here", "named", "found"),
    [
        ("https://h.test/sse", "/messages?s=1", ["/messages?s=1"]),
        # python-sdk#965, cosmo#1841, apisix#12138: behind a container, a gateway, a proxy that ends TLS
        ("https://h.test/sse", "http://0.0.0.0:3001/messages?s=1", ["/messages?s=1"]),
        ("https://h.test/sse", "http://h.test/messages?s=1", ["/messages?s=1"]),
        ("https://h.test/sse", "https://h.evil/messages?s=1", ["/messages?s=1"]),
        ("https://h.test/sse/", "http%3A//127.0.0.1%3A8000/m/?s=1", ["/m/?s=1", "/sse/m/?s=1"]),
        # python-sdk#242, #2255: the proxy has removed a path
        ("https://h.test/team/sse?k=1", "/messages/?s=1", ["/messages/?s=1", "/team/messages/?s=1"]),
        ("https://h.test/api/v1/sse", "/v1/m", ["/v1/m", "/api/v1/v1/m", "/api/v1/m"]),
        ("https://h.test/team/sse", "/team/messages", ["/team/messages"]),
        ("https://h.test/team/sse", "messages", ["/team/messages"]),
    ],
)
def test_endpoint_is_at_the_origin_of_the_stream(here: str, named: str, found: list[str]) -> None:
    assert [str(each) for each in places(httpx2.URL(here), named)] == [
        f"https://h.test{each}" for each in found
    ]


async def test_endpoint_without_the_path_of_a_proxy_is_found(peer: SsePeer, serving: Open) -> None:
    peer.endpoint, peer.before = "/messages?session=1", "/team"
    peer.url = peer.url.replace("/sse", "/team/sse")
    async with serving(older(peer)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert peer.posts[:2] == ["/messages?session=1", "/team/messages?session=1"]
    assert set(peer.posts[2:]) == {"/team/messages?session=1"}


@pytest.mark.parametrize("transport", ["sse", None])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"on_stream": 410}, "HTTP 410 Gone"),
        ({"endpoint": "/m\x01"}, "Invalid non-printable ASCII character in URL, .*"),
    ],
)
async def test_unusable_sse_server_fails_the_start(
    peer: SsePeer,
    serving: Open,
    transport: Any,
    changes: dict[str, Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in changes.items():
        setattr(peer, name, value)
    if transport is None:
        reason = rf"HTTP 405 Method Not Allowed \(as an older SSE server: {reason}\)"
    with pytest.raises(ServerStartFailed, match=f": {reason}$"):
        async with serving(older(peer, transport=transport)):
            pass
    assert "unexpectedly" not in caplog.text


async def test_silent_stream_fails_the_start(peer: SsePeer, serving: Open) -> None:
    peer.endpoint = "\nevent: other\ndata: x"
    with (
        pytest.raises(ServerStartFailed, match="does not begin with an endpoint event"),
    ):
        async with serving(older(peer)):
            pass


async def test_broken_stream_fails_the_start(peer: SsePeer, serving: Open) -> None:
    peer.endpoint, peer.promised = "", 10
    with (
        pytest.raises(ServerStartFailed, match="failed to start: peer closed connection"),
    ):
        async with serving(older(peer)):
            pass


async def test_notification_is_bounded(autojump_clock: MockClock) -> None:
    async def hang(_: bytes) -> None:
        await trio.sleep_forever()

    notification = types.JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
    with trio.fail_after(60):
        await Posts(hang, cast(Any, None)).send(SessionMessage(notification))
    assert trio.current_time() == http.SIDE_TIMEOUT


async def test_failed_post_is_the_reply_to_its_request() -> None:
    replies: list[SessionMessage] = []

    async def fail(_: bytes) -> tuple[int, str, object]:
        return UNREACHABLE, "refused", {"sent": False}

    async def note(reply: SessionMessage) -> None:
        replies.append(reply)

    request = types.JSONRPCRequest(jsonrpc="2.0", id=7, method="tools/list")
    await Posts(fail, cast(Any, SimpleNamespace(send=note))).send(SessionMessage(request))
    [reply] = [item.message for item in replies]
    assert isinstance(reply, types.JSONRPCError)
    assert (reply.id, reply.error.code, reply.error.message) == (7, UNREACHABLE, "refused")
