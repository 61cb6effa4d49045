"""One websocket as the routes see it. It only sends; messages of the client are discarded."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, cast

import attrs
import trio
from hypercorn.typing import ASGISendCallable, ASGISendEvent

from .errors import unauthenticated
from .event_stream import cancel_when
from .http_protocol import CLOSE_GRACE
from .identity import Lifetime
from .request import HttpRequest

STOPS = 1001, "shutting down"
"""Code and reason of the close frame when the server stops."""
CREDENTIAL_ENDED = 1008, "credential ended"
"""Code and reason when the credential of the handshake has expired or was revoked."""


@attrs.define(eq=False)
class Socket:
    """A websocket, accepted by its route. Its task is cancelled when the client disconnects and when the
    server stops; the connection then sends the close frame."""

    request: HttpRequest
    """The handshake."""
    _send: ASGISendCallable
    accepted: bool = False

    async def accept(self) -> None:
        """Accept the handshake. An error raised before that is the reply to the handshake."""
        await self._send_message({"type": "websocket.accept", "subprotocol": None, "headers": []})
        self.accepted = True

    async def send(self, text: bytes) -> None:
        """Send one message. Waits for a slow client; a client that stops reading is disconnected."""
        await self._send_message({"type": "websocket.send", "bytes": None, "text": text.decode()})

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame (RFC 6455, section 7.4: `code`). The route must return after it."""
        await self._send_message({"type": "websocket.close", "code": code, "reason": reason})

    async def _send_message(self, message: dict[str, object]) -> None:
        await self._send(cast("ASGISendEvent", message))


SocketView: TypeAlias = Callable[..., Awaitable[None]]
"""Serves one websocket. Takes the socket and the variables of the path."""


async def serve_until_ended(
    view: SocketView, socket: Socket, variables: Mapping[str, Any], lifetime: Lifetime
) -> None:
    """Serve a websocket, and close it when the lifetime ends."""
    failure: Exception | None = None
    is_served = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cancel_when, lifetime.ended, nursery.cancel_scope)
        try:
            await view(socket, **variables)
            is_served = True
        except Exception as error:
            failure = error
        nursery.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not is_served and not socket.accepted:
        raise unauthenticated()
    if not is_served:
        with trio.move_on_after(CLOSE_GRACE):  # the client may not read
            await socket.close(*CREDENTIAL_ENDED)
