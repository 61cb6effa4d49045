"""The actor against servers that speak Streamable HTTP, over real sockets."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from typing import Any

import attrs
import pytest
import trio
from mcp_types import HEADER_MISMATCH
from trio.testing import MockClock

from stopgo.actors.mcp.transports import http
from stopgo.actors.mcp.transports.streamable import StreamableHttp
from stopgo.actors.mcp.wire.failures import NOT_UNDERSTOOD, SERVER_FAILED, SESSION_LOST, UNREACHABLE
from stopgo.actors.mcp.wire.requests import FIRST_ID
from stopgo.actors.mcp.wire.wire import EMPTY_RESULT
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.tool import CallTool, ListTools, ServerMessage, ToolOutcomeUnknown, ToolUnavailable
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from tests.actors.mcp.conftest import LONG, HttpPeer, attempts_end, serving_peer, times_out
from tests.actors.mcp.test_streamable import call
from tests.waiting import until

Open = Callable[..., AbstractAsyncContextManager[ActorRef[ServerMessage]]]


def web(url: str, **changes: Any) -> McpServerConfig:
    return McpServerConfig(name="web", url=url, **{"timeout": 600.0, "connect_timeout": 600.0, **changes})


async def test_tools_and_calls(http_peer: Any, serving: Open) -> None:
    async with serving(web(http_peer.url)) as server:
        assert [tool.name for tool in await server.ask(ListTools())] == ["echo", "slow"]
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.calls == [("echo", None)]
    assert http_peer.ended == ["first"]


async def test_token_is_sent_with_its_own_call_only(
    http_peer: Any, serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    http_peer.slow.set()
    async with serving(web(f"{http_peer.url}?key=secret-key", max_concurrency=8)) as server:
        async with trio.open_nursery() as asking:
            for n in range(8):
                tool = "echo" if n % 2 else "slow"
                bearer = None if n == 0 else f"secret-{n}"
                asking.start_soon(server.ask, CallTool(tool, {"n": n}, bearer=bearer))
        await server.ask(CallTool("echo", {}))
    expected = [("slow", None), *(("echo" if n % 2 else "slow", f"Bearer secret-{n}") for n in range(1, 8))]
    assert sorted(http_peer.calls[:-1], key=str) == sorted(expected, key=str)
    assert http_peer.calls[-1] == ("echo", None)
    assert http_peer.other_bearers == []
    assert "secret" not in caplog.text
    assert "secret" not in repr(CallTool("echo", {}, bearer="secret"))


@pytest.mark.parametrize(
    ("status", "text"),
    [(409, "HTTP 409 Conflict"), (429, "HTTP 429 Too Many Requests")],
)
async def test_refused_call_is_an_answer(http_peer: Any, serving: Open, status: int, text: str) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = str(status)
        result = await server.ask(CallTool("echo", {}, bearer="secret"))
        http_peer.on_call = "answer"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert (result.is_error, result.content) == (True, text)


async def test_idle_connection_is_not_reused(
    http_peer: Any, serving: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "KEEP_ALIVE", -1.0)  # over before it is idle
    async with serving(web(http_peer.url)) as server:
        for _ in range(2):
            await server.ask(CallTool("echo", {}))
    first, second = http_peer.callers
    assert first != second


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_request_on_a_closed_connection_is_sent_again(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], mode: Any
) -> None:
    http_peer.leaves = 1
    async with serving(web(http_peer.url, mode=mode)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.leaves == 0
    assert [each.state for each in statuses] == ["connecting", "connected"]
    assert [each["method"] for each in http_peer.notifications] == ["notifications/initialized"]


async def test_event_stream_is_utf_8_despite_its_charset(http_peer: Any, serving: Open) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = "stream"
        assert (await server.ask(CallTool("echo", {}))).content == EMPTY_RESULT


async def test_redirect_elsewhere_is_not_followed(http_peer: Any, serving: Open) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = "307 http://elsewhere.invalid/caf\xe9"
        result = await server.ask(CallTool("echo", {}))
        http_peer.on_call = "answer"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert result.content.startswith("Redirect to http://elsewhere.invalid/caf%C3%A9 not followed")


async def test_header_mismatch_has_no_meaning_in_older_eras(http_peer: Any, serving: Open) -> None:
    """In older eras the code is the server's own, so the call may have run and is not repeated."""
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = str(HEADER_MISMATCH)
        assert (await server.ask(CallTool("echo", {}))).content == "refused"
    assert len(http_peer.calls) == 1


