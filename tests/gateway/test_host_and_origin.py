"""Hosts and origins: rule by rule, and at the door that requests and websockets pass alike."""

import json
from itertools import product
from typing import Any, cast

import attrs
import httpx2
import pytest
from hypercorn.typing import HTTPScope
from hypothesis import given
from hypothesis import strategies as st

from stopgo.config.sections.agent_config import ServerConfig
from stopgo.gateway.contract import examples as ex
from stopgo.gateway.http.errors import RequestError
from stopgo.gateway.http.host_and_origin import allowed_by, check_admission

PLAIN = ServerConfig()
NAMED = ServerConfig(
    allowed_hosts=("Agents.lan", "agent"),
    public_url="https://Agents.example/desk/",
    allowed_origins=("http://tools.example:3000", "https://[2001:DB8:0::1]"),
)
LOOPBACK = ("127.0.0.1", 8080)


def refusal(
    server: ServerConfig,
    *headers: tuple[str, str],
    target: str = "/tools",
    came_to: tuple[str, int] = LOOPBACK,
    type: str = "http",
    method: str = "GET",
) -> RequestError | None:
    scope = {
        "type": type,
        "method": method,
        "raw_path": target.encode(),
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in headers],
        "server": came_to,
    }
    try:
        check_admission(cast(HTTPScope, scope), allowed_by(server))
    except RequestError as error:
        return error
    return None


def code(error: RequestError | None) -> object:
    return error and (error.status, error.code)


def hint(error: RequestError | None) -> str:
    assert error
    return error.hint or ""


ANYWHERE = (
    "localhost",
    "LOCALHOST:8080",
    "127.0.0.1:8080",
    "127.8.9.1",
    "[::1]",
    "[::1]:8080",
    "0.0.0.0:8080",
    "192.168.1.5",
    "[2001:db8::1]:8080",
    "[FE80::1%eth0]",
)
NAMED_ONLY = ("agents.lan", "AGENTS.lan:8080", "agent", "agent:8080", "agents.example", "agents.example:443")
NOWHERE = (
    "evil.example",
    "evil.example:8080",
    "localhost.evil.example",
    "agents.lan.evil.example",
    "x.agents.lan",
    "notlocalhost",
    "printer",  # a name that the network gives
    # A dot at the end, and all that leads to this machine by other names.
    "localhost.",
    "agents.lan.",
    "127.0.0.1.",
    "agent.localhost",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    # No host at all.
    "",
    ":8080",
    "user@localhost",
    "localhost@evil.example",
    "localhost, evil.example",
    "localhost evil.example",
    "localhost:8080:8080",
    "localhost:x",
    "localhost:\u00b2",
    "http://localhost",
    "::1",
    "[::1",
    "[]",
    "[127.0.0.1]",
    "[localhost]",
    "[::1%]",
    "[::1]evil.example",
    "\u00e9.example",
    "x" * 5000,
)


@pytest.mark.parametrize("host", [*ANYWHERE, *NAMED_ONLY, *NOWHERE])
def test_a_host_is_an_address_localhost_or_a_name_of_the_file(host: str) -> None:
    wrong = (421, "wrong_host")
    # In the target it means the same. A target that is malformed is refused before.
    for header, target in ((host, "/tools"), ("localhost", f"http://{host}/tools")):
        request = [("Host", header)]
        assert code(refusal(PLAIN, *request, target=target)) == (None if host in ANYWHERE else wrong)
        assert code(refusal(NAMED, *request, target=target)) == (wrong if host in NOWHERE else None)


def test_every_host_counts() -> None:
    both = (("Host", "localhost"), ("Host", "evil.example"))
    assert code(refusal(PLAIN, *both)) == code(refusal(PLAIN, *both[::-1])) == (421, "wrong_host")
    assert code(refusal(PLAIN, target="http://evil.example")) == (421, "wrong_host")
    assert refusal(PLAIN) is None  # HTTP/1.0


def test_a_refused_name_comes_with_the_line_to_add() -> None:
    error = refusal(PLAIN, ("Host", "agents.lan:8080"))
    assert "`server: {allowed_hosts: [agents.lan]}`" in hint(error)
    for host in NOWHERE:
        error = refusal(PLAIN, ("Host", host))
        assert len(f"{error}{hint(error)}") < 500


