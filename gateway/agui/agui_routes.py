"""The route of AG-UI."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ...actors.agent.agent import Agent
from ...actors.log.words.events import Origin
from ..http import headers
from ..http.event_stream import StreamBody, stream_reply
from ..http.request import HttpRequest
from ..http.responses import Reply, View
from .run_input import parse_run_input
from .thread_run import AGUICaller, key_of, open_thread_run


@attrs.frozen
class AGUI:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"runAgent": self.run}

    async def run(self, request: HttpRequest) -> Reply:
        request.count_stream()
        run_input = parse_run_input(await request.json())
        agent = self.agent.acting_as(request.principal)
        caller = AGUICaller(
            session_id=request.session_id(key_of(agent, "thread", run_input.thread)),
            token=headers.tool_token(request),
            origin=None if request.traceparent is None else Origin((), request.traceparent),
        )
        run = await open_thread_run(agent, run_input, caller)
        request.set_conversation(run.conversation, run.session_id)
        body = StreamBody(run.frames(), run.over, run.conversation, last_chunk=run.last_chunk)
        return stream_reply(body)
