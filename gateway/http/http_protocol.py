"""HTTP/1 and websockets on one connection: Hypercorn's protocols, with stricter rules.

`HTTP1` parses requests with h11 and opens one stream at a time: Hypercorn's `HTTPStream` for a request, or
`WebsocketStream` for a websocket, which then owns the connection. The stream translates between the wire and
ASGI messages. The rules that Hypercorn does not have:

1. A request is refused (400) if it gives its length twice, if its target is no path or http(s) URL, or if it
   is a websocket handshake with a body. HTTP/2 is never spoken; its preface gets 505.
2. A websocket only sends. Messages of the client are discarded, each bounded by `MAX_MESSAGE`; with Hypercorn
   the connection would wait until the application reads them.
3. permessage-deflate is never negotiated, because it costs 94 KiB per connection.
4. A violation of the websocket protocol is answered with the close code of RFC 6455.
5. An answer after which the connection is closed says `Connection: close`. Without it, a client that keeps
   connections would send its next request into the closed one.
6. After a close frame the connection stays open until the client has closed it, too, for at most
   `CLOSE_GRACE` seconds. Otherwise unread bytes would reset the connection, and the frame could be lost.
"""

from __future__ import annotations

import re
from dataclasses import replace
from http import HTTPStatus
from time import time
from typing import cast

import h11
import trio
from hypercorn.events import Closed, RawData
from hypercorn.protocol.events import Body, Data, EndBody, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.events import Request as StreamRequest
from hypercorn.protocol.h11 import STREAM_ID, H11Protocol, H11WSConnection
from hypercorn.protocol.http_stream import HTTPStream
from hypercorn.protocol.ws_stream import ASGIWebsocketState, WSStream
from hypercorn.typing import ASGISendEvent, ResponseSummary, WebsocketAcceptEvent
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping, TextMessage
from wsproto.frame_protocol import CloseReason
from wsproto.handshake import WEBSOCKET_VERSION

from .errors import bare_refusal, refusal_body

MAX_MESSAGE = 2**16
"""Bytes of a client's message."""
CLOSE_GRACE = 2.0
"""Seconds to wait for the client's close frame after ours."""
HEARTBEAT = '{"type":"heartbeat"}'
"""The message sent on a silent websocket, so that the client can detect a lost connection."""
HEARTBEAT_INTERVAL = 15.0
"""Seconds without a message before a heartbeat."""
EVENTS_IN_TURN = 64
"""Frames of a client that are handled between two checkpoints."""

_FRAMINGS = {b"content-length", b"transfer-encoding"}
_TARGET = re.compile(rb"(https?://[\w.:-]+)?/", re.IGNORECASE)
"""Accepted request targets: a path, or an http(s) URL as it is sent to a proxy."""

_OPEN = (ASGIWebsocketState.CONNECTED, ASGIWebsocketState.CLOSED)
"""States in which the client's frames are read; in `CLOSED` only its close frame matters."""


