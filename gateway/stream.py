"""The events of one conversation as a stream: replayed from a cursor, then followed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import assert_never

import attrs

from ..actors.agent import Agent
from ..actors.log.deltas import ModelDelta, Passing, ToolProgress
from ..runtime.journal.protocol import Event
from .http import query, sse
from .http.event_stream import StreamBody, stream_reply
from .http.request import Headers, Request
from .http.responses import Reply, View
from .views import delta_view, event_view, progress_view

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

    async def follow(self, request: Request, id: str) -> Reply:
        query.known(request.args, ("after", "deltas"))
        after = _cursor(request.headers, request.args)
        deltas = query.word(request.args, "deltas", ("true", "false")) == "true"
        end = await self.agent.log_end(id)
        request.concerns(id, end.session_id)
        if after > end.last_seq:
            raise query.invalid("after", f"the last event is {end.last_seq}, not {after}")
        if request.method == "HEAD":
            return stream_reply()
        return stream_reply(StreamBody(_events(self.agent, id, after, deltas), self.agent.draining, id))


def _cursor(headers: Headers, args: Mapping[str, str]) -> int:
    """A client that comes back says where it was; that is newer than the address it first asked for."""
    if "Last-Event-ID" in headers:
        return query.whole_number(headers["Last-Event-ID"], "Last-Event-ID", least=0)
    return query.number(args, "after", default=0, least=0)


async def _events(agent: Agent, id: str, after: int, deltas: bool) -> AsyncGenerator[bytes, None]:
    yield sse.retry(RETRY)
    async with aclosing(agent.events(id, after, deltas=deltas)) as events:
        async for event in events:
            yield _encoded(event)


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
