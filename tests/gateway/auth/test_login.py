"""The login of the page, its sessions, tickets, and the identities of a proxy, over real sockets."""

from __future__ import annotations

import base64
import hashlib
import logging
import re
import time
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx2
import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, ConnectionRejected

from stopgo.config.sections.auth import AuthConfig, TrustedProxyConfig
from stopgo.gateway.auth.jwt_verifier import LEEWAY
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.contract.operations import OPERATIONS
from stopgo.gateway.http.http_server import HttpServer

from .fake_issuer import ADDRESS, CLIENT, CONFIG, FakeIssuer, authenticating, claims, signed
from .web_sockets import exhaust, socket

SECRET = "s3cret-of-the-proxy"
AUTH = AuthConfig(oidc=CONFIG, proxy=TrustedProxyConfig(secret=SECRET))
STREAM = f"/conversations/{ex.CONVERSATION_ID}/events"
SOCKET = f"/conversations/{ex.CONVERSATION_ID}/ws"


@attrs.define(eq=False)
class Site:
    """A served agent with a login."""

    server: HttpServer
    client: httpx2.AsyncClient
    agent: Any
    issuer: FakeIssuer

    async def begin(self, back: str = "/") -> tuple[dict[str, str], str]:
        """Begin a login: the parameters of the issuer's address, and the cookie."""
        answer = await self.client.get("/login", params={"return": back})
        assert answer.status_code == 303
        sent = {name: value for name, [value] in parse_qs(urlsplit(answer.headers["Location"]).query).items()}
        return sent, answer.headers["Set-Cookie"].partition(";")[0]

    async def come_back(self, cookie: str, **parameters: str | list[str]) -> httpx2.Response:
        headers = {"Cookie": cookie, "Sec-Fetch-Site": "cross-site", **NAVIGATION}
        return await self.client.get("/login/callback", params=parameters, headers=headers)

    async def log_in(self, **id_token: Any) -> dict[str, str]:
        """The headers of a new session, with its CSRF token."""
        sent, cookie = await self.begin()
        self.issuer.id_token = {"nonce": sent["nonce"], **id_token}
        answer = await self.come_back(cookie, state=sent["state"], code="code")
        assert answer.status_code == 200, answer.text
        session = {"Cookie": answer.headers["Set-Cookie"].partition(";")[0]}
        csrf = (await self.client.get("/session", headers=session)).json()["csrf"]
        return {**session, "X-CSRF-Token": csrf}


NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture
async def site(agent: Any, serve: Callable[..., Any]) -> AsyncIterator[Site]:
    agent.config = attrs.evolve(agent.config, auth=AUTH)
    issuer = FakeIssuer()
    async with (
        authenticating(issuer, AUTH) as authenticator,
        serve(agent, authenticator) as (server, client),
    ):
        yield Site(server, client, agent, issuer)


# ----------------------------------------------------------------------------- login


async def test_a_login_begins_a_session(site: Site) -> None:
    answer = await site.client.get("/login", params={"return": "/#/inbox"})
    where = urlsplit(answer.headers["Location"])
    sent = {name: value for name, [value] in parse_qs(where.query).items()}
    assert f"{where.scheme}://{where.netloc}{where.path}" == f"{ADDRESS}/auth"
    callback = f"{site.server.url}/login/callback"
    assert sent == {
        "response_type": "code",
        "client_id": CLIENT,
        "redirect_uri": callback,
        "scope": "openid profile",
        "state": sent["state"],
        "nonce": sent["nonce"],
        "code_challenge": sent["code_challenge"],
        "code_challenge_method": "S256",
    }
    cookie, _, attributes = answer.headers["Set-Cookie"].partition("; ")
    assert cookie.startswith("__Host-stopgo-login=")
    assert attributes == "Path=/; Max-Age=600; Secure; HttpOnly; SameSite=Lax"

    site.issuer.id_token = {"nonce": sent["nonce"], "roles": ["viewer", "operator"]}
    answer = await site.come_back(cookie, state=sent["state"], code="code", iss=ADDRESS, session_state="x")
    assert answer.status_code == 200
    assert '<meta http-equiv="refresh" content="0;url=/#/inbox">' in answer.text
    assert "script-src" not in answer.headers["Content-Security-Policy"]
    [form] = site.issuer.forms
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == sent["code_challenge"]
    assert (form["grant_type"], form["code"], form["redirect_uri"]) == (
        "authorization_code",
        "code",
        callback,
    )
    cookie, _, attributes = answer.headers["Set-Cookie"].partition("; ")
    assert re.fullmatch(r"__Host-stopgo=[\w-]{43}", cookie)
    assert attributes == "Path=/; Max-Age=28800; Secure; HttpOnly; SameSite=Strict"

    session = (await site.client.get("/session", headers={"Cookie": cookie})).json()
    assert (session["subject"], session["roles"]) == ("alice", ["viewer", "operator"])
    assert re.fullmatch("[0-9a-f]{64}", session["csrf"])


