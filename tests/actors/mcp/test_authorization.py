"""Servers that want a token, over real sockets: 401 and 403, at the start and later."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.mcp import connection
from stopgo.actors.mcp.admission import Admission
from stopgo.actors.mcp.caller import ToolCaller
from stopgo.actors.mcp.connection import ServerConnection
from stopgo.actors.mcp.transports import http
from stopgo.actors.servers.server_status import ServerStartFailed, ServerStatus
from stopgo.actors.tools.needs import Wanted
from stopgo.actors.tools.tool import (
    Authenticate,
    CallTool,
    Elicitation,
    ElicitationAnswer,
    ListTools,
    ServerMessage,
    ToolAuthRequired,
    ToolOutcomeUnknown,
)
from stopgo.config.sections.mcp import McpServerConfig, OAuthConfig
from stopgo.runtime.ref import ActorRef
from stopgo.runtime.restart import Backoff
from tests.actors.mcp.conftest import HttpPeer
from tests.actors.mcp.sse_peer import sse_peer
from tests.actors.mcp.test_questions import asking_server
from tests.canary import TOKEN
from tests.waiting import until

Open = Callable[[McpServerConfig], AbstractAsyncContextManager[ActorRef[ServerMessage]]]

CHALLENGE = 'Bearer realm="test"'


@pytest.fixture(autouse=True)
def no_process_left() -> None:
    """Not here, because the servers of this module are children of this process."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], Path]]:
    """Addresses by transport, and the ledger of all calls."""
    ledger = tmp_path_factory.mktemp("guarded") / "ledger.jsonl"
    env = {**os.environ, "TOKENS": "+", "LEDGER": str(ledger)}
    with asking_server("http", env) as http, asking_server("sse", env) as sse:
        yield {"http": http, "sse": sse}, ledger


def entries(ledger: Path, text: str) -> list[list[Any]]:
    """The calls with this text that arrived: tool, text and token."""
    found = [json.loads(line) for line in ledger.read_text().splitlines()] if ledger.exists() else []
    return [entry for entry in found if entry[1] == text]


def state(statuses: list[ServerStatus]) -> str:
    return statuses[-1].state


def web(url: str, **changes: Any) -> McpServerConfig:
    return McpServerConfig(name="web", url=url, **{"timeout": 600.0, "connect_timeout": 600.0, **changes})