class HTTP1(H11Protocol):
    """A connection's requests, one after the other, or its websocket."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Ignore requests for HTTP/2."""

    async def _create_stream(self, request: h11.Request) -> None:
        framings = {name for name, _ in request.headers} & _FRAMINGS
        if not request.http_version.startswith(b"1."):
            await self._refuse(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED)
        elif framings == _FRAMINGS or not _TARGET.match(request.target) or (framings and _is_socket(request)):
            # A proxy may use the other length, and read the rest of this request as the next one (request
            # smuggling; RFC 9112, section 6.1). The body of a handshake would be read as frames.
            await self._refuse(HTTPStatus.BAD_REQUEST)
        elif _head_size(request) > self.config.h11_max_incomplete_size:
            # h11 bounds only incomplete heads; a complete one may be larger.
            await self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        else:
            await self._open_stream(request)

    async def _open_stream(self, request: h11.Request) -> None:
        is_socket = _is_socket(request)
        self.stream = (WebsocketStream if is_socket else HTTPStream)(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if is_socket:
            self.connection = H11WSConnection(cast("h11.Connection", self.connection))
        await self.stream.handle(
            StreamRequest(
                stream_id=STREAM_ID,
                headers=list(request.headers),
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )

    async def _refuse(self, status: HTTPStatus) -> None:
        await self._send_error_response(status)
        await self.send(Closed())

    async def _send_error_response(self, status_code: int) -> None:
        cast("h11.Connection", self.connection).send_failed()  # the connection is closed after these bytes
        await self.send(RawData(bare_refusal(status_code)))

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response) and self._is_last(event):
            event = _with_close(event)
        await super().stream_send(event)
        if isinstance(event, EndBody) and isinstance(self.stream, WSStream):
            # A handshake was refused; Hypercorn would keep the connection open until the client closes it.
            await self.send(Closed())

    def _is_last(self, answer: Response) -> bool:
        """Whether the connection is closed after the answer: a handshake was refused, the server stops, or
        the body of the request has not arrived. h11 knows the other reasons."""
        if isinstance(self.stream, WSStream):
            return answer.status_code != HTTPStatus.SWITCHING_PROTOCOLS
        return self.context.terminated.is_set() or self.connection.their_state is h11.SEND_BODY

    async def beat(self) -> None:
        """Send the heartbeat of a websocket."""
        if isinstance(self.stream, WebsocketStream):
            await self.stream.beat()


class WebsocketStream(WSStream):
    """A websocket from its handshake to its last frame."""

    _ended: trio.Event
    """Set when the client has closed the websocket or the connection."""
    _length = 0
    """Bytes of the client's current message so far."""
    _broken = False
    """The client has violated the protocol; all further frames are discarded."""

    async def handle(self, event: StreamEvent) -> None:
        match event:
            case StreamRequest():
                self._ended = trio.Event()
                await super().handle(replace(event, headers=_without_bad_key(event.headers)))
            case Body() | Data() if self.state is ASGIWebsocketState.HANDSHAKE:  # too early
                await self._send_error_response(HTTPStatus.BAD_REQUEST)
            case Body() | Data() if self.state in _OPEN and not self._broken and not self.closed:
                self.connection.receive_data(event.data)
                await self._handle_events()
            case StreamClosed():
                self.closed = True
                self._ended.set()
                if self.app_put is not None:
                    await self.app_put({"type": "websocket.disconnect", "code": 1006, "reason": ""})
            case _:
                pass

    async def beat(self) -> None:
        """Send the heartbeat."""
        if self.state is ASGIWebsocketState.CONNECTED:
            await self._send_wsproto_event(TextMessage(HEARTBEAT))

    async def app_send(self, message: ASGISendEvent | None) -> None:
        if message is None and self.state is ASGIWebsocketState.CLOSED:
            with trio.move_on_after(CLOSE_GRACE):
                await self._ended.wait()
        await super().app_send(message)

    async def _accept(self, message: WebsocketAcceptEvent) -> None:
        self.handshake.extensions = None
        await super()._accept(message)

    async def _handle_events(self) -> None:
        for count, event in enumerate(self.connection.events(), start=1):
            if count % EVENTS_IN_TURN == 0:
                await trio.lowlevel.checkpoint()
            match event:
                case Message(data=data):
                    self._length += len(data.encode() if isinstance(data, str) else data)
                    if self._length > MAX_MESSAGE:
                        await self._break(
                            CloseReason.MESSAGE_TOO_BIG, f"a message has over {MAX_MESSAGE} bytes"
                        )
                        return
                    if event.message_finished:
                        self._length = 0
                case Ping():
                    await self._send_wsproto_event(event.response())
                case CloseConnection() if self.connection.state is ConnectionState.OPEN:  # a parse error
                    await self._break(CloseReason(event.code), event.reason or "")
                    return
                case CloseConnection():
                    if self.connection.state is ConnectionState.REMOTE_CLOSING:
                        await self._send_wsproto_event(event.response())
                    await self.send(StreamClosed(stream_id=self.stream_id))
                    return
                case _:
                    pass

    async def _break(self, code: CloseReason, reason: str) -> None:
        """Close the websocket because the client violated the protocol."""
        self._broken = True
        self.state = ASGIWebsocketState.CLOSED
        await self._send_wsproto_event(CloseConnection(code, reason))
        assert self.app_put is not None
        await self.app_put({"type": "websocket.disconnect", "code": code, "reason": reason})

    async def _send_error_response(self, status_code: int) -> None:
        """Refuse the handshake."""
        self.closed = True
        if status_code == HTTPStatus.BAD_REQUEST and self.handshake.version != WEBSOCKET_VERSION:
            status_code = HTTPStatus.UPGRADE_REQUIRED  # RFC 6455, section 4.4
        body = refusal_body(status_code)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
            (b"sec-websocket-version", WEBSOCKET_VERSION),
            (b"upgrade", b"websocket"),
        ]
        await self.send(Response(stream_id=self.stream_id, status_code=status_code, headers=headers))
        await self.send(Body(stream_id=self.stream_id, data=body))
        await self.send(EndBody(stream_id=self.stream_id))
        summary: ResponseSummary = {"status": status_code, "headers": []}
        await self.config.log.access(self.scope, summary, time() - self.start_time)


def _with_close(answer: Response) -> Response:
    if (b"connection", b"close") in answer.headers:
        return answer
    return replace(answer, headers=[*answer.headers, (b"connection", b"close")])


def _is_socket(request: h11.Request) -> bool:
    """Whether the request is the handshake of a websocket."""
    if request.method != b"GET" or (b"upgrade", b"websocket") not in (
        (name, value.lower()) for name, value in request.headers
    ):
        return False
    values = (value for name, value in request.headers if name == b"connection")
    return any(token.strip().lower() == b"upgrade" for value in values for token in value.split(b","))


def _without_bad_key(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers without a `Sec-WebSocket-Key` that does not encode 16 bytes. Hypercorn refuses a handshake
    without a key, but would accept an invalid one."""
    return [
        (name, value)
        for name, value in headers
        if name != b"sec-websocket-key" or re.fullmatch(rb"[A-Za-z0-9+/]{22}==", value)
    ]


def _head_size(request: h11.Request) -> int:
    """Bytes of the first line and the headers, with line ends."""
    first = len(request.method) + len(request.target) + len(b"  HTTP/1.1\r\n")
    return first + sum(len(name) + len(value) + len(b": \r\n") for name, value in request.headers)
