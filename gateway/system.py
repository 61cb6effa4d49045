"""The routes that are about the agent as a whole."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
from quart import Response

from stopgo.actors.agent import Agent
from stopgo.gateway.docs import DocsPage
from stopgo.gateway.exchange import View, answer, reply
from stopgo.gateway.views import health_view, tool_view


@attrs.frozen
class System:
    agent: Agent
    openapi: bytes
    """The document, as it is served."""
    docs: DocsPage

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {
            "getHealth": self.health,
            "getReadiness": self.ready,
            "listTools": self.tools,
            "getOpenApi": self.document,
            "getDocs": self.page,
        }

    async def health(self) -> Response:
        return reply({"status": "ok"})

    async def ready(self) -> Response:
        health = self.agent.health()
        return reply(health_view(health), 200 if health.ready else 503)

    async def tools(self) -> Response:
        return reply({"tools": [tool_view(listed) for listed in self.agent.tools()]})

    async def document(self) -> Response:
        return answer(self.openapi, "application/json")

    async def page(self) -> Response:
        return answer(self.docs.html, "text/html; charset=utf-8", headers=self.docs.headers)
