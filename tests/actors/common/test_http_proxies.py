"""The proxies of the environment."""

from __future__ import annotations

import socket
import ssl

import httpx2
import pytest
import trio

from stopgo.actors.common.http_proxies import Routed, proxy_to, said_by_proxy
from tests.http_client import http_client


@pytest.mark.parametrize(
    ("environment", "url", "proxy"),
    [
        ({}, "https://tools.test/mcp", None),
        ({"https_proxy": "http://p:1"}, "https://tools.test/mcp", "http://p:1"),
        ({"https_proxy": "p:1"}, "https://tools.test/mcp", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http://tools.test/mcp", None),
        ({"all_proxy": "socks5://p:1"}, "http://tools.test/mcp", "socks5://p:1"),
        ({"all_proxy": "p:1", "http_proxy": "q:1"}, "http://tools.test/mcp", "http://q:1"),
        ({"https_proxy": "p:1", "no_proxy": "tools.test"}, "https://tools.test/mcp", None),
        ({"https_proxy": "p:1", "no_proxy": ".test"}, "https://tools.test:8443/mcp", None),
        ({"https_proxy": "p:1", "no_proxy": "tools.test:8443"}, "https://tools.test:8443/mcp", None),
        ({"https_proxy": "p:1", "no_proxy": "other.test"}, "https://tools.test/mcp", "http://p:1"),
        ({"https_proxy": "p:1", "no_proxy": "*"}, "https://tools.test/mcp", None),
        ({"all_proxy": "p:1"}, "http://127.0.0.1:80/mcp", None),
        ({"all_proxy": "p:1"}, "http://[::1]:80/mcp", None),
        ({"all_proxy": "p:1"}, "http://localhost/mcp", None),
        ({"all_proxy": "p:1"}, "http://tools.localhost/mcp", None),
        ({"all_proxy": "p:1"}, "http://10.0.0.1/mcp", "http://p:1"),
        # GNOME writes `socks://` (hermes-agent#95042, kimi-cli#404); curl(1) reads it as SOCKS.
        ({"ALL_PROXY": "socks://p:1/"}, "http://tools.test/mcp", "socks5://p:1/"),
        ({"ALL_PROXY": "SOCKS://p:1"}, "https://tools.test/mcp", "socks5://p:1"),
        ({"all_proxy": "p:1", "ALL_PROXY": "q:1"}, "http://tools.test/mcp", "http://p:1"),
        ({"all_proxy": " ", "ALL_PROXY": "q:1"}, "http://tools.test/mcp", "http://q:1"),
        ({"HTTP_PROXY": "p:1", "REQUEST_METHOD": "GET"}, "http://tools.test/mcp", None),
        # Entries of NO_PROXY as people write them: networks, brackets, wildcards, upper case, spaces.
        ({"all_proxy": "p:1", "no_proxy": "10.0.0.0/8"}, "http://10.1.2.3/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "10.0.0.0/8"}, "http://11.1.2.3/mcp", "http://p:1"),
        ({"all_proxy": "p:1", "no_proxy": "10.0.0.1"}, "http://10.0.0.1:8000/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "fd00::/8"}, "http://[fd00::7]:80/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "[fd00::7]:80"}, "http://[fd00::7]/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "[fd00::7]:81"}, "http://[fd00::7]/mcp", "http://p:1"),
        ({"all_proxy": "p:1", "NO_PROXY": "a.test  *.Tools.Test"}, "http://x.TOOLS.test./mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "ools.test, ,"}, "http://tools.test/mcp", "http://p:1"),
        # As in `http.nonProxyHosts` of Java and the exceptions of Windows.
        ({"all_proxy": "p:1", "no_proxy": "10.*,192.168.*.*"}, "http://10.1.2.3/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "10.*,192.168.*.*"}, "http://192.168.7.1/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "10.*"}, "http://110.1.2.3/mcp", "http://p:1"),
        ({"all_proxy": "p:1", "no_proxy": "*tools.test"}, "http://mytools.test/mcp", None),
        ({"all_proxy": "p:1", "no_proxy": "*.tools.test"}, "http://mytools.test/mcp", "http://p:1"),
        ({"all_proxy": "p:1", "no_proxy": "http://tools.test/"}, "http://tools.test/mcp", None),
        ({"all_proxy": "p:1"}, "http://0.0.0.0:8000/mcp", None),
        ({"all_proxy": "p:1"}, "http://[::]:8000/mcp", None),
        ({"all_proxy": "carrier-pigeon://coop", "no_proxy": "tools.test"}, "http://tools.test/mcp", None),
    ],
)
def test_proxy_for_each_url(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], url: str, proxy: str | None
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_to(httpx2.URL(url)) == proxy


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("403 Forbidden", "the proxy of the environment answers HTTP 403"),
        (
            "407 Proxy Authentication Required",
            "the proxy of the environment answers HTTP 407 (its address needs a user and a password)",
        ),
        ("Proxy-Authorization: Basic c2VjcmV0", "the proxy of the environment does not reach it"),
    ],
)
def test_refusal_of_a_proxy_is_told_without_the_text_of_the_library(said: str, told: str) -> None:
    assert said_by_proxy(httpx2.ProxyError(said)) == told


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        # A request of `http` has no tunnel: the proxy answers in place of the server (RFC 9110, 15.5.8).
        ("407 Proxy Authentication Required", "answers HTTP 407"),
        ("403 Forbidden\r\nX-Squid-Error: ERR_ACCESS_DENIED 0", "answers HTTP 403"),
        ("403 Forbidden\r\nProxy-Status: gate; error=destination_ip_prohibited", "answers HTTP 403"),
        ("403 Forbidden", None),
        ("502 Bad Gateway", None),
    ],
)
async def test_answer_of_a_proxy_is_no_answer_of_the_server(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, answer: str, told: str | None
) -> None:
    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(f"HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n".encode())

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, serve, [listener])
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{listener.socket.getsockname()[1]}")
    async with http_client(transport=Routed(httpx2.Limits(), ssl.create_default_context())) as client:
        if told is None:
            assert (await client.get("http://tools.test/")).status_code == int(answer[:3])
            return
        with pytest.raises(httpx2.ProxyError) as refused:
            await client.get("http://tools.test/")
    assert told in said_by_proxy(refused.value)


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_proxy_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        monkeypatch.setenv("all_proxy", f"{scheme}://127.0.0.1:{held.getsockname()[1]}")
        async with http_client(transport=Routed(httpx2.Limits(), ssl.create_default_context())) as client:
            for url in ("http://tools.test/", "https://tools.test/"):
                with pytest.raises(httpx2.ProxyError) as unreached:
                    await client.get(url)
                said = said_by_proxy(unreached.value)
                assert said == "the proxy of the environment cannot be reached: connection refused"
