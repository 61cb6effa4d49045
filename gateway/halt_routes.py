"""The routes of the emergency stop."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from ..actors.agent import Agent
from .http import headers, query
from .http.request import HttpRequest
from .http.responses import Reply, View, reply
from .views import halt_view


@attrs.frozen
class Emergency:
    agent: Agent

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {"getHalt": self.read, "haltAgent": self.halt, "unhaltAgent": self.unhalt}

    async def read(self, request: HttpRequest) -> Reply:
        return reply(halt_view(self.agent.acting_as(request.principal).halt_state()))

    async def halt(self, request: HttpRequest) -> Reply:
        key = headers.post_key(request)
        reason = (await request.json(("reason",))).get("reason", "")
        if not isinstance(reason, str):
            raise query.invalid("reason", "reason must be a string")
        agent = self.agent.acting_as(request.principal)
        return reply(halt_view(await agent.halt(reason or None, key=key)))

    async def unhalt(self, request: HttpRequest) -> Reply:
        key = headers.post_key(request)
        await request.json(())
        return reply(halt_view(await self.agent.acting_as(request.principal).unhalt(key=key)))
