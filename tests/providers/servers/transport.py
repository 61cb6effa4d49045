"""The same servers without sockets, for virtual time and for thousands of requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping

import attrs
import httpx2
import trio

from tests.providers.servers.http import Answer, Chunk, Drop, Pause, Request
from tests.providers.servers.model_server import DIALECTS, ModelServer


@attrs.define(eq=False)
class ServersTransport(httpx2.AsyncBaseTransport):
    """Carries a request to the server whose name is the host's."""

    servers: Mapping[str, ModelServer]
    cancelled: int = 0
    """Requests whose callers left before the end of the answer."""
    at_once: int = 0
    most_at_once: int = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await trio.lowlevel.checkpoint()
        server = self.servers[request.url.host]
        headers = {name.lower(): value for name, value in request.headers.items()}
        path, _, query = request.url.raw_path.decode().partition("?")
        arrived = Request(request.method, path, query, headers, await request.aread())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            answer = await server.handle(arrived)
            await trio.sleep(answer.late)
        except BaseException:
            self.at_once -= 1
            self.cancelled += 1
            raise
        if answer.head is not None:
            self.at_once -= 1
            raise httpx2.RemoteProtocolError("Server disconnected without sending a response.")
        return httpx2.Response(answer.status, headers=dict(answer.headers), stream=_Body(self, answer))


@attrs.define(eq=False)
class _Body(httpx2.AsyncByteStream):
    _transport: ServersTransport
    _answer: Answer
    _closed: bool = False
    _ended: bool = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        answer = self._answer
        chunks: Iterable[Chunk] = [answer.body] if answer.chunks is None else answer.chunks
        for chunk in chunks:
            match chunk:
                case Pause():
                    await trio.sleep(chunk.seconds)
                case Drop():
                    raise httpx2.RemoteProtocolError("peer closed connection without sending complete body")
                case _ if chunk:
                    await trio.lowlevel.checkpoint()
                    yield chunk
        self._ended = True

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport.at_once -= 1
            self._transport.cancelled += not self._ended


def servers_without_sockets(**dialects: str) -> ServersTransport:
    """Servers and their dialects by name. The address of a server is `http://NAME`."""
    return ServersTransport(
        {name: ModelServer(DIALECTS[dialect], f"http://{name}") for name, dialect in dialects.items()}
    )
