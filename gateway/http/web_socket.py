"""One websocket as the routes see it. It only sends: messages of the client are discarded as they come."""

from __future__ import annotations

from typing import cast

import attrs
from hypercorn.typing import ASGISendCallable, ASGISendEvent

from .request import Request

STOPS = 1001, "shutting down"
"""Code and reason of the close frame when the server stops."""


@attrs.define(eq=False)
class Socket:
    """Accepted by its route. Its task is cancelled when the client leaves and when the server stops; the
    connection then sends what close frame is due."""

    request: Request
    """The handshake."""
    _send: ASGISendCallable
    accepted: bool = False

    async def accept(self) -> None:
        """Answer the handshake. Until then an error that the route raises is the reply to it."""
        await self._tell({"type": "websocket.accept", "subprotocol": None, "headers": []})
        self.accepted = True

    async def send(self, text: bytes) -> None:
        """Send one message. Waits for a slow client; ends with the connection when it stops reading."""
        await self._tell({"type": "websocket.send", "bytes": None, "text": text.decode()})

    async def close(self, code: int, reason: str) -> None:
        """Send a close frame (RFC 6455, section 7.4: `code`). The route has to return then."""
        await self._tell({"type": "websocket.close", "code": code, "reason": reason})

    async def _tell(self, message: dict[str, object]) -> None:
        await self._send(cast("ASGISendEvent", message))
