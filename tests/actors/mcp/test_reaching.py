"""Connections to a tool server over HTTP: TLS, and the proxies of the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio

from stopgo.actors.common.http_proxies import INVALID
from stopgo.actors.common.tls import TlsUnusable
from stopgo.actors.mcp.transports.http import McpTransport
from stopgo.actors.mcp.wire.failures import UNREACHABLE
from tests.authority import Authority
from tests.http_client import http_client

VARIABLES = [f"{name}_proxy" for name in ("http", "https", "all", "no")]
CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Listener:
    """Records the heads of requests, and gives each the same answer."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []

    async def __call__(self, stream: trio.abc.Stream) -> None:
        async with stream:
            try:
                self.heads.append(bytes(await stream.receive_some(65536)))
                await stream.send_all(self.answer)
            except trio.BrokenResourceError:
                pass


OK = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


async def start(nursery: trio.Nursery, listener: Listener, authority: Authority | None = None) -> int:
    (plain,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = plain.socket.getsockname()[1]
    listeners: list[trio.abc.Listener[Any]] = [plain]
    if authority is not None:
        listeners = [trio.SSLListener(plain, authority.server("localhost"))]
    nursery.start_soon(trio.serve_listeners, listener, listeners)
    return port


async def ask(url: str, nursery: trio.Nursery) -> httpx2.Response:
    transport = McpTransport(lambda _: None, lambda: None, lambda _: None, nursery)
    async with http_client(transport=transport) as client:
        return await client.post(url, json=CALL)


async def test_certificate_of_a_trusted_authority_is_accepted(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, server = Authority(tmp_path), Listener(OK)
    url = f"https://localhost:{await start(nursery, server, authority)}/mcp"
    refused = (await ask(url, nursery)).json()["error"]
    assert refused["code"] == UNREACHABLE
    assert refused["data"] == {"sent": False}
    assert refused["message"].startswith("its certificate is not trusted: ")
    assert server.heads == []
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    assert (await ask(url, nursery)).json() == {}


async def test_unreadable_authorities_fail_the_start(
    nursery: trio.Nursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "absent.pem"))
    with pytest.raises(TlsUnusable):
        await ask("https://localhost:1/mcp", nursery)


async def test_proxy_is_used(nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Listener(OK)
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{await start(nursery, proxy)}")
    assert (await ask("http://tools.test/mcp", nursery)).json() == {}
    assert proxy.heads[0].startswith(b"POST http://tools.test/mcp HTTP/1.1\r\n")


async def test_call_refused_by_a_proxy_was_not_sent(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy = Listener(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{await start(nursery, proxy)}")
    error = (await ask("https://tools.test/mcp", nursery)).json()["error"]
    assert (error["code"], error["data"]) == (UNREACHABLE, {"sent": False})
    assert error["message"] == "the proxy of the environment answers HTTP 403"
    assert proxy.heads[0].startswith(b"CONNECT tools.test:443 HTTP/1.1\r\n")


async def test_invalid_proxy_address_is_an_error(
    nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "carrier-pigeon://coop")
    error = (await ask("http://tools.test/mcp", nursery)).json()["error"]
    assert error["message"] == INVALID
    assert error["data"] == {"sent": False}
