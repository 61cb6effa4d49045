from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import httpx2
import pytest
import trio

from stopgo.gateway.app import make_app
from stopgo.gateway.http.http_server import BindError, bind, open_server
from stopgo.gateway.http.unix_socket import unix_socket
from tests.http_client import http_client

HANDSHAKE = (
    b"GET /events/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n%s\r\n"
)


async def test_requests_and_websockets_arrive_at_the_socket(agent: object, tmp_path: Path) -> None:
    path = str(tmp_path / "stopgo.sock")
    with unix_socket(path) as sock, bind("127.0.0.1", 0)[0] as address:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        async with (
            open_server(make_app(agent), (address, sock)) as server,  # type: ignore[arg-type]
            http_client(transport=httpx2.AsyncHTTPTransport(uds=path), base_url="http://localhost") as client,
        ):
            assert server.url.startswith("http://127.0.0.1:")
            assert (await client.get("/health")).status_code == 200
            assert (await client.get("/health", headers={"Host": "evil.example"})).status_code == 421
            for origin in ("http://localhost", "http://evil.example"):
                assert (await client.post("/conversations", headers={"Origin": origin})).status_code == 403
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(HANDSHAKE % b"")
                assert b" 101 " in await stream.receive_some()
            async with await trio.open_unix_socket(path) as stream:
                await stream.send_all(HANDSHAKE % b"Origin: http://localhost\r\n")
                assert b" 403 " in await stream.receive_some()
    assert not await trio.Path(path).exists()


def test_a_socket_that_was_left_behind_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    path = str(tmp_path / "stopgo.sock")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(path)
    with unix_socket(path) as sock:
        sock.listen()
        with pytest.raises(BindError, match="in use"), unix_socket(path):
            pass
        assert stat.S_ISSOCK(os.stat(path).st_mode)
    Path(path).write_text("a file")
    with pytest.raises(BindError, match="in use"), unix_socket(path):
        pass
    assert Path(path).read_text() == "a file"
    for bad in (tmp_path / "missing" / "stopgo.sock", tmp_path / ("long" * 50)):
        with pytest.raises(BindError), unix_socket(str(bad)):
            pass


def test_other_files_keep_their_permissions(tmp_path: Path) -> None:
    with unix_socket(str(tmp_path / "stopgo.sock")):
        (tmp_path / "file").touch(0o644)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