@pytest.mark.parametrize(("kind", "mode"), [("http", "auto"), ("http", "legacy"), ("sse", "legacy")])
async def test_server_that_refuses_to_connect_waits_for_a_token(
    guarded: tuple[dict[str, str], Path],
    serving: Open,
    statuses: list[ServerStatus],
    kind: str,
    mode: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    urls, ledger = guarded
    text = f"{kind} {mode}"
    async with serving(web(urls[kind], mode=mode, transport=kind)) as server:
        assert state(statuses) == "auth_required"
        assert statuses[-1].wanted == Wanted("web", 401, CHALLENGE)
        assert statuses[-1].tools == ()
        # Calls without a token, or with a bad one, are refused.
        for bearer, status in ((None, 401), ("bad", 401), ("poor-one", 403)):
            with pytest.raises(ToolAuthRequired) as caught:
                await server.ask(CallTool("look", {"text": text}, bearer))
            assert caught.value.status == status
        assert caught.value.challenge == 'Bearer error="insufficient_scope"'
        assert statuses[-1].wanted == Wanted("web", 403, 'Bearer error="insufficient_scope"')
        await server.ask(Authenticate("good-first"))
        assert state(statuses) == "connected"
        assert not statuses[-1].wanted
        assert "look" in [tool.name for tool in await server.ask(ListTools())]
        # From here on each call uses its own token.
        assert (await server.ask(CallTool("look", {"text": text}, "good-second"))).content == text
        with pytest.raises(ToolAuthRequired) as caught:
            await server.ask(CallTool("look", {"text": text}))
        assert (caught.value.status, caught.value.challenge) == (401, CHALLENGE)
        assert str(caught.value) == 'MCP server "web" answered HTTP 401 Unauthorized'
        with pytest.raises(ToolAuthRequired):
            await server.ask(CallTool("look", {"text": text}, "poor-two"))
        assert state(statuses) == "connected"
        said = ElicitationAnswer("accept", {"name": "Ada"})

        async def say(_: Elicitation) -> ElicitationAnswer:
            return said

        if mode == "legacy":
            asked = await server.ask(CallTool("ask", {"text": text}, "good-third", on_elicitation=say))
            assert asked.content == "Ada likes blue"
    tokens = [token for _, _, token in entries(ledger, text)]
    assert tokens == ["Bearer good-second", *(["Bearer good-third"] if mode == "legacy" else [])]
    assert "good-" not in caplog.text
    assert "poor-" not in caplog.text


async def test_token_quoted_by_the_server_is_masked(
    http_peer: HttpPeer, serving: Open, statuses: list[ServerStatus], caplog: pytest.LogCaptureFixture
) -> None:
    http_peer.on_connect = 401
    http_peer.headers = {"WWW-Authenticate": f'Bearer error_description="{TOKEN} has expired"'}
    told = 'Bearer error_description="*** has expired"'
    async with serving(web(http_peer.url)) as server:
        await server.ask(Authenticate(TOKEN))
        assert statuses[-1].wanted == Wanted("web", 401, told)
        with pytest.raises(ToolAuthRequired) as caught:
            await server.ask(CallTool("look", {}, TOKEN))
        assert caught.value.challenge == told
        http_peer.on_connect, http_peer.connect_error = 400, f"no such token: {TOKEN}"
        await server.ask(Authenticate(TOKEN))
        assert (state(statuses), statuses[-1].error) == ("disconnected", "no such token: ***")
    mine = web(http_peer.url, headers={"X-Api-Key": TOKEN, "X-Version": "no"})
    with pytest.raises(ServerStartFailed, match=r"failed to start: no such token: \*\*\*$"):
        async with serving(mine):
            pass
    assert TOKEN not in caplog.text


async def test_token_of_a_call_connects(
    guarded: tuple[dict[str, str], Path], serving: Open, statuses: list[ServerStatus]
) -> None:
    urls, _ = guarded
    async with serving(web(urls["http"])) as server:
        async with trio.open_nursery() as nursery:
            for number in range(5):
                request = CallTool("look", {"text": "five"}, f"good-{number}")
                nursery.start_soon(server.ask, request)
        assert statuses[-1].state == "connected"


async def test_token_repairs_lost_connections_until_refused(
    http_peer: HttpPeer, serving: Open, statuses: list[ServerStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "STREAM_PAUSE", 0.01)
    http_peer.token = "good-a"
    http_peer.streams = ["end", "404"]  # the second shows that the session is lost
    async with serving(web(http_peer.url)) as server:
        await server.ask(Authenticate("good-a"))
        await until(lambda: [each.state for each in statuses].count("connected") == 2)
        http_peer.session, http_peer.token = "second", "good-b"
        # The call finds the session lost. The next connection refuses good-a and takes the call's own token.
        assert (await server.ask(CallTool("echo", {}, "good-b"))).content == "echo"
        refused = [each for each in statuses if each.state == "auth_required"][-1]
        assert "echo" in [tool.name for tool in refused.tools]  # the tools stay known
    assert http_peer.calls == [("echo", "Bearer good-b")]


async def test_agent_obtains_its_own_token(
    guarded: tuple[dict[str, str], Path], serving: Open, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    url, ledger = guarded[0]["http"], guarded[1]
    mine = OAuthConfig(client_id="me", client_secret="hush-hush", issuer=url.removesuffix("/mcp"))
    async with serving(web(url, oauth=mine)) as server:
        assert (await server.ask(CallTool("look", {"text": "oauth"}))).content == "oauth"
    assert [token for _, _, token in entries(ledger, "oauth")] == ["Bearer good-of-the-agent"]
    for wrong in (
        attrs.evolve(mine, client_secret="forgotten"),
        attrs.evolve(mine, issuer="http://127.0.0.1:1"),
    ):
        with pytest.raises(ServerStartFailed, match="no token could be obtained: "):
            async with serving(web(url, oauth=wrong)):
                pass
    for secret in ("hush-hush", "forgotten", "good-of-the-agent"):
        assert secret not in caplog.text


async def test_server_that_stops_wanting_a_token_connects(
    http_peer: HttpPeer, serving: Open, statuses: list[ServerStatus], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proxy in front of the server may have refused for a while."""
    monkeypatch.setattr(connection, "ADMISSIONS", Backoff(first=0.1, limit=0.1))
    http_peer.on_connect = 403
    async with serving(web(http_peer.url)) as server:
        assert state(statuses) == "auth_required"
        await until(lambda: len(statuses) == 4)
        http_peer.on_connect = 200
        await until(lambda: state(statuses) == "connected")
        # The attempts in between are not reported.
        assert {status.state for status in statuses[1:-1]} == {"auth_required"}
        assert (await server.ask(CallTool("echo", {}))).content == "echo"
    assert http_peer.other_bearers == []


async def test_token_offered_after_admission_does_not_wait(autojump_clock: MockClock) -> None:
    admission = Admission()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(admission.offer, "late")
        await wait_all_tasks_blocked()
        admission.judge(admitted=False)
        await wait_all_tasks_blocked()
        assert nursery.child_tasks
        admission.judge(admitted=True)
    assert admission.bearer is None


async def test_closed_admission_releases_offers(autojump_clock: MockClock) -> None:
    admission = Admission()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(admission.offer, "before")
        await wait_all_tasks_blocked()
        admission.close()
    await admission.offer("after")


class Moody(httpx2.Auth):
    """Fails before a request is sent, or after it is answered."""

    mood = "calm"

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self.mood == "before":
            raise KeyError("hush-hush")
        if self.mood == "unreachable":
            raise httpx2.ConnectError("nobody there")
        yield request
        if self.mood == "after":
            raise RuntimeError("hush-hush")


@pytest.mark.parametrize("kind", ["http", "sse"])
async def test_missing_credentials_fail_one_call_only(
    http_peer: HttpPeer, statuses: list[ServerStatus], nursery: trio.Nursery, kind: str
) -> None:
    auth = Moody()
    with sse_peer() as older:
        peer = older if kind == "sse" else http_peer
        config = web(peer.url, transport=kind)
        owner = ServerConnection(config, statuses.append, auth)
        caller = ToolCaller(config, owner.current, owner.authenticate)
        nursery.start_soon(owner.run)
        await owner.started()
        for auth.mood, said in (("before", "KeyError"), ("unreachable", "ConnectError")):
            result = await caller.call(CallTool("echo", {}))
            assert (result.is_error, result.content) == (True, f"no token could be obtained: {said}")
        assert peer.calls == []
        auth.mood = "after"
        with pytest.raises(ToolOutcomeUnknown, match="no token could be obtained: RuntimeError"):
            await caller.call(CallTool("silent" if kind == "sse" else "echo", {}))
        auth.mood = "calm"
        assert (await caller.call(CallTool("echo", {}))).content == "echo"
        assert len(peer.calls) == 2
        assert [status.state for status in statuses] == ["connecting", "connected"]
        await owner.stop()


async def test_token_does_not_replace_static_headers(
    guarded: tuple[dict[str, str], Path], serving: Open
) -> None:
    urls, ledger = guarded
    mine = web(urls["http"], headers={"Authorization": "Bearer good-mine"})
    async with serving(mine) as server:
        assert (await server.ask(CallTool("look", {"text": "static"}))).content == "static"
    assert [token for _, _, token in entries(ledger, "static")] == ["Bearer good-mine"]
    with pytest.raises(ServerStartFailed, match="HTTP 401 Unauthorized"):
        async with serving(web(urls["http"], headers={"authorization": "Bearer wrong"})):
            pass


async def test_stopping_does_not_wait_for_a_token(
    guarded: tuple[dict[str, str], Path], serving: Open
) -> None:
    urls, _ = guarded
    async with serving(web(urls["http"])) as server:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.ask, Authenticate("bad"))
            await wait_all_tasks_blocked()  # it waits for the server's answer
            nursery.cancel_scope.cancel()
        await server.ask(Authenticate("good-after"))
        assert (await server.ask(CallTool("look", {"text": "later"}, "good-x"))).content == "later"
