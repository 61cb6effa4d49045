"""Forwarded headers in both directions, and the admission of requests."""

import json

import pytest

from stopgo.gateway.http.request import Headers
from stopgo.gateway.proxy.agent_address import AgentAddress
from stopgo.gateway.proxy.passed_headers import to_agent, to_client
from tests.contract import HANDSHAKE
from tests.gateway.proxy.conftest import Proxied, Told, proxy_to

DESK = AgentAddress.of("https://agents.example/desk/")


async def test_only_known_headers_reach_the_agent(told: Told, proxied: Proxied) -> None:
    passed = {
        "authorization": "Bearer t",
        "x-api-key": "sg_1_2",
        "x-tool-authorization": "Bearer u",
        "x-csrf-token": "c",
        "content-type": "application/json",
        "idempotency-key": "k",
        "prefer": "respond-async",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "x-session-id": "abc",
        "last-event-id": "7",
        "accept": "application/json",
        "content-length": "2",
    }
    own = {
        "Cookie": "session=1; __Host-other=2",
        "X-Forwarded-User": "alice",
        "X-Proxy-Secret": "s",
        "Origin": proxied.server.url,
        "Sec-Fetch-Site": "same-origin",
        "Sec-Fetch-Mode": "cors",
        "Referer": f"{proxied.server.url}/",
        "X-Forwarded-For": "10.0.0.1",
        "Forwarded": "for=10.0.0.1",
        "Proxy-Authorization": "Basic x",
        "TE": "trailers",
        "Keep-Alive": "timeout=5",
        "Host": "localhost",
    }
    await proxied.client.post("/conversations", content=b"{}", headers={**passed, **own})
    expected = {
        **passed,
        "host": told.url.removeprefix("http://"),
        "accept-encoding": "identity",
        "user-agent": "stopgo-web",
    }
    assert sorted(told.lines[1:]) == sorted(f"{name}: {value}" for name, value in expected.items())


async def test_a_session_is_not_made_up_for_the_agent(told: Told, proxied: Proxied) -> None:
    await proxied.client.get("/tools")
    assert [line for line in told.lines if line.startswith(("x-session-id", "authorization"))] == []


async def test_cookies_of_an_answer_are_dropped(told: Told, proxied: Proxied) -> None:
    told.answer = (
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\n"
        b"Server: x\r\nConnection: close, X-Own\r\nX-Own: 1\r\nX-Session-ID: abc\r\nRetry-After: 1\r\n\r\n"
    )
    answer = await proxied.client.get("/tools")
    await proxied.client.get("/tools")
    assert not any(line.startswith("cookie") for line in told.lines)
    assert answer.headers["X-Session-ID"] == "abc"
    assert answer.headers["Retry-After"] == "1"
    left_out = {"set-cookie", "access-control-allow-origin", "server", "x-own"}
    assert left_out.isdisjoint(name.lower() for name in answer.headers)


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["__Host-stopgo=a-b_c"], "__Host-stopgo=a-b_c"),
        (["theirs=1; __Host-stopgo=a; __Host-stopgo-login=b"], "__Host-stopgo=a; __Host-stopgo-login=b"),
        (["__Host-stopgo=a", "__Host-stopgo=b"], "__Host-stopgo=a; __Host-stopgo=b"),
        (["__Host-stopgone=a; _Host-stopgo=b; __Host-stopgo"], None),
    ],
)
def test_cookies_of_the_login_reach_the_agent(given: list[str], passed: str | None) -> None:
    sent = dict(to_agent(Headers([("Cookie", each) for each in given]), DESK))
    assert sent.get(b"Cookie") == (None if passed is None else passed.encode())


@pytest.mark.parametrize(
    ("given", "is_passed"),
    [
        (["__Host-stopgo=a; Path=/; Secure; HttpOnly; SameSite=Strict"], True),
        (["__Host-stopgo-login=; Path=/; Max-Age=0; Secure"], True),
        (["other=a; Path=/"], False),
        (["__Host-stopgo=a; Path=/", "other=b; Path=/"], False),
    ],
)
def test_cookies_of_the_login_reach_the_client(given: list[str], is_passed: bool) -> None:
    passed = to_client([("set-cookie", each) for each in given], DESK)
    assert passed == ({"Set-Cookie": given[0]} if is_passed else {})