async def test_roles_that_the_id_token_lacks_come_from_the_user_info(site: Site) -> None:
    site.issuer.info = {"sub": "alice", "roles": "approver"}
    session = await site.log_in(roles=None)
    assert (await site.client.get("/session", headers=session)).json()["roles"] == ["approver"]


@pytest.mark.parametrize(
    ("changes", "status", "why"),
    [
        ({"state": "guess"}, 400, "not begun in this browser"),
        ({"state": ["{state}", "guess"]}, 400, "has no state"),
        ({"state": None}, 400, "has no state"),
        ({"cookie": ""}, 400, "not begun in this browser"),
        ({"cookie": "__Host-stopgo-login=e30.x"}, 400, "not begun in this browser"),
        ({"code": None, "error": "access_denied"}, 400, "did not log you in"),
        ({"code": None}, 400, "has no code"),
        ({"iss": "https://other.example"}, 400, "another issuer"),
        ({"code": "bad"}, 502, "no valid answer"),
        ({"claim nonce": "of another login"}, 502, "no valid answer"),
        ({"claim nonce": None}, 502, "no valid answer"),
        ({"claim aud": "another-client"}, 502, "no valid answer"),
        ({"claim azp": "another-client"}, 502, "no valid answer"),
        ({"claim exp": 1}, 502, "no valid answer"),
        ({"claim sub": "key:ci"}, 502, "no valid answer"),
        ({"claim roles": None, "info": {"sub": "mallory", "roles": ["admin"]}}, 502, "no valid answer"),
    ],
)
async def test_an_answer_that_does_not_belong_to_the_login_begins_no_session(
    site: Site, changes: dict[str, Any], status: int, why: str
) -> None:
    sent, cookie = await site.begin()
    site.issuer.id_token = {"nonce": sent["nonce"]}
    site.issuer.id_token |= {name[6:]: value for name, value in changes.items() if name.startswith("claim ")}
    site.issuer.info = changes.get("info", {})
    parameters = {"state": sent["state"], "code": "code", **changes}
    if isinstance(parameters["state"], list):
        parameters["state"] = [sent["state"], "guess"]
    names = ("state", "code", "error", "iss")
    given = {name: value for name, value in parameters.items() if name in names and value is not None}
    answer = await site.come_back(changes.get("cookie", cookie), **given)
    assert answer.status_code == status
    assert answer.headers["Content-Type"].startswith("text/html")
    assert why in answer.text
    assert "__Host-stopgo=" not in answer.headers["Set-Cookie"]


async def test_a_callback_is_valid_once(site: Site) -> None:
    sent, cookie = await site.begin()
    site.issuer.id_token = {"nonce": sent["nonce"]}
    for status in (200, 400):
        answer = await site.come_back(cookie, state=sent["state"], code="code")
        assert answer.status_code == status
    assert len(site.issuer.forms) == 1


async def test_a_login_never_adopts_a_session(site: Site) -> None:
    planted = "__Host-stopgo=" + "a" * 43
    sent, cookie = await site.begin()
    site.issuer.id_token = {"nonce": sent["nonce"]}
    answer = await site.come_back(f"{cookie}; {planted}", state=sent["state"], code="code")
    assert planted not in answer.headers["Set-Cookie"]
    assert (await site.client.get("/session", headers={"Cookie": planted})).status_code == 401
    first, second = await site.log_in(), await site.log_in()
    assert first["Cookie"] != second["Cookie"]


