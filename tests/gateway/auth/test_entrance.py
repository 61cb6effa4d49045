"""Requests and streams of an agent with `auth:`, over real sockets, with real keys."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked
from trio_websocket import ConnectionClosed, ConnectionRejected, WebSocketConnection

from stopgo.actors.access.principal import all_grants
from stopgo.actors.log.words.events import MessageAdded
from stopgo.config.sections.auth import AuthConfig, PrincipalLimits
from stopgo.gateway.app import make_app
from stopgo.gateway.auth.api_keys import ApiKeys
from stopgo.gateway.auth.authenticator import Authenticator
from stopgo.gateway.auth.key_changes import new_key, revoked
from stopgo.gateway.auth.key_file import KeyFile
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.http_server import HttpServer
from stopgo.gateway.http.quart_app import Application
from stopgo.gateway.log_lines import JsonLogLines, LogLines
from stopgo.runtime.clock import system_clock

from .web_sockets import socket

PUBLIC = {
    "/",
    "/.well-known/agent-card.json",
    "/.well-known/agent.json",
    "/docs",
    "/docs/json",
    "/favicon.ico",
    "/health",
    "/health/ready",
    "/openapi.json",
    "/page/sign-in",
    "/page/{name}",
}
FURTHER = 50
"""Events that are offered to a stream whose credential has ended."""
SAID = MessageAdded("more", "c9")
CONVERSATION = f"/conversations/{ex.CONVERSATION_ID}"


@attrs.define(eq=False)
class Site:
    """A served agent with API keys."""

    server: HttpServer
    client: httpx2.AsyncClient
    agent: Any
    file: KeyFile
    keys: ApiKeys

    def add(self, name: str = "ci", *roles: str) -> str:
        """A new key, known to the server."""
        with self.file.changing() as stored:
            key, text = new_key(stored, name, roles or ("admin",), None, now=system_clock())
            stored.append(key)
        self.keys.poll()
        return text

    def revoke(self, name: str = "ci") -> None:
        with self.file.changing() as stored:
            stored[:] = revoked(stored, name, now=system_clock())
        self.keys.poll()


@pytest.fixture
def auth() -> AuthConfig:
    return AuthConfig(api_keys=True)


@pytest.fixture
async def site(
    agent: Any, serve: Callable[..., Any], auth: AuthConfig, tmp_path: Path
) -> AsyncIterator[Site]:
    agent.config = attrs.evolve(agent.config, auth=auth)
    file = KeyFile.in_directory(tmp_path)
    keys = ApiKeys(file, all_grants({}))
    async with serve(agent, Authenticator(auth, keys)) as (server, client):
        yield Site(server, client, agent, file, keys)


def routes(app: Application) -> dict[str, set[str]]:
    """Methods by path; a websocket has the method WS."""
    found: dict[str, set[str]] = {}
    for rule in app.url_map.iter_rules():
        path = re.sub(r"<(?:path:)?(\w+)>", r"{\1}", rule.rule)
        methods = {"WS"} if rule.websocket else (rule.methods or set()) - {"HEAD", "OPTIONS"}
        found[path] = found.get(path, set()) | methods
    return found


def filled(path: str) -> str:
    """The path with values for its variables."""
    values = {"id": ex.CONVERSATION_ID, "uuid": ex.APPROVAL_ID, "name": "main.js", "path": "v1/card"}
    return path.format_map({name: values.get(name, "x") for name in re.findall(r"{(\w+)}", path)})


async def test_each_route_but_the_public_ones_needs_a_credential(site: Site) -> None:
    app = make_app(site.agent, authenticator=Authenticator(AuthConfig(api_keys=True), site.keys))
    open_to_all = set()
    for path, methods in routes(app).items():
        for method in methods - {"WS"}:
            for headers in ({}, {"X-API-Key": "sg_1_" + "0" * 48}):
                async with site.client.stream(method, filled(path), headers=headers) as answer:
                    if answer.status_code != 401:
                        open_to_all.add(path)
                        continue
                    assert json.loads(await answer.aread())["code"] == "unauthenticated"
                    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="stopgo"'
        if "WS" in methods:
            with pytest.raises(BaseExceptionGroup) as refused:
                async with socket(site.server, filled(path), None):
                    pass
            assert isinstance(rejected := refused.value.exceptions[0], ConnectionRejected)
            assert rejected.status_code == 401
            assert b'"unauthenticated"' in (rejected.body or b"")
    assert open_to_all == PUBLIC
    assert site.agent.calls == []


async def test_options_and_unknown_paths_need_no_credential(site: Site) -> None:
    assert (await site.client.options("/conversations")).headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    assert (await site.client.get("/unknown")).status_code == 404
    assert (await site.client.put("/conversations")).status_code == 405


async def test_a_key_is_accepted_in_either_header(site: Site) -> None:
    for header, value in (("X-API-Key", "{}"), ("Authorization", "Bearer {}")):
        headers = {header: value.format(site.add())}
        assert (await site.client.get("/conversations", headers=headers)).status_code == 200
        site.revoke()
        assert (await site.client.get("/conversations", headers=headers)).status_code == 401


async def test_the_log_says_who_sent_a_request(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="stopgo")
    subject = "eve conversation=forged"
    with site.file.changing() as stored:
        key, text = new_key(stored, "eve", ("viewer",), subject, now=system_clock())
        stored.append(key)
    site.keys.poll()
    for headers, status in (({"X-API-Key": text}, 204), ({}, 401), ({"X-API-Key": "wrong"}, 401)):
        answer = await site.client.delete(CONVERSATION, headers={**headers, "X-Session-ID": "mine"})
        assert answer.status_code == status
        await wait_all_tasks_blocked(0.02)  # a request is logged when its answer has left
    allowed, nobody, wrong = (each for each in caplog.records if each.name == "stopgo.access")
    assert LogLines().format(allowed).endswith(" by='eve conversation=forged'")
    assert json.loads(JsonLogLines().format(allowed))["by"] == subject
    assert " by=" not in LogLines().format(nobody) + LogLines().format(wrong)
    assert "by" not in json.loads(JsonLogLines().format(wrong))
    assert "a credential of the client 127.0.0.1 is refused: it is no valid API key" in caplog.messages


async def test_readiness_is_short_without_a_credential_that_has_a_role(site: Site) -> None:
    key, no_role = site.add(), site.add("nobody", "no-such-role")
    for ready, status, word in ((True, 200, "ready"), (False, 503, "not_ready")):
        site.agent.ready = ready
        for headers in (
            {},
            {"X-API-Key": "wrong"},
            {"X-API-Key": key, "Authorization": f"Bearer {key}"},
            {"X-API-Key": no_role},
        ):
            answer = await site.client.get("/health/ready", headers=headers)
            assert (answer.status_code, answer.json()) == (status, {"status": word})
        whole = await site.client.get("/health/ready", headers={"X-API-Key": key})
        assert whole.status_code == status
        assert {"status", "mcp_servers", "models", "store"} <= whole.json().keys()


@pytest.mark.parametrize("path", [f"{CONVERSATION}/events", "/events"])
async def test_event_streams_end_with_the_credential(site: Site, path: str) -> None:
    key = site.add()
    async with site.client.stream("GET", path, headers={"X-API-Key": key}) as answer:
        lines = answer.aiter_lines()
        for _ in site.agent.log:
            while not (await anext(lines)).startswith("data: "):
                pass
        site.revoke()
        last: str | None = ""
        for _ in range(FURTHER):
            site.agent.grow(SAID)
            if (line := await anext(lines, None)) is None:
                break
            last = line
        else:
            pytest.fail("the stream goes on without its credential")
        assert last == ""
    assert (await site.client.get(path, headers={"X-API-Key": key})).status_code == 401


async def get_further(site: Site, connection: WebSocketConnection) -> None:
    for _ in range(FURTHER):
        site.agent.grow(SAID)
        await connection.get_message()


@pytest.mark.parametrize("path", [f"{CONVERSATION}/ws", "/events/ws"])
async def test_websockets_end_with_the_credential(site: Site, path: str) -> None:
    key, other = site.add(), site.add("other")
    async with socket(site.server, path, key) as ending, socket(site.server, path, other) as staying:
        for connection in (ending, staying):
            assert "conversation.created" in await connection.get_message()
        site.revoke()
        with pytest.raises(ConnectionClosed) as caught:
            await get_further(site, ending)
        assert caught.value.reason is not None
        assert (caught.value.reason.code, caught.value.reason.reason) == (1008, "credential ended")
        assert "seq" in await staying.get_message()


async def test_the_token_for_tools_is_not_the_credential(site: Site) -> None:
    key = site.add()
    for headers, token in (
        ({"X-API-Key": key, "Authorization": "Bearer B"}, "B"),
        ({"X-API-Key": key, "X-Tool-Authorization": "Bearer T", "Authorization": "Bearer B"}, "T"),
        ({"Authorization": f"Bearer {key}", "X-Tool-Authorization": "Bearer T"}, "T"),
        ({"Authorization": f"Bearer {key}"}, None),
    ):
        answer = await site.client.post("/conversations", json={"message": "hello"}, headers=headers)
        assert answer.status_code == 201
        assert site.agent.calls[-1][2]["token"] == token
    answer = await site.client.post(
        "/conversations", json={}, headers={"X-API-Key": key, "Authorization": f"Bearer {key}"}
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "credential_as_tool_token")


@pytest.mark.parametrize("auth", [AuthConfig(api_keys=True, limits=PrincipalLimits(streams=2))], ids=["2"])
async def test_streams_of_a_principal_are_limited(site: Site) -> None:
    """Of all kinds together, and of all its keys."""
    first, second, other = site.add(), site.add(), site.add("other")
    async with AsyncExitStack() as opened:
        answer = await opened.enter_async_context(
            site.client.stream("GET", "/events", headers={"X-API-Key": first})
        )
        assert answer.status_code == 200
        async with socket(site.server, f"{CONVERSATION}/ws", second) as connection:
            await connection.get_message()
            for path in ("/events", f"{CONVERSATION}/events"):
                answer = await site.client.get(path, headers={"X-API-Key": second})
                assert (answer.status_code, answer.json()["code"]) == (429, "limit_reached")
                assert int(answer.headers["Retry-After"]) > 0
            with pytest.raises(BaseExceptionGroup) as refused:
                async with socket(site.server, "/events/ws", first):
                    pass
            assert isinstance(rejected := refused.value.exceptions[0], ConnectionRejected)
            assert rejected.status_code == 429
            async with site.client.stream("GET", "/events", headers={"X-API-Key": other}) as answer:
                assert answer.status_code == 200
            assert (await site.client.get("/conversations", headers={"X-API-Key": first})).status_code == 200
        await wait_all_tasks_blocked(0.01)
        async with site.client.stream("GET", "/events", headers={"X-API-Key": second}) as answer:
            assert answer.status_code == 200


@pytest.mark.parametrize(
    "auth", [AuthConfig(api_keys=True, limits=PrincipalLimits(requests_per_minute=2))], ids=["2"]
)
async def test_requests_of_a_principal_are_limited(site: Site, autojump_clock: MockClock) -> None:
    """Refused credentials do not count."""
    first, second, other = site.add(), site.add(), site.add("other")
    statuses = [
        (await site.client.get("/conversations", headers={"X-API-Key": key})).status_code
        for key in (first, "wrong", second, first, second, other)
    ]
    assert statuses == [200, 401, 200, 429, 429, 200]
    answer = await site.client.get("/conversations", headers={"X-API-Key": first})
    assert answer.json()["code"] == "limit_reached"
    await trio.sleep(int(answer.headers["Retry-After"]))
    assert (await site.client.get("/conversations", headers={"X-API-Key": first})).status_code == 200


def test_an_agent_with_authentication_is_not_served_without_it(agent: Any, auth: AuthConfig) -> None:
    agent.config = attrs.evolve(agent.config, auth=auth)
    with pytest.raises(ValueError, match="without authentication"):
        make_app(agent)
