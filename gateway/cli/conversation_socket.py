"""The frames of one conversation, over its websocket: each event once and in order, whatever becomes of the
connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import attrs
import orjson
import trio
import trio_websocket

from ...actors.common.tls import TlsUnusable, trusted
from ...runtime.journal.protocol import Event
from ...runtime.restart import Backoff, Streak
from .agent_client import AgentClient, ServerError, answer_of, unreached

Json: TypeAlias = dict[str, Any]

RECONNECTS = Backoff(first=0.2, limit=10.0, jitter=0.5, healthy=5.0)
SILENCE = 45.0
"""Seconds without a frame after which the connection counts as lost; a heartbeat comes every 15."""
MAX_FRAME = 64 * 2**20
"""Bytes."""
QUEUE = 64
"""Frames that are read ahead."""
HANDSHAKE_TIMEOUT = 5.0
"""Seconds until the server must have accepted the websocket."""
CLOSE_TIMEOUT = 1.0
"""Seconds for the server to answer the close frame."""
DELETED = 1000
"""Close code: the conversation was deleted."""
LOST = 1006
"""Close code: there was no close frame."""
TOO_LONG = 1009


@attrs.frozen
class Passing:
    """A frame that is no event: ``model.delta`` or ``tool.progress``."""

    frame: Json


Sink: TypeAlias = Callable[[Event | Passing], Awaitable[None]]


@attrs.define(eq=False)
class ConversationSocket:
    client: AgentClient
    conversation: str
    on_connection: Callable[[str | None], Awaitable[None]]
    """Told why there is no connection, or None when there is one again."""
    after: int = 0
    """The seq of the last event."""

    async def follow(self, take_in: Sink) -> None:
        """Hand over what is stored after `after`, then what comes, until the conversation is deleted.

        Connects again for as long as it takes.

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
        """Follow by one connection. Raises ServerError, unless the conversation was deleted."""
        url, client = urlsplit(self.client.url), self.client
        try:
            async with trio_websocket.open_websocket(
                url.hostname or "",
                url.port or (443 if url.scheme == "https" else 80),
                f"{url.path}/conversations/{self.conversation}/ws?after={self.after}&deltas=true",
                use_ssl=trusted() if url.scheme == "https" else False,
                extra_headers=[(name.encode(), value.encode()) for name, value in client.headers.items()],
                message_queue_size=QUEUE,
                max_message_size=MAX_FRAME,
                # The library does not notice a connection that is closed before it is answered.
                connect_timeout=HANDSHAKE_TIMEOUT,
                disconnect_timeout=CLOSE_TIMEOUT,
            ) as socket:
                await self.on_connection(None)
                while True:
                    with trio.fail_after(SILENCE):
                        message = await socket.get_message()
                    if (told := self._read(orjson.loads(message))) is not None:
                        await take_in(told)
        except trio_websocket.ConnectionClosed as closed:
            self._closed(closed.reason)
        except trio_websocket.ConnectionRejected as refused:
            answer_of(refused.status_code, refused.body, client.url)
            raise ServerError(f"there is no websocket at {client.url}", status=404) from refused
        except TlsUnusable as error:
            raise ServerError(str(error), status=400) from error
        except (trio.TooSlowError, trio_websocket.HandshakeError, OSError) as error:
            raise unreached(client.url, error) from error

    def _read(self, frame: Json) -> Event | Passing | None:
        if "seq" not in frame:
            return None if frame["type"] == "heartbeat" else Passing(frame)
        if frame["seq"] <= self.after:
            return None
        self.after = frame["seq"]
        at = datetime.fromisoformat(frame["at"]).timestamp()
        return Event(self.conversation, self.after, frame["type"], at, frame.get("body") or {})

    def _closed(self, reason: trio_websocket.CloseReason | None) -> None:
        code = LOST if reason is None else reason.code
        if code == TOO_LONG:
            raise ServerError(f"an event is longer than {MAX_FRAME} bytes", status=413)
        if code != DELETED:
            why = f": {reason.reason}" if reason is not None and reason.reason else ""
            raise ServerError(
                f"the connection to {self.client.url} was {'lost' if code == LOST else 'closed'}{why}"
            )
