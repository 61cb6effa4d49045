"""The routes of the page: its files, and data that only the page uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from ...actors.agent.agent import Agent
from ...runtime.json_text import dump_wire
from ..http.errors import RequestError
from ..http.quart_app import Application
from ..http.query import invalid
from ..http.request import HttpRequest
from ..http.responses import Reply, reply
from ..rest.refused_request import named_on_error
from .agent_page import agent_view
from .approval_context import calls_view, context_view
from .page_files import read_page

MAX_TEXTS = 100
"""Maximum number of texts in a request."""
MAX_CHARACTERS = 256 * 1024
"""Maximum number of characters of all texts in a request."""


@attrs.frozen
class WebPage:
    agent: Agent
    _parsers: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))
    """One text at a time, because a parsing thread takes half of the process's CPU time."""

    def add_to(self, app: Application) -> None:
        read_page().add_to(app)
        app.add("/page/markdown", "page markdown", self.markdown, ["POST"])
        app.add("/page/agent", "page agent", self.about, ["GET"])
        app.add("/page/sign-in", "page sign-in", self.sign_in, ["GET"], public=True)
        app.add("/page/approvals/{uuid}", "page approval", named_on_error(self.agent, self.context), ["GET"])
        calls = named_on_error(self.agent, self.calls)
        app.add("/page/approvals/{uuid}/calls", "page approval calls", calls, ["GET"])

    async def markdown(self, request: HttpRequest) -> Reply:
        documents = [
            # If the client disconnects, the request ends at once; the thread holds the limiter until it is
            # done.
            await trio.to_thread.run_sync(_encoded, text, abandon_on_cancel=True, limiter=self._parsers)
            for text in _texts(await request.json(("texts",)))
        ]
        return Reply(b'{"documents":[' + b",".join(documents) + b"]}\n")

    async def sign_in(self, request: HttpRequest) -> Reply:
        """The ways to sign in that the page offers to a person without a credential."""
        auth = self.agent.config.auth
        ways = {
            "login": auth is not None and auth.oidc is not None and auth.oidc.login is not None,
            "api_key": auth is not None and auth.api_keys,
        }
        return reply({"ways": [way for way, is_offered in ways.items() if is_offered]})

    async def about(self, request: HttpRequest) -> Reply:
        return reply(await agent_view(self.agent.acting_as(request.principal)))

    async def context(self, request: HttpRequest, uuid: str) -> Reply:
        return reply(await context_view(self.agent.acting_as(request.principal), uuid))

    async def calls(self, request: HttpRequest, uuid: str) -> Reply:
        return reply(await calls_view(self.agent.acting_as(request.principal), uuid))


def _texts(body: Mapping[str, Any]) -> list[str]:
    texts = body.get("texts")
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise invalid("texts", "texts must be a list of strings")
    if len(texts) > MAX_TEXTS:
        raise invalid("texts", f"texts must be at most {MAX_TEXTS}")
    if sum(map(len, texts)) > MAX_CHARACTERS:
        message = f"the texts have more than {MAX_CHARACTERS} characters"
        raise RequestError(413, "body_too_large", message, details={"field": "texts"})
    return texts


def _encoded(text: str) -> bytes:
    from .markdown_tokens import document  # with the first text, because the parser takes long to load

    return dump_wire(document(text))
