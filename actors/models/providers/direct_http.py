"""Direct connections to providers: HTTP/1.1 with h11 on trio, kept open for the next requests.

A transport of httpx2, whose client does the rest as it does over a proxy: headers, redirects, cookies, hooks.
With the pool of httpx2, a turn takes 14 % more CPU time at 16 at a time, 33 % more at 500
(`tests/bench/test_whole_turn_bench.py`).

* A request is sent once. Whoever calls decides on another attempt, because a provider may have worked on a
  request that it has not answered, and charged for it.
* A kept connection is used again only if its answer ended well and nothing came after it: neither the end of
  the connection, nor bytes that would be taken for the next answer.
* At most `max_connections` are open, kept ones included. Requests wait for one in their order, and the one
  that has been idle longest is closed if it leads elsewhere.
* A connection whose answer is left early is closed.
* Over TLS, an answer without a length is whole only if TLS announced its end (RFC 9112, 9.8).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Self

import h11
import httpx2
import trio

KEPT = 5.0
"""Seconds for which an idle connection is kept."""
_MAX_HEAD = 100 * 1024
"""Bytes of the head of an answer."""
_RECEIVED = 64 * 1024
"""Bytes that are received at once."""
_PORTS = {"http": 80, "https": 443}
_ENDS = (h11.DONE, h11.MUST_CLOSE, h11.CLOSED)
"""States after a whole answer."""


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class DirectTransport(httpx2.AsyncBaseTransport):
    """The connections of one client. Raises the errors of httpx2."""

    def __init__(self, max_connections: int, tls: ssl.SSLContext, connect_timeout: float) -> None:
        tls.set_alpn_protocols(["http/1.1"])
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._slots = trio.Semaphore(max_connections)
        """One for each request, until its answer is closed."""
        self._idle: list[_Connection] = []
        """Those that have been idle longest come first."""
        self._closed = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        origin = _origin(request.url)
        content = await request.aread()
        try:
            self._slots.acquire_nowait()  # without rescheduling the task
        except trio.WouldBlock:
            await self._slots.acquire()
        connection = None
        try:
            connection = self._kept(origin) or await self._connect(origin)
            head = await connection.ask(request, content)
        except BaseException:
            self._give_back(connection)
            raise
        return httpx2.Response(
            head.status_code,
            headers=head.headers.raw_items(),
            stream=_Body(connection, self._give_back),
            extensions={"http_version": b"HTTP/" + head.http_version, "reason_phrase": head.reason},
        )

    def _kept(self, origin: _Origin) -> _Connection | None:
        now = trio.current_time()
        while self._idle and now >= self._idle[0].kept_until:
            self._idle.pop(0).close()
        # The one that was used last is the least likely to be closed by the provider.
        while found := next((each for each in reversed(self._idle) if each.origin == origin), None):
            self._idle.remove(found)
            if not found.socket.is_readable():
                return found
            found.close()
        return None

    async def _connect(self, origin: _Origin) -> _Connection:
        if len(self._idle) > self._slots.value:
            self._idle.pop(0).close()
        try:
            with trio.fail_after(self._connect_timeout):
                tcp = await trio.open_tcp_stream(origin.host, origin.port)
                stream = tcp if origin.scheme == "http" else await self._secured(tcp, origin.host)
        except trio.TooSlowError as error:
            raise httpx2.ConnectTimeout("") from error
        # UnicodeError: the name has an empty label, or one of more than 63 characters.
        except (OSError, UnicodeError, trio.BrokenResourceError) as error:
            raise httpx2.ConnectError("") from error
        return _Connection(origin, stream, tcp.socket)

    async def _secured(self, tcp: trio.SocketStream, host: str) -> trio.abc.Stream:
        below = trio.StapledStream(_TlsSends(tcp), tcp)
        stream = trio.SSLStream(below, self._tls, server_hostname=host)
        try:
            await stream.do_handshake()
        except BaseException:
            tcp.socket.close()
            raise
        return stream

    def _give_back(self, connection: _Connection | None) -> None:
        """End a request."""
        if connection is not None and connection.next_cycle() and not self._closed:
            connection.kept_until = trio.current_time() + KEPT
            self._idle.append(connection)
        elif connection is not None:
            connection.close()
        self._slots.release()

    async def aclose(self) -> None:
        """Close the idle connections now, and the others with their answers."""
        self._closed = True
        while self._idle:
            self._idle.pop().close()


def _origin(url: httpx2.URL) -> _Origin:
    if url.scheme not in _PORTS:
        raise httpx2.UnsupportedProtocol(
            f"its address does not begin with http:// or https:// ({url.scheme})"
        )
    return _Origin(url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme])


class _TlsSends(trio.abc.SendStream):
    """Where TLS sends. It learns of no failure, because it would receive nothing more after one, not even the
    answer of a provider that refuses a long request before its end. Receiving fails then, or ends."""

    def __init__(self, tcp: trio.SocketStream) -> None:
        self._tcp = tcp

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        with suppress(trio.BrokenResourceError):
            await self._tcp.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        await self._tcp.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        await self._tcp.aclose()


class _Connection:
    """One request at a time."""

    def __init__(self, origin: _Origin, stream: trio.abc.Stream, socket: trio.socket.SocketType) -> None:
        self.origin = origin
        self.socket = socket
        self.kept_until = 0.0
        self._stream = stream
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEAD)

    async def ask(self, request: httpx2.Request, content: bytes) -> h11.Response:
        """Send a request; return the head of its answer."""
        url = request.url
        try:
            head = h11.Request(method=request.method, target=url.raw_path, headers=request.headers.raw)
            events = (head, h11.Data(data=content), h11.EndOfMessage())
            sent = b"".join(self._http.send(event) or b"" for event in events)
        except h11.LocalProtocolError as error:
            raise httpx2.LocalProtocolError("") from error
        try:
            await self._stream.send_all(sent)
        except trio.BrokenResourceError:
            # A provider may refuse a long request before its end. Then the answer is there.
            self._http.send_failed()
        while not isinstance(event := self._next_event(), h11.Response):
            if event is h11.NEED_DATA:  # otherwise 100 Continue and the like
                await self._receive()
        return event

    async def more(self) -> bytes:
        """All of the body that is there, or the next of it; no bytes: the end."""
        parts: list[bytes] = []
        while self._http.their_state not in _ENDS:
            try:
                event = self._next_event()
            except httpx2.RemoteProtocolError:
                if parts:
                    break  # What came before the fault counts. The next call raises this error again.
                raise
            if isinstance(event, h11.Data):
                parts.append(event.data)
            elif event is h11.NEED_DATA:
                if parts:
                    break
                await self._receive()
        return b"".join(parts)

    def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            raise httpx2.RemoteProtocolError("") from error

    async def _receive(self) -> None:
        try:
            data = await self._stream.receive_some(_RECEIVED)
        except trio.BrokenResourceError as error:
            raise httpx2.ReadError("") from error
        self._http.receive_data(bytes(data))

    def next_cycle(self) -> bool:
        """Prepare for another request. Whether the connection is good for one."""
        http = self._http
        if http.our_state is not h11.DONE or http.their_state is not h11.DONE or any(http.trailing_data):
            return False
        # The socket does not show what TLS has received with the answer, and trio has no other name for it.
        if isinstance(self._stream, trio.SSLStream) and self._stream._incoming.pending:
            return False
        http.start_next_cycle()
        return True

    def close(self) -> None:
        self.socket.close()


class _Body(httpx2.AsyncByteStream):
    """The body of an answer. No generator, because that would have to be closed apart when it is left."""

    def __init__(self, connection: _Connection, give_back: Callable[[_Connection], None]) -> None:
        self._connection = connection
        self._give_back = give_back
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if data := await self._connection.more():
            return data
        raise StopAsyncIteration

    async def aclose(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._give_back(self._connection)
