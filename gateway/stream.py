"""The events of one conversation as a stream: replayed from a cursor, then followed."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from types import TracebackType
from typing import assert_never

import attrs
import trio
from quart import Response, request
from quart.wrappers.response import ResponseBody
from werkzeug.datastructures import Headers

from ..actors.agent import Agent
from ..actors.common.errors import AgentError
from ..actors.log.deltas import ModelDelta, Passing, ToolProgress
from ..runtime.journal.protocol import Event
from . import query, sse
from .responses import STRETCH, View, answer, concerns
from .views import delta_view, event_view, progress_view

log = logging.getLogger(__name__)

HEARTBEAT = 15.0
"""Seconds without an event after which a comment shows that the stream is alive."""
MODEL_DELTA = "model.delta"
TOOL_PROGRESS = "tool.progress"
"""The type of what is sent of a reply while it comes; it is no event of the log."""
RETRY = 1.0
"""Seconds after which a client whose stream ended comes back."""


@attrs.frozen
class Stream:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"followConversation": self.follow}

    async def follow(self, id: str) -> Response:
        query.known(request.args, ("after", "deltas"))
        after = _cursor(request.headers, request.args)
        deltas = query.word(request.args, "deltas", ("true", "false")) == "true"
        end = await self.agent.log_end(id)
        concerns(id, end.session_id)
        if after > end.last_seq:
            raise query.invalid("after", f"the last event is {end.last_seq}, not {after}")
        response = answer(b"", sse.CONTENT_TYPE)
        # A proxy that buffers would hold events back.
        response.headers["X-Accel-Buffering"] = "no"
        if request.method != "HEAD":
            del response.headers["Content-Length"]
            response.response = _Body(self.agent, id, after, deltas)
        return response


def _cursor(headers: Headers, args: Mapping[str, str]) -> int:
    """A client that comes back says where it was; that is newer than the address it first asked for."""
    if "Last-Event-ID" in headers:
        return query.whole_number(headers["Last-Event-ID"], "Last-Event-ID", least=0)
    return query.number(args, "after", default=0, least=0)


class _Body(ResponseBody):
    """The stream as the framework takes it: entered, iterated and left by the task that sends."""

    def __init__(self, agent: Agent, id: str, after: int, deltas: bool) -> None:
        self._followed = _follow(agent, id, after, deltas)

    async def __aenter__(self) -> _Body:
        self._outlet = await self._followed.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._followed.__aexit__(kind, error, trace)

    def __aiter__(self) -> _Body:
        return self

    async def __anext__(self) -> bytes:
        with trio.move_on_after(HEARTBEAT):
            chunk = await self._outlet.take()
            if not chunk:
                raise StopAsyncIteration
            return chunk
        return sse.comment("keep-alive")


class _Outlet:
    """What has been read and not been sent yet. It leaves together, for a send costs as much as many events.

    It holds little, so a client that reads slowly holds up nobody but its own subscription.
    """

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._size = 0
        self._filled = trio.Event()
        self._emptied = trio.Event()
        self._ended = False

    async def put(self, chunk: bytes) -> None:
        """Waits when there is enough for a send."""
        self._held.append(chunk)
        self._size += len(chunk)
        self._filled.set()
        if self._size >= STRETCH:
            self._emptied = trio.Event()
            await self._emptied.wait()

    def end(self) -> None:
        """There is nothing further."""
        self._ended = True
        self._filled.set()

    async def take(self) -> bytes:
        """All there is, once there is something; nothing at the end."""
        await self._filled.wait()
        taken = b"".join(self._held)
        self._held.clear()
        self._size = 0
        if not self._ended:
            self._filled = trio.Event()
        self._emptied.set()
        return taken


@asynccontextmanager
async def _follow(agent: Agent, id: str, after: int, deltas: bool) -> AsyncIterator[_Outlet]:
    """The stream. It ends with the conversation, or when the server begins to shut down."""
    outlet = _Outlet()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_pump, agent, id, after, deltas, outlet)
        try:
            yield outlet
        finally:
            nursery.cancel_scope.cancel()


async def _pump(agent: Agent, id: str, after: int, deltas: bool, out: _Outlet) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_cancel_when, agent.draining, nursery.cancel_scope)
        try:
            await out.put(sse.retry(RETRY))
            async with aclosing(agent.events(id, after, deltas=deltas)) as events:
                async for event in events:
                    await out.put(_encoded(event))
        except AgentError:
            pass  # It was deleted since the request began: the end is all there is to say.
        except Exception as error:
            # The status line has left: all that can be done is to end, and the client comes back.
            log.error("internal error id=%s conversation=%s", secrets.token_hex(6), id, exc_info=error)
        finally:
            out.end()
        nursery.cancel_scope.cancel()


def _encoded(event: Event | Passing) -> bytes:
    match event:
        case Event():
            return sse.encode(event.seq, event.type, event_view(event))
        case ModelDelta():
            return sse.encode(None, MODEL_DELTA, delta_view(event))
        case ToolProgress():
            return sse.encode(None, TOOL_PROGRESS, progress_view(event))
        case _:
            assert_never(event)


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
