"""A small HTTP/1.1 server on trio and h11, which can also break the protocol."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import attrs
import h11
import trio

MAX_BODY = 32 * 1024 * 1024


@attrs.frozen
class Request:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes


@attrs.frozen
class Pause:
    """Nothing is sent for so many seconds."""

    seconds: float


@attrs.frozen
class Drop:
    """The connection closes here, whatever was promised."""


Chunk: TypeAlias = bytes | Pause | Drop


@attrs.frozen
class Answer:
    status: int = 200
    headers: Mapping[str, str] = attrs.field(factory=dict)
    body: bytes = b""
    chunks: Iterable[Chunk] | None = None
    """Sent one by one in place of `body`; may be endless."""
    length: int | None = None
    """Value of `content-length`; None: the body is chunked."""
    late: float = 0.0
    """Seconds before anything is sent."""
    head: tuple[Chunk, ...] | None = None
    """In place of everything: bytes as they are, then the connection closes."""

    @classmethod
    def json(cls, value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
        body = json.dumps(value).encode()
        return cls(status, {"content-type": "application/json", **(headers or {})}, body)


Handler: TypeAlias = Callable[[Request], Awaitable[Answer]]


class _Dropped(Exception):
    """The connection is to be closed."""


class _Left(Exception):
    """The client has closed the connection."""


async def serve(
    handler: Handler,
    left: Callable[[], None],
    *,
    task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a free port of this machine until cancelled; started with the port.

    `left` is told when a client leaves before it has its answer.
    """
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port: int = listeners[0].socket.getsockname()[1]
    task_status.started(port)
    await trio.serve_listeners(partial(_connection, handler, left), listeners)


async def _connection(handler: Handler, left: Callable[[], None], stream: trio.SocketStream) -> None:
    wire = _Wire(stream)
    try:
        while await wire.one_exchange(handler):
            pass
    except _Dropped:
        pass
    except (_Left, trio.BrokenResourceError, h11.RemoteProtocolError):
        left()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await stream.aclose()


@attrs.define(eq=False)
class _Wire:
    _stream: trio.SocketStream
    _http: h11.Connection = attrs.field(factory=lambda: h11.Connection(h11.SERVER))

    async def one_exchange(self, handler: Handler) -> bool:
        """Whether another may follow on this connection."""
        request = await self._request()
        if request is None:
            return False
        answer = await handler(request)
        if answer.late:
            await self._do(Pause(answer.late))
        if answer.head is not None:
            await self._send_raw(answer.head)
            return False
        await self._send(answer)
        if self._http.our_state is h11.MUST_CLOSE:
            return False
        self._http.start_next_cycle()
        return True

    async def _request(self) -> Request | None:
        event = await self._event()
        if not isinstance(event, h11.Request):
            return None
        body = bytearray()
        while isinstance(data := await self._event(), h11.Data):
            body += data.data
            assert len(body) <= MAX_BODY
        path, _, query = event.target.decode().partition("?")
        headers = {name.decode().lower(): value.decode() for name, value in event.headers}
        return Request(event.method.decode(), path, query, headers, bytes(body))

    async def _event(self) -> object:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event
            self._http.receive_data(await self._stream.receive_some(65536))

    async def _send(self, answer: Answer) -> None:
        chunks = [answer.body] if answer.chunks is None else answer.chunks
        headers = dict(answer.headers)
        if answer.chunks is None:
            headers["content-length"] = str(len(answer.body))
        elif answer.length is not None:
            headers["content-length"] = str(answer.length)
        else:
            headers["transfer-encoding"] = "chunked"
        await self._write(h11.Response(status_code=answer.status, headers=list(headers.items())))
        for chunk in chunks:
            if isinstance(chunk, bytes):
                await self._write(h11.Data(data=chunk))
            else:
                await self._do(chunk)
        await self._write(h11.EndOfMessage())

    async def _write(self, event: h11.Event) -> None:
        data = self._http.send(event)
        if data:
            await self._stream.send_all(data)

    async def _send_raw(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            if isinstance(chunk, bytes):
                await self._stream.send_all(chunk)
            else:
                await self._do(chunk)

    async def _do(self, chunk: Pause | Drop) -> None:
        if isinstance(chunk, Drop):
            raise _Dropped
        with trio.move_on_after(chunk.seconds):
            # Whoever waits for an answer says nothing meanwhile.
            if not await self._stream.receive_some(1):
                raise _Left


def cut(data: bytes, size: int) -> Iterator[bytes]:
    """Pieces of so many bytes, wherever that falls."""
    for start in range(0, len(data), size):
        yield data[start : start + size]