LAN = ("192.168.1.5", 8080)
SIX = ("2001:db8::7", 80)
OWN = (
    (PLAIN, LOOPBACK, "http://127.0.0.1:8080"),
    (PLAIN, LOOPBACK, "http://localhost:8080"),
    (PLAIN, LOOPBACK, "HTTP://LOCALHOST:8080"),
    (PLAIN, LOOPBACK, "http://[::1]:8080"),
    (PLAIN, ("::1", 80), "http://localhost"),
    (PLAIN, ("127.0.0.5", 80), "http://127.0.0.5:80"),
    (PLAIN, LAN, "http://192.168.1.5:8080"),
    (PLAIN, SIX, "http://[2001:db8::7]"),
    (PLAIN, ("fe80::1%eth0", 80), "http://[fe80::1]"),
    (NAMED, LOOPBACK, "http://localhost:8080"),
    (NAMED, LOOPBACK, "https://agents.example"),
    (NAMED, LAN, "https://agents.example:443"),
    (NAMED, LAN, "http://tools.example:3000"),
    (NAMED, LAN, "https://[2001:db8::1]"),
)
FOREIGN = (
    (PLAIN, LOOPBACK, "http://localhost:3000"),
    (PLAIN, LOOPBACK, "http://localhost"),
    (PLAIN, LOOPBACK, "https://localhost:8080"),
    (PLAIN, LOOPBACK, "http://agent.localhost:8080"),
    (PLAIN, LOOPBACK, "http://127.0.0.2:8080"),
    (PLAIN, LOOPBACK, "http://0.0.0.0:8080"),
    (PLAIN, LOOPBACK, "http://evil.example:8080"),
    (PLAIN, LOOPBACK, "https://agents.example"),
    (PLAIN, LAN, "http://localhost:8080"),
    (PLAIN, LAN, "http://192.168.1.6:8080"),
    (NAMED, LOOPBACK, "http://agents.example"),
    (NAMED, LOOPBACK, "https://agents.example:8443"),
    (NAMED, LOOPBACK, "https://agents.example.evil"),
    (NAMED, LOOPBACK, "https://x.agents.example"),
    (NAMED, LOOPBACK, "http://agents.lan:8080"),  # a host, and no origin
    (NAMED, LOOPBACK, "http://tools.example"),
    *(
        (NAMED, LOOPBACK, text)
        for text in (
            "null",
            "",
            "http://",
            "localhost:8080",
            "//localhost:8080",
            "file://",
            "ws://localhost:8080",
            "chrome-extension://localhost:8080",
            "http://localhost:8080/",
            "http://localhost:8080 http://evil.example",
            "http://localhost:8080, http://localhost:8080",
            "http://user@localhost:8080",
            "http://localhost:8080@evil.example",
            "http://localhost.:8080",
            "*",
        )
    ),
)


@pytest.mark.parametrize(("server", "came_to", "origin"), OWN)
@pytest.mark.parametrize("site", [None, "same-origin", "none"])
def test_an_own_origin_comes_in(
    server: ServerConfig, came_to: tuple[str, int], origin: str, site: str | None
) -> None:
    sites = [] if site is None else [("Sec-Fetch-Site", site)]
    # Whatever the host is: a proxy sends another.
    assert refusal(server, ("Host", "10.0.0.1"), ("Origin", origin), *sites, came_to=came_to) is None


@pytest.mark.parametrize(("server", "came_to", "origin"), FOREIGN)
def test_another_origin_is_refused(server: ServerConfig, came_to: tuple[str, int], origin: str) -> None:
    host = ("Host", origin.rpartition("//")[2])  # as a page that leads its own name here would have it
    for headers in (
        [("Host", "localhost:8080"), ("Origin", origin)],
        [("Host", "localhost:8080"), ("Origin", origin), ("Sec-Fetch-Site", "same-origin")],
        [("Origin", f"http://{came_to[0]}:{came_to[1]}"), ("Origin", origin)],
    ):
        assert code(refusal(server, *headers, came_to=came_to)) == (403, "cross_site")
    assert code(refusal(server, host, ("Origin", origin), came_to=came_to)) in (
        (403, "cross_site"),
        (421, "wrong_host"),
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "same-origin, none", "something-new"])
def test_another_site_does_not_come_in_whatever_its_origin(site: str) -> None:
    for server, came_to, origin in OWN:
        headers = (("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", site))
        for own in ([], [("Origin", origin)]):
            assert code(refusal(server, *headers, *own, came_to=came_to)) == (403, "cross_site")


LINK = {
    "Host": "localhost",
    "Sec-Fetch-Site": "cross-site",
    "Sec-Fetch-Mode": "navigate",
    "Sec-Fetch-Dest": "document",
}
"""The headers that Chromium sends for a link on a page of another site."""


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none"])
def test_a_link_to_the_page_is_followed_from_everywhere(site: str) -> None:
    for server in (PLAIN, NAMED):
        assert refusal(server, *{**LINK, "Sec-Fetch-Site": site}.items(), target="/") is None