@pytest.mark.parametrize("code", [SESSION_LOST, UNREACHABLE, SERVER_FAILED, NOT_UNDERSTOOD])
async def test_our_own_code_from_a_server_is_an_ordinary_error(
    http_peer: Any, serving: Open, code: int
) -> None:
    """As our own code it would mean that the call never ran, and the call would be repeated."""
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = str(code)
        assert (await server.ask(CallTool("echo", {}))).content == "refused"
    assert len(http_peer.calls) == 1


async def test_gateway_error_leaves_the_outcome_unknown(
    http_peer: Any, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = "502"
        with pytest.raises(ToolOutcomeUnknown, match="HTTP 502 Bad Gateway"):
            await server.ask(CallTool("echo", {}))
        http_peer.on_call = "answer"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert len(http_peer.calls) == 2
    connect = ["connecting", "connected"]
    assert [status.state for status in statuses] == [*connect, "disconnected", *connect]


async def test_lost_reply_does_not_affect_other_calls(http_peer: Any, serving: Open) -> None:
    contents: list[str] = []

    async def slow(server: ActorRef[ServerMessage]) -> None:
        contents.append((await server.ask(CallTool("slow", {}))).content)

    async with serving(web(http_peer.url, max_concurrency=2)) as server:
        async with trio.open_nursery() as asking:
            asking.start_soon(slow, server)
            await until(lambda: bool(http_peer.calls))
            http_peer.on_call = "hang_up"
            with pytest.raises(ToolOutcomeUnknown, match="connection lost"):
                await server.ask(CallTool("echo", {}))
            http_peer.on_call = "answer"
            http_peer.slow.set()
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert contents == ["slow"]
    assert [tool for tool, _ in http_peer.calls] == ["slow", "echo", "echo"]


@pytest.mark.parametrize("answer", [(404, ""), (400, "no valid session"), (410, "")])
async def test_lost_session_is_reopened_and_call_runs_once(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], answer: tuple[int, str]
) -> None:
    http_peer.unknown_session = answer
    async with serving(web(http_peer.url)) as server:
        http_peer.session = "second"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.calls == [("echo", None)]
    connect = ["connecting", "connected"]
    assert [status.state for status in statuses] == [*connect, "disconnected", *connect]


async def test_session_that_a_gateway_lost_is_reopened_and_the_call_is_unknown(
    http_peer: Any, serving: Open, statuses: list[ServerStatus]
) -> None:
    http_peer.unknown_session = (503, "no backend")
    async with serving(web(http_peer.url)) as server:
        http_peer.session = "second"
        with pytest.raises(ToolOutcomeUnknown, match="HTTP 503 Service Unavailable"):
            await server.ask(CallTool("echo", {}))
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.calls == [("echo", None)]


@pytest.mark.parametrize("answer", [(500, ""), (409, ""), (400, '{"detail": "bad request"}')])
async def test_session_in_which_everything_fails_is_given_up(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], answer: tuple[int, str]
) -> None:
    """Nothing in such an answer is about the session; listing the tools shows that it is lost."""
    http_peer.unknown_session = answer
    async with serving(web(http_peer.url)) as server:
        http_peer.session = "second"
        with suppress(ToolOutcomeUnknown):
            assert (await server.ask(CallTool("echo", {}))).is_error
        await until(lambda: statuses[-1].state != "connected")
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.calls == [("echo", None)]


