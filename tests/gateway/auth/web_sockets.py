"""Websockets as programs open them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
from trio_websocket import WebSocketConnection, wrap_client_stream

from stopgo.gateway.http.http_server import HttpServer


@asynccontextmanager
async def socket(server: HttpServer, path: str, key: str | None = None) -> AsyncIterator[WebSocketConnection]:
    headers = [] if key is None else [(b"X-API-Key", key.encode())]
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream, trio.open_nursery() as nursery:
        host = f"127.0.0.1:{server.port}"
        connection = await wrap_client_stream(nursery, stream, host, path, extra_headers=headers)
        yield connection
        await connection.aclose()


async def exhaust(connection: WebSocketConnection) -> None:
    while True:
        await connection.get_message()