@pytest.mark.parametrize(
    ("wrong", "request_line"),
    [
        ({}, {"target": "/tools"}),
        ({}, {"target": f"/approvals/{ex.APPROVAL_ID}"}),
        ({}, {"target": "/page/agent"}),
        ({}, {"target": "/docs"}),
        ({}, {"target": "//"}),
        ({}, {"target": "/%2f"}),
        ({}, {"target": "http://localhost/"}),
        ({}, {"target": "/", "method": "POST"}),
        ({}, {"target": "/", "method": "HEAD"}),
        ({}, {"target": "/", "type": "websocket"}),
        ({"Sec-Fetch-Dest": "iframe"}, {"target": "/"}),
        ({"Sec-Fetch-Dest": "empty"}, {"target": "/"}),
        ({"Sec-Fetch-Dest": ""}, {"target": "/"}),
        ({"Sec-Fetch-Mode": "no-cors"}, {"target": "/"}),
        ({"Sec-Fetch-Mode": "cors"}, {"target": "/"}),
        ({"Sec-Fetch-Mode": "navigate, navigate"}, {"target": "/"}),
        ({"Origin": "http://evil.example"}, {"target": "/"}),
        ({"Origin": "null"}, {"target": "/"}),
        ({"Host": "evil.example"}, {"target": "/"}),
    ],
)
def test_nothing_else_comes_in_as_a_link_does(wrong: dict[str, str], request_line: Any) -> None:
    error = refusal(PLAIN, *{**LINK, **wrong}.items(), **request_line)
    assert code(error) == ((421, "wrong_host") if "Host" in wrong else (403, "cross_site"))


@pytest.mark.parametrize("name", ["Sec-Fetch-Mode", "Sec-Fetch-Dest"])
def test_a_link_has_both_headers_and_each_once(name: str) -> None:
    without = [(each, value) for each, value in LINK.items() if each != name]
    for more in ([], [(name, LINK[name])] * 2, [(name, LINK[name]), (name, "iframe")]):
        assert code(refusal(PLAIN, *without, *more, target="/")) == (403, "cross_site")


def test_a_refused_origin_comes_with_the_line_to_add() -> None:
    error = refusal(PLAIN, ("Origin", "http://localhost:3000"))
    assert "`server: {allowed_origins: ['http://localhost:3000']}`" in hint(error)
    assert "allowed_origins" not in hint(refusal(PLAIN, ("Origin", "null")))


@given(st.text(st.characters(max_codepoint=255), max_size=30), st.sampled_from(["Host", "Origin"]))
def test_any_header_text_is_allowed_or_refused(text: str, name: str) -> None:
    for value in (text, f"[{text}]:80", f"http://[{text}]", f"localhost:{text}", f"{text}localhost"):
        error = refusal(PLAIN, (name, value))
        assert error is None or error.status in (403, 421)


# ------------------------------------------------------------------------- at the door

UPGRADE = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
PATHS = ("/", "/health", "/conversations", f"/conversations/{ex.CONVERSATION_ID}", "/docs", "/nowhere")
STRANGERS = (
    ("Host: evil.example", 421, "wrong_host"),
    ("Host: localhost\r\nOrigin: http://evil.example", 403, "cross_site"),
    ("Host: localhost\r\nOrigin: null", 403, "cross_site"),
    ("Host: localhost\r\nOrigin: http://localhost:3000\r\nSec-Fetch-Site: same-site", 403, "cross_site"),
    ("Host: localhost\r\nSec-Fetch-Site: cross-site", 403, "cross_site"),
)


@pytest.mark.parametrize(("headers", "status", "word"), STRANGERS)
async def test_foreign_hosts_and_origins_are_refused_on_every_path(
    agent: Any, raw: Any, headers: str, status: int, word: str
) -> None:
    asked = [
        f"{method} {path} HTTP/1.1\r\n{headers}\r\n{rest}\r\n"
        for path in PATHS
        for method, rest in (
            ("GET", UPGRADE + "Sec-WebSocket-Version: 13\r\n"),
            ("GET", "Connection: close\r\n"),
            ("POST", "Connection: close\r\nContent-Length: 0\r\n"),
            ("DELETE", "Connection: close\r\n"),
            ("OPTIONS", "Connection: close\r\n"),
        )
    ]
    for request in asked:
        answer = b"".join([chunk async for chunk in await raw(request.encode())])
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % status)
        assert json.loads(body)["code"] == word
    assert not agent.calls


async def test_own_pages_and_programs_are_served(agent: Any, serve: Any) -> None:
    agent.config = attrs.evolve(agent.config, server=NAMED)
    async with serve(agent) as (server, client):
        for host, origin in product(
            ("localhost", "127.0.0.1", "agents.example", "agents.lan:8080"),
            (None, f"http://localhost:{server.port}", "https://agents.example"),
        ):
            headers = {"Host": host} | ({"Origin": origin} if origin else {})
            assert (await client.post("/conversations", headers=headers)).is_success


async def test_a_link_gets_the_page_and_nothing_behind_it(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/", headers=LINK)).is_success
    for path in ("/page/main.js", "/page/agent", "/conversations"):
        assert (await client.get(path, headers=LINK)).json()["code"] == "cross_site"
    assert (await client.post("/page/markdown", headers=LINK, json={"texts": []})).status_code == 403


async def test_a_refused_request_does_not_cost_the_connection(client: httpx2.AsyncClient) -> None:
    body = b"x" * 100_000
    refused = await client.post("/conversations", content=body, headers={"Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert refused.headers["X-Content-Type-Options"] == "nosniff"
    assert (await client.get("/health")).is_success