async def test_session_is_kept_if_only_a_call_fails(
    http_peer: Any, serving: Open, statuses: list[ServerStatus]
) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = "500"
        with pytest.raises(ToolOutcomeUnknown):
            await server.ask(CallTool("echo", {}))
        listed = len(http_peer.seen)
        await until(lambda: len(http_peer.seen) > listed)
        http_peer.on_call = "answer"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert [status.state for status in statuses] == ["connecting", "connected"]


NOTIFICATION = (
    b'{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}}'
)


@pytest.mark.parametrize(
    ("before", "after", "media_type"),
    [
        (b"[", b"]", "application/json"),  # MCP 2025-03-26, "Batching"
        (b"[%s, " % NOTIFICATION, b"]", "application/json"),
        (b"[", b", %s]" % NOTIFICATION, "Application/JSON; charset=UTF-8"),
        (b"\xef\xbb\xbf", b"", "application/json"),  # .NET
        (b"\r\n", b"\r\n", "application/json;charset=utf-8"),
        (b"data: ", b"\n\n", "text/event-stream; charset=utf-8"),
        (b"event: message\r\ndata: [%s, " % NOTIFICATION, b"]\r\n\r\n", "text/event-stream"),
        (b"", b"", "text/json"),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_every_reply_may_be_framed_oddly(
    http_peer: Any, serving: Open, before: bytes, after: bytes, media_type: str, mode: Any
) -> None:
    http_peer.before, http_peer.after, http_peer.media_type = before, after, media_type
    async with serving(web(http_peer.url, mode=mode)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


@pytest.mark.parametrize("status", [307, 308])
async def test_every_request_follows_a_redirect_within_the_server(
    http_peer: Any, serving: Open, status: int
) -> None:
    """A Starlette mount redirects to the address with a slash (MCP python-sdk#1168)."""
    http_peer.moved = status
    config = attrs.evolve(web(http_peer.url), mode="legacy", headers={"x-key": "secret"})
    async with serving(config) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.ended == ["first"]
    assert {each.get("x-key") for each in http_peer.seen} == {"secret"}


async def test_hanging_call_times_out(http_peer: Any, serving: Open, clock: MockClock) -> None:
    async with serving(web(http_peer.url)) as server:
        said = await times_out(server, CallTool("slow", {}), lambda: bool(http_peer.calls), clock)
        assert said == 'MCP server "web" timed out after 600 s'
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


@pytest.mark.parametrize("how", ["cut", "break"])
async def test_cut_stream_is_resumed(http_peer: Any, serving: Open, how: str) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = how
        assert (await server.ask(CallTool("echo", {}, bearer="secret"))).content == "resumed"
    assert http_peer.resumed == ["first", "first+"]
    assert http_peer.other_bearers == []


async def test_resumed_stream_is_not_the_servers_own(http_peer: Any) -> None:
    """The own stream causes a new listing, and a 404 on it means that the session is lost."""
    streams: list[None] = []
    client = http.http_client(
        headers={},
        auth=None,
        on_lost=lambda _: None,
        on_stream=lambda: streams.append(None),
        on_session=lambda _: None,
    )
    way = StreamableHttp(http_peer.url, lambda: None)
    http_peer.on_call = "cut"
    async with way.open(client):
        assert "content" in await way.request(call())
    assert len(http_peer.resumed) == 2
    assert streams == []


async def test_servers_own_stream_is_reopened_after_any_failure(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "STREAM_PAUSE", 0.01)
    monkeypatch.setattr(http, "STREAMS", Backoff(first=0.01, limit=0.05))
    http_peer.streams = ["503", "500", "502", "cut", "cut", "cut", "end", "503", "tell"]
    async with serving(web(http_peer.url)):
        await until(lambda: "fresh" in [tool.name for tool in statuses[-1].tools])
    assert [status.state for status in statuses] == ["connecting", "connected", "connected"]


async def test_servers_own_stream_is_reopened_with_pauses(
    http_peer: Any, serving: Open, monkeypatch: pytest.MonkeyPatch, clock: MockClock
) -> None:
    monkeypatch.setattr(http, "STREAM_PAUSE", 600.0)
    http_peer.streams = ["end"] * 1000

    def opened(at_least: int) -> Callable[[], bool]:
        return lambda: http_peer.opened >= at_least

    async with serving(web(http_peer.url)) as server:
        for times in range(1, 5):
            await until(opened(times))
            for _ in range(5):  # meanwhile it would open more
                await server.ask(CallTool("echo", {}))
            assert http_peer.opened == times
            clock.jump(600.0)


async def test_older_server_is_notified_of_a_cancelled_call(
    http_peer: Any, serving: Open, clock: MockClock
) -> None:
    async with serving(web(http_peer.url)) as server:
        await times_out(server, CallTool("slow", {}), lambda: bool(http_peer.calls), clock)
        await until(lambda: len(http_peer.notifications) >= 2)
    initialized, cancelled = http_peer.notifications
    assert initialized["method"] == "notifications/initialized"
    assert cancelled["method"] == "notifications/cancelled"
    assert cancelled["params"]["requestId"] >= FIRST_ID


@pytest.mark.parametrize("how", ["answer", "stream"])
@pytest.mark.parametrize("headers", [{}, {"content-encoding": "gzip"}], ids=["plain", "gzip"])
async def test_too_long_result_is_abridged_and_call_not_repeated(
    http_peer: Any, serving: Open, how: str, headers: dict[str, str]
) -> None:
    http_peer.on_call, http_peer.headers, http_peer.content = how, headers, "x" * 3_000_000
    async with serving(web(http_peer.url), max_stored_bytes=10_000) as server:
        result = await server.ask(CallTool("echo", {}))
    note, _, text = result.content.partition("\n")
    assert re.search(r"it had 30000\d\d bytes, and tools.max_stored_bytes is 10000", note)
    assert text.strip("x") == ""
    assert 9_000 < len(text) < 10_000
    assert not result.is_error
    assert len(http_peer.calls) == 1


async def test_call_reply_cannot_use_the_limit_of_tool_lists(http_peer: Any, serving: Open) -> None:
    """Only a list may be longer than a result; over HTTP the request tells which of them a reply is."""
    http_peer.reply_id = 2
    http_peer.more = {"tools": []}
    http_peer.content = "x" * 100_000
    async with serving(web(http_peer.url), max_stored_bytes=10_000) as server:
        assert len((await server.ask(CallTool("echo", {}))).content) < 20_000


async def test_too_long_tool_is_left_out_and_server_stays(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], caplog: pytest.LogCaptureFixture
) -> None:
    fields = {f"field_{n}": {"type": "string"} for n in range(20_000)}
    http_peer.listed = ({"name": "huge", "inputSchema": {"type": "object", "properties": fields}},)
    async with serving(web(http_peer.url), max_stored_bytes=10_000) as server:
        assert [tool.name for tool in await server.ask(ListTools())] == ["echo", "slow"]
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    [left_out] = statuses[-1].left_out
    assert re.search(r"\(huge\): its definition has \d+ bytes, more than 262144", left_out)
    assert left_out in caplog.text


async def test_cookies_are_not_sent(http_peer: Any, serving: Open) -> None:
    http_peer.headers = {"set-cookie": "user=ada; path=/"}
    async with serving(web(http_peer.url)) as server:
        for bearer in ("ada", "bob"):
            await server.ask(CallTool("echo", {}, bearer=bearer))
    assert http_peer.cookies == [None, None]


async def test_compressed_reply_is_decompressed(http_peer: Any, serving: Open) -> None:
    http_peer.headers = {"content-encoding": "gzip"}
    async with serving(web(http_peer.url)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


async def test_corrupt_compressed_reply_is_lost(http_peer: Any, serving: Open) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.headers["content-encoding"] = "deflate"
        with pytest.raises(ToolOutcomeUnknown, match="while decompressing"):
            await server.ask(CallTool("echo", {}))
        http_peer.headers.clear()
        assert (await server.ask(CallTool("echo", {}))).content == "echo"


async def test_corrupt_compression_fails_the_start(
    http_peer: Any, serving: Open, statuses: list[ServerStatus], nursery: trio.Nursery, clock: MockClock
) -> None:
    http_peer.headers["content-encoding"] = "deflate"
    nursery.start_soon(attempts_end, statuses, clock)
    with pytest.raises(ServerStartFailed, match="while decompressing"):
        async with serving(web(http_peer.url)):
            pass


async def test_body_of_a_redirect_is_not_read(http_peer: Any, serving: Open) -> None:
    async with serving(web(http_peer.url)) as server:
        http_peer.on_call = "redirect"
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.redirected < LONG


async def test_calls_use_the_session_of_the_handshake(
    http_peer: Any, serving: Open, statuses: list[ServerStatus]
) -> None:
    """A session that only the answer to the probe names is not used."""
    http_peer.session, http_peer.probe_session = None, "stray"
    async with serving(web(http_peer.url)) as server:
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert [status.state for status in statuses] == ["connecting", "connected"]


async def test_invalid_token_is_neither_sent_nor_shown(
    http_peer: Any, serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(web(http_peer.url)) as server:
        result = await server.ask(CallTool("echo", {}, bearer="secret\n"))
    assert (result.is_error, result.content) == (True, "a header of the request is not valid")
    with pytest.raises(ServerStartFailed, match="a header of the request is not valid") as raised:
        async with serving(web(http_peer.url, headers={"Authorization": "Bearer secret\n"})):
            pass
    assert http_peer.calls == []
    assert "secret" not in caplog.text + str(raised.value)


async def test_refused_connection_is_retried_until_the_timeout(
    free_port: int, serving: Open, statuses: list[ServerStatus], nursery: trio.Nursery, clock: MockClock
) -> None:
    nursery.start_soon(attempts_end, statuses, clock)
    with pytest.raises(ServerStartFailed, match=r'^MCP server "web" failed to start: ') as raised:
        async with serving(web(f"http://127.0.0.1:{free_port}/mcp?key=secret")):
            pass
    assert "secret" not in str(raised.value)
    assert str(raised.value).endswith(": connection refused")


async def test_start_waits_for_a_late_server(
    free_port: int, serving: Open, statuses: list[ServerStatus], nursery: trio.Nursery
) -> None:
    with ExitStack() as stack:

        async def start_late() -> None:
            await until(lambda: [status.state for status in statuses].count("connecting") > 1)
            stack.enter_context(serving_peer(HttpPeer(), free_port))

        nursery.start_soon(start_late)
        async with serving(web(f"http://127.0.0.1:{free_port}/mcp")) as server:
            tools = await server.ask(ListTools())
        assert len(tools) == 2


async def test_calls_are_unavailable_while_the_server_is_gone(
    free_port: int, serving: Open, statuses: list[ServerStatus]
) -> None:
    peer, echo = HttpPeer(), CallTool("echo", {})
    with ExitStack() as stack:
        stack.enter_context(serving_peer(peer, free_port))
        async with serving(web(peer.url, max_retries=2)) as server:
            assert not (await server.ask(echo)).is_error
            stack.close()
            with (
                pytest.raises(ToolUnavailable, match=r'MCP server "web" not connected: .*refused'),
            ):
                await server.ask(echo)
            assert statuses[-1].state in ("connecting", "disconnected")
            # Two after the loss, and perhaps the next regular one: `max_retries` also bounds `retry_for`.
            assert [status.state for status in statuses].count("connecting") <= 4
            stack.enter_context(serving_peer(peer, free_port))
            await until(lambda: statuses[-1].state == "connected")
            assert not (await server.ask(echo)).is_error
    assert len(peer.calls) == 2
