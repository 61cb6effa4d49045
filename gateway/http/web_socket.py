"""One websocket as the routes see it. It only sends; messages of the client are discarded."""

from __future__ import annotations

from typing import cast

import attrs
from hypercorn.typing import ASGISendCallable, ASGISendEvent

from .request import Request

STOPS = 1001, "shutting down"
"""Code and reason of the close frame when the server stops."""


@attrs.define(eq=False)
class Socket:
    """A websocket, accepted by its route. Its task is cancelled when the client disconnects and when the
    server stops; the connection then sends the close frame."""

    request: Request
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
