"""The routes of live streams.

A stream of one conversation replays its events and then follows it. A stream over all conversations starts
now. Both exist as server-sent events and as websockets, with the same frames.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractContextManager, aclosing

import attrs

from ...actors.agent.agent import Agent
from ...actors.agent.watch import Watched
from ...actors.common.errors import AgentError
from ...actors.log.words.deltas import MODEL_DELTA, TOOL_PROGRESS
from ...actors.log.words.events import CONVERSATION_DELETED, TYPES
from ...runtime.journal.protocol import Event
from ..auth.tickets import TICKET
from ..http import query, sse
from ..http.event_stream import StreamBody, stream_reply
from ..http.request import HttpRequest
from ..http.responses import Reply, View
from ..http.web_socket import STOPS, Socket, SocketView
from .frames import as_message, as_sse
from .views import STATUSES

RETRY = 1.0
"""Seconds that a client waits before it reconnects."""
FRAME_TYPES = (*TYPES, CONVERSATION_DELETED, MODEL_DELTA, TOOL_PROGRESS)
TYPE_FILTERS = (*FRAME_TYPES, *dict.fromkeys(f"{name.partition('.')[0]}.*" for name in FRAME_TYPES))


@attrs.frozen
class Live:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"followConversation": self.follow, "watchEvents": self.watch}

    def sockets(self) -> Mapping[str, SocketView]:
        """By id of the operation."""
        return {"followConversationSocket": self.follow_socket, "watchEventsSocket": self.watch_socket}

    # ------------------------------------------------------------- one conversation

    async def follow(self, request: HttpRequest, id: str) -> Reply:
        request.count_stream()
        after, deltas = await self._place(request, id)
        if request.method == "HEAD":
            return stream_reply()
        agent = self.agent.acting_as(request.principal)
        return stream_reply(StreamBody(_replayed(agent, id, after, deltas), agent.draining.wait, id))

    async def follow_socket(self, socket: Socket, id: str) -> None:
        agent = self.agent.acting_as(socket.request.principal)
        after, deltas = await self._place(socket.request, id)
        await socket.accept()
        deleted = False
        try:
            async with aclosing(agent.events(id, after, deltas=deltas)) as events:
                async for event in events:
                    await socket.send(as_message(event))
                    deleted = isinstance(event, Event) and event.type == CONVERSATION_DELETED
        except AgentError as error:
            if error.code != "conversation_not_found":
                await socket.close(1011, error.code)
                return
            deleted = True
        await (socket.close(1000, "conversation deleted") if deleted else socket.close(*STOPS))

    async def _place(self, request: HttpRequest, id: str) -> tuple[int, bool]:
        """The seq after which the stream begins, and whether it includes deltas."""
        _known(request, "after", "deltas")
        after = query.number(request.args, "after", default=0, least=0)
        deltas = query.flag(request.args, "deltas")
        # A client that reconnects sends it to its first URL, so it is newer than the `after` in that URL.
        last_id = request.headers.get("Last-Event-ID")
        seen = None if last_id is None else query.whole_number(last_id, "Last-Event-ID", least=0)
        end = await self.agent.acting_as(request.principal).log_end(id)
        request.set_conversation(id, end.session_id)
        if seen is not None:  # beyond the last event if an older backup of the journal was restored
            return min(seen, end.last_seq), deltas
        if after > end.last_seq:
            raise query.invalid("after", f"the last event is {end.last_seq}, not {after}")
        return after, deltas

    # ------------------------------------------------------------ all conversations

    async def watch(self, request: HttpRequest) -> Reply:
        request.count_stream()
        watched = self._watched(request)
        if request.method == "HEAD":
            return stream_reply()
        return stream_reply(StreamBody(_live(watched), self.agent.draining.wait, "-"))

    async def watch_socket(self, socket: Socket) -> None:
        with self._watched(socket.request) as events:  # subscribe first, so that no later event is missed
            await socket.accept()
            async for event in events:
                await socket.send(as_message(event))
        await socket.close(*STOPS)

    def _watched(self, request: HttpRequest) -> AbstractContextManager[AsyncIterator[Watched]]:
        _known(request, "status", "type", "conversation", "deltas")
        return self.agent.acting_as(request.principal).all_events(
            statuses=query.several(request.args, "status", STATUSES),
            types=query.several(request.args, "type", TYPE_FILTERS),
            conversations=query.several(request.args, "conversation"),
            deltas=query.flag(request.args, "deltas"),
        )


def _known(request: HttpRequest, *names: str) -> None:
    query.known(request.args, names if request.identity is None else (*names, TICKET))


async def _replayed(agent: Agent, id: str, after: int, deltas: bool) -> AsyncGenerator[bytes, None]:
    yield sse.retry(RETRY)
    async with aclosing(agent.events(id, after, deltas=deltas)) as events:
        async for event in events:
            yield as_sse(event)


async def _live(watched: AbstractContextManager[AsyncIterator[Watched]]) -> AsyncGenerator[bytes, None]:
    with watched as events:
        yield sse.retry(RETRY)  # sends the head of the reply at once
        async for event in events:
            yield as_sse(event)
