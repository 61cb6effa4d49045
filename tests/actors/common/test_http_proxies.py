"""The proxies of the environment."""

from __future__ import annotations

import httpx2
import pytest

from stopgo.actors.common.http_proxies import proxy_to, said_by_proxy


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
