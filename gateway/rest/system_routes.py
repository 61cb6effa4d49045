"""The routes of health, tools, the emergency stop and the API documentation."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from importlib.resources import files

import attrs

from ...actors.access.rights import may
from ...actors.agent.agent import Agent
from ..http import headers, query
from ..http.entrance import Entrance
from ..http.errors import RequestError
from ..http.request import HttpRequest
from ..http.responses import Reply, View, reply
from .memory_limits import memory_of
from .openapi import endpoint_list
from .views import halt_view, health_view, tool_view

_DOCUMENT = b"__OPENAPI__"
_INLINE = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@attrs.frozen
class DocsPage:
    html: bytes
    headers: Mapping[str, str]


def docs_page(openapi: bytes) -> DocsPage:
    """The documentation page with the document embedded. Its policy permits only its own inline code, and the
    style sheets and the icon of the web page, whose look it shares."""
    page = files("stopgo.gateway.web").joinpath("docs.html").read_bytes()
    sources: dict[str, list[str]] = {"script": [], "style": []}
    for tag, text in _INLINE.findall(page):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        sources[tag.decode()].append(f"'sha256-{digest}'")
    policy = (
        f"default-src 'none'; script-src {' '.join(sources['script'])}; "
        f"style-src 'self' {' '.join(sources['style'])}; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    # Within a script element only "<" can end the element or change the parser's state.
    html = page.replace(_DOCUMENT, openapi.replace(b"<", b"\\u003c"))
    return DocsPage(html, {"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


# ----------------------------------------------------------------- the routes


@attrs.frozen
class System:
    agent: Agent
    openapi: bytes
    """The OpenAPI document, as served."""
    docs: DocsPage
    entrance: Entrance | None = None

    def views(self) -> Mapping[str, View]:
        """By id of the operation."""
        return {
            "getHealth": self.health,
            "getReadiness": self.ready,
            "listTools": self.tools,
            "acceptTool": self.accept,
            "getOpenApi": self.document,
            "getDocs": self.page,
            "listEndpoints": self.endpoints,
        }

    async def health(self, request: HttpRequest) -> Reply:
        return reply({"status": "ok", "policy": self.agent.policy_revision})

    async def ready(self, request: HttpRequest) -> Reply:
        health = await self.agent.readiness()
        view = health_view(health, self.agent.halt_state(), memory_of(self.agent.config))
        body = view if await self._may_view(request) else {"status": view.status}
        return reply(body, 200 if health.ready else 503)

    async def _may_view(self, request: HttpRequest) -> bool:
        """Whether the request has a credential with a role, if the agent needs one. The route is public, so
        it refuses no request."""
        if self.entrance is None:
            return True
        try:
            return may((await self.entrance.identify(request)).principal, "view")
        except RequestError:
            return False

    async def tools(self, request: HttpRequest) -> Reply:
        tools = [tool_view(listed) for listed in self.agent.acting_as(request.principal).tools()]
        return reply({"tools": tools, "warnings": list(self.agent.warnings)})

    async def accept(self, request: HttpRequest, name: str) -> Reply:
        headers.post_key(request)  # a repeat changes nothing, so the key is checked but not stored
        hash = (await request.json(("hash",))).get("hash")
        if not isinstance(hash, str) or not hash:
            raise query.invalid(
                "hash", "hash must be the hash of the definition to accept", "GET /tools has it."
            )
        return reply(
            {"tool": tool_view(await self.agent.acting_as(request.principal).accept_tool(name, hash))}
        )

    async def document(self, request: HttpRequest) -> Reply:
        return Reply(self.openapi)

    async def endpoints(self, request: HttpRequest) -> Reply:
        return reply(endpoint_list())

    async def page(self, request: HttpRequest) -> Reply:
        return Reply(self.docs.html, content_type="text/html; charset=utf-8", headers=self.docs.headers)


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
