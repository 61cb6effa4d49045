"""The frames of one conversation over its websocket: each event once and in order, across reconnections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import attrs
import trio
import trio_websocket
from trio_websocket import WebSocketConnection

from ....actors.common.tls import TlsUnusable, trusted
from ....runtime.journal.protocol import Event
from ....runtime.json_text import load
from ....runtime.restart import Backoff, Streak
from .agent_client import CONNECT_TIMEOUT, AgentClient, JsonObject, ServerError, json_of, unreached

RECONNECTS = Backoff(first=0.2, limit=10.0, jitter=0.5, healthy=5.0)
SILENCE = 45.0
"""Seconds without a frame after which the connection counts as lost. The server sends a heartbeat after 15
seconds without a frame."""
MAX_FRAME = 64 * 2**20
"""Maximum bytes of a frame."""
QUEUE = 64
"""Number of frames to read ahead."""
HANDSHAKE_TIMEOUT = 5.0
"""Seconds to wait until the server accepts the websocket."""
LOST = 1006
"""Close code of a connection that ended without a close frame."""


@attrs.frozen
class Transient:
    """A frame that is never stored: ``model.delta`` or ``tool.progress``."""

    frame: JsonObject


Stream: TypeAlias = trio.SocketStream | trio.SSLStream[trio.SocketStream]
E = TypeVar("E", bound=Exception)
Sink: TypeAlias = Callable[[Event | Transient], Awaitable[None]]


@attrs.define(eq=False)
class ConversationSocket:
    client: AgentClient
    conversation: str
    on_connection: Callable[[str | None], Awaitable[None]]
    """Called with the reason when the connection is lost, and with None when there is one again."""
    after: int = 0
    """The seq of the last event."""

    async def follow(self, take_in: Sink) -> None:
        """Pass stored frames after `after`, then live ones, to `take_in`, until the conversation is deleted.

        Reconnects without limit.

        Raises:
            ServerError: the server refuses.
        """
        streak = Streak(RECONNECTS)
        while True:
            begun = trio.current_time()
            try:
                await self._connection(take_in)
                return
            except ServerError as error:
                if not error.may_pass:
                    raise
                await self.on_connection(error.message)
            await trio.sleep(streak.fail(trio.current_time() - begun))

    async def _connection(self, take_in: Sink) -> None:
        """Follow over one connection. Raises ServerError, unless the conversation was deleted."""
        failure: ServerError | None = None
        try:
            async with await self._stream() as stream, trio.open_nursery() as nursery:
                socket = await self._handshake(nursery, stream)
                await self.on_connection(None)
                while True:
                    with trio.fail_after(SILENCE):
                        message = await socket.get_message()
                    if (frame := self._read(message)) is not None:
                        await take_in(frame)
        except* trio_websocket.ConnectionClosed as group:
            failure = self._closed(_first(group).reason)
        except* trio_websocket.ConnectionRejected as group:
            failure = self._rejected(_first(group))
        except* ServerError as group:
            failure = _first(group)
        except* TlsUnusable as group:
            failure = ServerError(str(_first(group)), status=400)
        except* (trio.TooSlowError, OSError) as group:
            failure = unreached(self.client.url, _first(group))
        if failure is not None:
            raise failure

    async def _stream(self) -> Stream:
        url = urlsplit(self.client.url)
        host = url.hostname or ""
        with trio.fail_after(CONNECT_TIMEOUT):
            if url.scheme == "http":
                return await trio.open_tcp_stream(host, url.port or 80)
            port, context = url.port or 443, trusted()
            return await trio.open_ssl_over_tcp_stream(host, port, ssl_context=context, https_compatible=True)

    async def _handshake(self, nursery: trio.Nursery, stream: Stream) -> WebSocketConnection:
        # Without `open_websocket`, which leaves the connection open when the server closes it or refuses.
        # Under a timeout, because the library does not notice a connection that closes before the response.
        url = urlsplit(self.client.url)
        with trio.fail_after(HANDSHAKE_TIMEOUT):
            return await trio_websocket.wrap_client_stream(
                nursery,
                stream,
                url.netloc,
                f"{url.path}/conversations/{self.conversation}/ws?after={self.after}&deltas=true",
                extra_headers=[
                    (name.encode(), value.encode()) for name, value in self.client.headers.items()
                ],
                message_queue_size=QUEUE,
                max_message_size=MAX_FRAME,
            )

    def _read(self, message: str | bytes) -> Event | Transient | None:
        try:
            frame: Any = load(message if isinstance(message, str) else message.decode())
            match frame:
                case {"seq": int(seq)} if seq <= self.after:
                    return None
                case {"seq": int(seq), "type": str(type), "at": str(at)}:
                    body = dict(frame.get("body") or {})
                    event = Event(self.conversation, seq, type, datetime.fromisoformat(at).timestamp(), body)
                    self.after = seq
                    return event
                case {"type": "heartbeat"}:
                    return None
                case {"type": str()} if "seq" not in frame:
                    return Transient(frame)
        except (ValueError, TypeError, OverflowError):
            pass
        raise ServerError(f"a frame of {self.client.url} is malformed", status=400)

    def _closed(self, reason: trio_websocket.CloseReason | None) -> ServerError | None:
        match LOST if reason is None else reason.code:
            case 1000:
                return None
            case 1009:
                return ServerError(f"an event is longer than {MAX_FRAME} bytes", status=413)
            case code:
                how = "lost" if code == LOST else "closed"
                why = f": {reason.reason}" if reason is not None and reason.reason else ""
                return ServerError(f"the connection to {self.client.url} was {how}{why}")

    def _rejected(self, refused: trio_websocket.ConnectionRejected) -> ServerError:
        try:
            json_of(refused.status_code, refused.body, self.client.url)
        except ServerError as error:
            return error
        return ServerError(f"there is no websocket at {self.client.url}", status=404)


def _first(group: ExceptionGroup[E]) -> E:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first