@pytest.mark.parametrize("path", ["/login/callback", "/login", "/session", "/conversations"])
async def test_other_sites_may_open_the_callback_only(site: Site, path: str) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", **NAVIGATION}
    status = 400 if path == "/login/callback" else 403
    assert (await site.client.get(path, headers=headers)).status_code == status
    no_navigation = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
    assert (await site.client.get(path, headers=no_navigation)).status_code == 403
    assert (await site.client.post("/login/callback", headers=headers)).status_code == 403


async def test_an_issuer_that_is_away_is_named(site: Site) -> None:
    site.issuer.is_away = True
    answer = await site.client.get("/login")
    assert (answer.status_code, "cannot be reached" in answer.text) == (503, True)
    answer = await site.client.get("/session", headers={"Authorization": f"Bearer {signed()}"})
    assert (answer.status_code, answer.json()["code"]) == (503, "issuer_unavailable")


# -------------------------------------------------------------------------- sessions

CHANGING = [each for each in OPERATIONS if each.method in ("POST", "DELETE")]


async def test_a_session_changes_nothing_without_its_csrf_token(site: Site) -> None:
    session, other = await site.log_in(), await site.log_in()
    routes = [(each.method, each.path) for each in CHANGING] + [("POST", "/page/markdown"), ("POST", "/a2a")]
    for method, path in routes:
        path = path.format(
            id=ex.CONVERSATION_ID, uuid=ex.APPROVAL_ID, name="resources_add", notification="msg_1"
        )
        for token in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": other["X-CSRF-Token"]}):
            headers = {"Cookie": session["Cookie"], **token}
            answer = await site.client.request(method, path, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (403, "invalid_csrf_token"), path
    assert site.agent.calls == []
    answer = await site.client.post("/conversations", headers=session)
    assert answer.status_code == 201


async def test_a_logout_ends_the_session_with_its_streams(site: Site) -> None:
    session, other = await site.log_in(), await site.log_in()
    async with site.client.stream("GET", STREAM, headers=session) as stream:
        lines = stream.aiter_lines()
        await anext(lines)
        answer = await site.client.post("/logout", headers=session)
        assert answer.status_code == 204
        assert answer.headers["Set-Cookie"].startswith("__Host-stopgo=; Path=/; Max-Age=0;")
        async for _ in lines:
            pass
    assert (await site.client.get("/session", headers=session)).status_code == 401
    assert (await site.client.get("/session", headers=other)).status_code == 200


async def test_a_logout_with_another_credential_ends_no_session(site: Site) -> None:
    session = await site.log_in()
    headers = {"Authorization": f"Bearer {signed()}"}
    answer = await site.client.post("/logout", headers=headers)
    assert (answer.status_code, "Set-Cookie" in answer.headers) == (204, False)
    assert (await site.client.get("/session", headers=session)).status_code == 200


async def test_a_session_is_not_a_token_for_tools(site: Site) -> None:
    session = await site.log_in()
    answer = await site.client.post("/conversations", json={"message": "hello"}, headers=session)
    assert answer.status_code == 201
    assert site.agent.calls[-1][2]["token"] is None
    headers = {**session, "Authorization": f"Bearer {signed()}"}
    answer = await site.client.post("/conversations", json={"message": "hello"}, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "credential_as_tool_token")


# --------------------------------------------------------------------------- tickets


async def ticket_of(site: Site, headers: dict[str, str]) -> str:
    answer = await site.client.post("/ticket", headers=headers)
    assert answer.json()["expires_in"] == 30
    ticket: str = answer.json()["ticket"]
    return ticket


async def test_a_ticket_opens_one_stream(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bearer = {"Authorization": f"Bearer {signed()}"}
    tickets = [await ticket_of(site, bearer) for _ in range(2)]
    for status in (200, 401):
        async with site.client.stream("GET", STREAM, params={"ticket": tickets[0]}) as stream:
            assert stream.status_code == status
    path = f"{SOCKET}?after=0&ticket={tickets[1]}"
    async with socket(site.server, path) as connection:
        assert "conversation.created" in await connection.get_message()
    with pytest.raises(BaseExceptionGroup) as refused:
        async with socket(site.server, path):
            pass
    assert isinstance(rejected := refused.value.exceptions[0], ConnectionRejected)
    assert rejected.status_code == 401
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("stopgo")]
    assert any(f"GET {STREAM}" in line for line in logged)
    assert not any(ticket in line for ticket in tickets for line in logged)


async def test_a_ticket_is_for_streams_only(site: Site) -> None:
    ticket = await ticket_of(site, {"Authorization": f"Bearer {signed()}"})
    for path in ("/conversations", "/session", f"/conversations/{ex.CONVERSATION_ID}", "/tools"):
        assert (await site.client.get(path, params={"ticket": ticket})).status_code == 401
    assert (await site.client.post("/ticket", params={"ticket": ticket})).status_code == 401
    assert (await site.client.get(STREAM, params={"ticket": [ticket, ticket]})).status_code in (400, 401)


async def test_a_stream_of_a_ticket_ends_with_the_session_that_made_it(site: Site) -> None:
    session = await site.log_in()
    ticket = await ticket_of(site, session)
    async with socket(site.server, f"/events/ws?ticket={ticket}") as connection:
        await connection.get_message()
        await site.client.post("/logout", headers=session)
        with pytest.raises(ConnectionClosed):
            await exhaust(connection)


@pytest.mark.parametrize("opened_by", ["token", "ticket", "websocket"])
async def test_stream_ends_when_the_token_that_opened_it_expires(
    site: Site, autojump_clock: MockClock, opened_by: str
) -> None:
    bearer = {"Authorization": f"Bearer {signed(claims(exp=int(time.time()) + 100))}"}
    ticket = await ticket_of(site, bearer)
    began = trio.current_time()
    if opened_by == "websocket":
        async with socket(site.server, f"{SOCKET}?ticket={ticket}") as connection:
            with pytest.raises(ConnectionClosed) as caught:
                await exhaust(connection)
        assert caught.value.reason is not None
        assert (caught.value.reason.code, caught.value.reason.reason) == (1008, "credential ended")
    else:
        given: Any = {"headers": bearer} if opened_by == "token" else {"params": {"ticket": ticket}}
        async with site.client.stream("GET", STREAM, **given) as stream:
            assert stream.status_code == 200
            async for _ in stream.aiter_lines():
                pass
    assert trio.current_time() - began == pytest.approx(100 + LEEWAY, abs=5)


async def test_without_authentication_there_are_no_tickets(agent: Any, serve: Callable[..., Any]) -> None:
    async with serve(agent) as (_, client):
        assert (await client.get("/session")).json() == {"roles": []}
        assert (await client.post("/ticket")).status_code == 404
        assert (await client.post("/logout")).status_code == 204
        answer = await client.get(STREAM, params={"ticket": "x"})
        assert (answer.status_code, answer.json()["field"]) == (400, "ticket")
        assert (await client.get("/login")).status_code == 404


# ----------------------------------------------------------------------------- proxy

PERSON = {"X-Forwarded-User": "paula", "X-Forwarded-Groups": "viewer,operator"}


async def test_a_person_whom_the_proxy_names(site: Site) -> None:
    headers = {**PERSON, "X-Proxy-Secret": SECRET, "Authorization": "Bearer of-the-proxy"}
    session = (await site.client.get("/session", headers=headers)).json()
    assert session == {"subject": "paula", "roles": ["viewer", "operator"]}
    await site.client.post("/conversations", json={"message": "hello"}, headers=headers)
    assert site.agent.calls[-1][2]["token"] is None  # `Authorization` is the proxy's
    headers["X-Tool-Authorization"] = "Bearer of-the-tools"
    await site.client.post("/conversations", json={"message": "hello"}, headers=headers)
    assert site.agent.calls[-1][2]["token"] == "of-the-tools"


async def test_headers_of_the_proxy_without_its_secret_are_not_ignored(site: Site) -> None:
    for secret in ({}, {"X-Proxy-Secret": "guess"}):
        for credential in ({}, {"Authorization": f"Bearer {signed()}"}, await site.log_in()):
            headers = {**PERSON, **secret, **credential}
            answer = await site.client.get("/session", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
    assert (await site.client.get("/health", headers=PERSON)).status_code == 200
