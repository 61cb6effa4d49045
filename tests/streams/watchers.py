"""Clients that watch over websocket or SSE, and reconnect with their cursor after a disconnect."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from random import Random
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs
import httpx2
import trio
import trio_websocket

from .watched_server import AWAY, SMALL_BUFFER, Stopping, WatchedServer

Json = dict[str, Any]
Frames = AsyncGenerator[Json, None]
Transport = Literal["ws", "sse"]
TRANSPORTS: tuple[Transport, ...] = ("ws", "sse")
LOST = (*AWAY, trio.TooSlowError, trio_websocket.HandshakeError, trio_websocket.ConnectionClosed)
"""How a watcher sees that its connection was lost, or that the server does not accept one yet."""
HANDSHAKE = 30.0
"""Seconds for the answer to a handshake."""
HEARTBEAT = "heartbeat"
LEAVES = 0.5
"""Probability that a watcher that disconnects closes in an orderly way; otherwise it drops the connection."""


@attrs.define(eq=False)
class Connection:
    """One connection of a watcher."""

    frames: Frames
    """They end when the server ends the stream. Heartbeats are left out."""
    vanish: Callable[[], Awaitable[None]]
    """Drop the connection, without a close frame."""
    closed: tuple[int, str | None] | None = None
    """Code and reason of the server's close frame, once it has come."""


def open_stream(
    server: WatchedServer, transport: Transport, path: str, **query: object
) -> AbstractAsyncContextManager[Connection]:
    """Watch `path`, such as `/events`, with one of `TRANSPORTS`. Raises one of `LOST`."""
    params = httpx2.QueryParams({name: str(value) for name, value in query.items()})
    if transport == "sse":
        return _sse(server, f"{path}?{params}")
    path = path.removesuffix("/events") + "/ws" if path != "/events" else "/events/ws"
    return _websocket(server, f"{path}?{params}")


@asynccontextmanager
async def _websocket(server: WatchedServer, target: str) -> AsyncIterator[Connection]:
    where = urlsplit(server.url)
    assert where.hostname is not None
    assert where.port is not None
    stream = await trio.open_tcp_stream(where.hostname, where.port)
    stream.setsockopt(*SMALL_BUFFER)
    async with trio.open_nursery() as nursery:
        try:
            # trio-websocket waits for ever for the answer of a server that closes the connection instead.
            with trio.fail_after(HANDSHAKE):
                socket = await trio_websocket.wrap_client_stream(nursery, stream, where.netloc, target)
        except BaseException as error:
            await trio.aclose_forcefully(stream)
            if isinstance(error, trio_websocket.ConnectionRejected) and error.status_code != 503:
                raise AssertionError(f"the handshake was refused: {error}") from error
            raise

        async def frames() -> Frames:
            while True:
                try:
                    frame = json.loads(await socket.get_message())
                except trio_websocket.ConnectionClosed as error:
                    if error.reason is None or error.reason.code == 1006:
                        raise
                    connection.closed = error.reason.code, error.reason.reason
                    return
                if frame["type"] != HEARTBEAT:
                    yield frame

        async def vanish() -> None:
            nursery.cancel_scope.cancel()
            await trio.aclose_forcefully(stream)

        try:
            async with aclosing(frames()) as found:
                connection = Connection(found, vanish)
                yield connection
            await socket.aclose()
        finally:
            await trio.aclose_forcefully(stream)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _sse(server: WatchedServer, target: str) -> AsyncIterator[Connection]:
    async with server.client.stream("GET", target) as answer:
        if answer.status_code == 503:
            raise Stopping
        assert answer.status_code == 200, await answer.aread()

        async def frames() -> Frames:
            fields: Json = {}
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                fields[name] = value
                if line == "" and "data" in fields:
                    frame = json.loads(fields["data"])
                    assert fields["event"] == frame["type"]
                    journalled = "seq" in frame and not target.startswith("/events")
                    assert fields.get("id") == (str(frame["seq"]) if journalled else None)
                    yield frame
                if line == "":
                    fields = {}

        async with aclosing(frames()) as found:
            yield Connection(found, answer.aclose)


@attrs.define(eq=False)
class Watcher:
    """Follows one conversation until it is completed or deleted, over disconnects and restarts."""

    server: WatchedServer
    transport: Transport
    conversation: str
    chance: Random
    restless: float = 0.0
    """Probability of a disconnect at each event."""
    log: list[Json] = attrs.field(factory=list)
    connections: int = 0

    @property
    def ended(self) -> bool:
        return bool(self.log) and self.log[-1]["type"] in ("conversation.completed", "conversation.deleted")

    async def watch(self) -> None:
        while not self.ended:
            try:
                await self._connection()
            except* LOST:
                await trio.sleep(0.05 + 0.1 * self.chance.random())

    async def _connection(self) -> None:
        path = f"/conversations/{self.conversation}/events"
        after = self.log[-1]["seq"] if self.log else 0
        async with open_stream(self.server, self.transport, path, after=after) as connection:
            self.connections += 1
            async for frame in connection.frames:
                self.log.append(frame)
                if self.ended:
                    return
                if self.chance.random() < self.restless:
                    if self.chance.random() > LEAVES:
                        await connection.vanish()
                    return


@attrs.define(eq=False)
class Overseer:
    """Follows all conversations by the live stream, and reads what it missed from the lists.

    After a connection and after a gap it reads how far each conversation is and the events that it has not
    seen. What comes live has then to go on without a gap.
    """

    server: WatchedServer
    transport: Transport
    chance: Random
    restless: float = 0.0
    logs: dict[str, list[Json]] = attrs.field(factory=dict)
    live: int = 0
    """Events that were news when they came."""
    connections: int = 0
    gaps: int = 0

    async def watch(self) -> None:
        """It is cancelled when it has seen enough."""
        while True:
            try:
                async with open_stream(self.server, self.transport, "/events") as connection:
                    self.connections += 1
                    await self._read_lists()
                    await self.follow(connection)
            except* LOST:
                await trio.sleep(0.05 + 0.1 * self.chance.random())

    async def follow(self, connection: Connection) -> None:
        async for frame in connection.frames:
            if frame["type"] == "gap":
                self.gaps += 1
                await self._read_lists()
                continue
            assert frame.pop("status") in ("active", "waiting_approval", "completed")
            log = self.logs.setdefault(frame["conversation_id"], [])
            assert frame["seq"] <= len(log) + 1, f"after {len(log)} came {frame}"
            if frame["seq"] > len(log):
                self.live += 1
                log.append(frame)
            else:
                assert frame == log[frame["seq"] - 1]
            if self.chance.random() < self.restless:
                if self.chance.random() > LEAVES:
                    await connection.vanish()
                return

    async def _read_lists(self) -> None:
        query = {"limit": "200"}
        while True:
            page = await self.server.get("/conversations", **query)
            for each in page["conversations"]:
                log = self.logs.setdefault(each["id"], [])
                if each["last_seq"] > len(log):
                    log += await self.server.journal(each["id"], len(log))
            if "next_cursor" not in page:
                return
            query["cursor"] = page["next_cursor"]