@pytest.mark.parametrize(
    ("location", "passed"),
    [
        ("https://agents.example/desk/conversations/1?a=b", "/conversations/1?a=b"),
        ("https://agents.example/desk", "/"),
        ("https://agents.example/desk?a", "/?a"),
        ("https://agents.example/desktop", "https://agents.example/desktop"),
        ("https://agents.example.org/desk/", "https://agents.example.org/desk/"),
        ("https://agents.example/", "https://agents.example/"),
        ("https://agents.example/desk//evil.example/", "https://agents.example/desk//evil.example/"),
        ("/conversations/1", "/conversations/1"),
    ],
)
def test_an_address_of_the_agent_leads_through_the_proxy(location: str, passed: str) -> None:
    assert to_client([("location", location)], DESK) == {"Location": passed}


async def test_redirects_are_not_followed(told: Told, proxied: Proxied) -> None:
    told.answer = (
        f"HTTP/1.1 302 Found\r\nLocation: {told.url}/tools?a=1\r\nContent-Length: 0\r\n\r\n".encode()
    )
    answer = await proxied.client.get("/health")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/tools?a=1")
    assert len(told.asked) == 1


def test_headers_that_the_connection_names_are_its_own() -> None:
    headers = Headers([("Connection", "close, Prefer"), ("Prefer", "respond-async"), ("Accept", "a")])
    assert to_agent(headers, DESK) == [(b"Accept", b"a"), (b"User-Agent", b"stopgo-web")]


def test_letters_beyond_ascii_pass_as_they_are() -> None:
    assert (b"Idempotency-Key", b"\xe4") in to_agent(Headers([("Idempotency-Key", "\xe4")]), DESK)


async def test_user_in_agent_url_is_default_authorization(told: Told) -> None:
    async with proxy_to(told.url.replace("://", "://me:p%40ss@")) as proxied:
        await proxied.client.get("/tools")
        assert "authorization: Basic bWU6cEBzcw==" in told.lines
        await proxied.client.get("/tools", headers={"Authorization": "Bearer t"})
        assert "authorization: Bearer t" in told.lines
        assert f"host: {told.url.removeprefix('http://')}" in told.lines


def test_an_address_is_shown_without_its_user() -> None:
    address = AgentAddress.of("https://me:s3cret@[::1]/desk/")
    assert (address.url, address.host, address.port) == ("https://[::1]/desk", "::1", 443)
    assert "s3cret" not in repr(address)


# ----------------------------------------------------------------------- who comes in

STRANGERS = [
    ({"Host": "rebound.example"}, 421, "wrong_host"),
    ({"Origin": "https://evil.example"}, 403, "cross_site"),
    ({"Origin": "null"}, 403, "cross_site"),
    ({"Sec-Fetch-Site": "cross-site"}, 403, "cross_site"),
    ({"Sec-Fetch-Site": "same-site"}, 403, "cross_site"),
]
PLACES = [
    ("/page/main.js", {}),
    ("/tools", {}),
    ("/events", {}),
    ("/api/conversation/x", {}),
    ("/events/ws", HANDSHAKE),
]


@pytest.mark.parametrize(("headers", "status", "code"), STRANGERS)
@pytest.mark.parametrize(("path", "more"), PLACES)
async def test_strangers_are_refused_here(
    told: Told,
    proxied: Proxied,
    headers: dict[str, str],
    status: int,
    code: str,
    path: str,
    more: dict[str, str],
) -> None:
    refused = await proxied.client.get(path, headers={**more, **headers})
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert told.asked == []


async def test_names_and_origins_of_the_file_come_in(told: Told) -> None:
    async with proxy_to(
        told.url,
        allowed_hosts=("desk",),
        public_url="https://agents.example",
        allowed_origins=("https://tools.example",),
    ) as proxied:
        for headers in (
            {"Host": "desk:3000"},
            {"Host": "agents.example", "Origin": "https://agents.example"},
            {"Origin": "https://tools.example"},
            {"Origin": proxied.server.url},
        ):
            assert (await proxied.client.get("/tools", headers=headers)).status_code == 200


async def test_page_host_and_origin_are_not_forwarded(real: Proxied) -> None:
    """It knows neither the name that the page is reached by nor the page's origin."""
    async with proxy_to(
        real.upstream.address.url, allowed_hosts=("desk",), allowed_origins=("https://desk",)
    ) as proxied:
        headers = {"Host": "desk", "Origin": "https://desk", "Sec-Fetch-Site": "same-origin"}
        begun = await proxied.client.post("/conversations", content=json.dumps({}), headers=headers)
        assert begun.status_code == 201
