"""Requests to an issuer over real sockets: what is believed, and what is bounded."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio

from stopgo.gateway.auth import issuer as module
from stopgo.gateway.auth.issuer import MAX_RESPONSE, Endpoints, Issuer, IssuerError, read_endpoints

ISSUER = "https://issuer.example/realm"


@attrs.define(eq=False)
class Stub:
    """An HTTP server with one answer by path."""

    port: int
    answers: dict[str, bytes] = attrs.field(factory=dict)
    heads: list[str] = attrs.field(factory=list)
    bodies: list[bytes] = attrs.field(factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, path: str, body: Any, status: str = "200 OK", more: str = "") -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(data)}\r\nConnection: close\r\n{more}\r\n"
        self.answers[path] = head.encode() + data

    async def serve(self, stream: trio.SocketStream) -> None:
        read = b""
        async with stream:
            while b"\r\n\r\n" not in read:
                read += await stream.receive_some()
            head, _, body = read.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            while length and len(body) < int(length[1]):
                body += await stream.receive_some()
            self.heads.append(head.decode())
            self.bodies.append(body)
            answer = self.answers.get(head.split()[1].decode())
            if answer is None:
                await trio.sleep_forever()
            else:
                await stream.send_all(answer)


@asynccontextmanager
async def stub() -> AsyncIterator[Stub]:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        served = Stub(listener.socket.getsockname()[1])
        nursery.start_soon(trio.serve_listeners, served.serve, [listener])
        yield served
        nursery.cancel_scope.cancel()


def document(**changes: Any) -> dict[str, Any]:
    valid = {
        "issuer": ISSUER,
        "jwks_uri": f"{ISSUER}/keys",
        "authorization_endpoint": f"{ISSUER}/auth",
        "token_endpoint": f"{ISSUER}/token",
    }
    return {name: value for name, value in {**valid, **changes}.items() if value is not None}


def test_endpoints_of_the_discovery_document() -> None:
    expected = Endpoints(f"{ISSUER}/keys", f"{ISSUER}/auth", f"{ISSUER}/token", None, False)
    assert read_endpoints(document(), ISSUER) == expected
    posts = document(token_endpoint_auth_methods_supported=["client_secret_post", "none"])
    assert read_endpoints(posts, ISSUER).posts_secret
    local = document(jwks_uri="http://127.0.0.1:9000/keys")
    assert read_endpoints(local, ISSUER).jwks == "http://127.0.0.1:9000/keys"


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": ISSUER + "/"},
        {"issuer": "https://other.example"},
        {"issuer": None},
        {"jwks_uri": None},
        {"jwks_uri": "http://issuer.example/keys"},
        {"jwks_uri": "file:///etc/passwd"},
        {"jwks_uri": 5},
        {"jwks_uri": "https://[::1"},
        {"token_endpoint": "http://issuer.example/token"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": "https:///me"},
    ],
)
def test_discovery_documents_that_are_refused(changes: Mapping[str, Any]) -> None:
    with pytest.raises(IssuerError, match="its discovery document"):
        read_endpoints(document(**changes), ISSUER)


async def test_requests_to_a_real_issuer() -> None:
    async with stub() as served:
        issuer = Issuer(f"{served.url}/realm")
        found = document(issuer=issuer.address, jwks_uri=f"{served.url}/keys")
        found |= {"token_endpoint": f"{served.url}/token", "userinfo_endpoint": f"{served.url}/me"}
        served.answer("/realm/.well-known/openid-configuration", found)
        served.answer("/keys", {"keys": []})
        served.answer("/token", {"id_token": "x"})
        served.answer("/me", {"sub": "alice"})
        endpoints = await issuer.endpoints()
        assert await issuer.key_set(endpoints) == {"keys": []}
        assert await issuer.userinfo(endpoints, "A") == {"sub": "alice"}
        assert "Authorization: Bearer A" in served.heads[-1]
        form = {"code": "c&d"}
        assert await issuer.tokens(endpoints, form, "page", None) == {"id_token": "x"}
        assert served.bodies[-1] == b"code=c%26d&client_id=page"
        assert "authorization" not in served.heads[-1].lower()
        await issuer.tokens(endpoints, form, "page", "s:%")
        assert "Authorization: Basic cGFnZTpzJTNBJTI1" in served.heads[-1]  # page:s%3A%25
        assert b"secret" not in served.bodies[-1]
        posting = attrs.evolve(endpoints, posts_secret=True)
        await issuer.tokens(posting, form, "page", "s:%")
        assert served.bodies[-1] == b"code=c%26d&client_id=page&client_secret=s%3A%25"
        assert await issuer.userinfo(attrs.evolve(endpoints, userinfo=None), "A") == {}
        await issuer.aclose()


@pytest.mark.parametrize(
    ("body", "status", "more", "why"),
    [
        ({}, "404 Not Found", "", "HTTP 404"),
        ({"error": "s3cret"}, "500 Error", "", "HTTP 500"),
        ({}, "302 Found", "Location: /keys2\r\n", "HTTP 302"),
        (b"not json, s3cret", "200 OK", "", "not a JSON object"),
        (b"[]", "200 OK", "", "not a JSON object"),
        (b"\xff", "200 OK", "", "not a JSON object"),
        (b"[" * 5000, "200 OK", "", "not a JSON object"),
        (b" " * (MAX_RESPONSE + 1), "200 OK", "", "larger than"),
        ({}, "nonsense", "", "cannot be reached"),
    ],
)
async def test_answers_that_are_refused(body: Any, status: str, more: str, why: str) -> None:
    async with stub() as served:
        served.answer("/keys", body, status, more)
        served.answer("/keys2", {"keys": []})
        issuer = Issuer(served.url)
        with pytest.raises(IssuerError, match=why) as refused:
            await issuer.key_set(Endpoints(f"{served.url}/keys", None, None, None, False))
        assert "s3cret" not in str(refused.value)
        await issuer.aclose()


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("http_proxy", "PROXY", "the proxy of the environment answers HTTP 407"),
        ("http_proxy", "carrier-pigeon://coop", "a proxy in the environment has no valid address"),
        ("SSL_CERT_FILE", "/nowhere/ca.pem", "SSL_CERT_FILE"),
    ],
)
async def test_fault_of_the_environment_is_named(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, why: str
) -> None:
    async with stub() as served:
        served.answer("http://issuer.test/keys", {}, "407 Proxy Authentication Required")
        monkeypatch.setenv(variable, served.url if value == "PROXY" else value)
        issuer = Issuer("http://issuer.test")
        with pytest.raises(IssuerError, match=why):
            await issuer.key_set(Endpoints("http://issuer.test/keys", None, None, None, False))
        await issuer.aclose()


async def test_an_issuer_that_is_silent_or_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TIMEOUT", 0.05)
    async with stub() as served:
        issuer = Issuer(served.url)
        with pytest.raises(IssuerError, match="no answer within"):
            await issuer.endpoints()
        with pytest.raises(IssuerError, match="no token_endpoint"):
            await issuer.tokens(Endpoints("", None, None, None, False), {}, "page", None)
        await issuer.aclose()
    monkeypatch.setattr(module, "TIMEOUT", 10.0)
    gone = Issuer(served.url)
    with pytest.raises(IssuerError, match="refused"):
        await gone.endpoints()
    await gone.aclose()
