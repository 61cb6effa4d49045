"""The page for people: its files, and what it asks for beside the contract. They serve nobody else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import trio

from ...actors.agent import Agent
from ..http import chunked_json
from ..http.errors import NotFound, RequestError
from ..http.quart_app import Application
from ..http.query import invalid
from ..http.request import Request
from ..http.responses import Reply, nothing, reply
from .agent_page import agent_view
from .approval_context import context_view
from .markdown_tokens import document
from .page_files import PageFiles, read_page

MAX_TEXTS = 100
"""In one request."""
MAX_CHARACTERS = 256 * 1024
"""Of all texts of a request."""


@attrs.frozen
class Page:
    agent: Agent
    files: PageFiles = attrs.field(factory=read_page)
    _parsers: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(1))
    """Texts take turns: a thread that parses takes half of the process."""

    def add_to(self, app: Application) -> None:
        for method, path, view in (
            ("GET", "/", self.first),
            ("GET", "/favicon.ico", self.no_icon),
            ("GET", "/page/{name}", self.file),
            ("POST", "/page/markdown", self.markdown),
            ("GET", "/page/agent", self.about),
            ("GET", "/page/approvals/{uuid}", self.context),
        ):
            app.add(path, f"page {path}", view, [method])

    async def first(self, request: Request) -> Reply:
        return self.files.first.reply(request.headers)

    async def no_icon(self, request: Request) -> Reply:
        """Browsers ask for it on their own."""
        return nothing()

    async def file(self, request: Request, name: str) -> Reply:
        if name not in self.files.others:
            raise NotFound
        return self.files.others[name].reply(request.headers)

    async def markdown(self, request: Request) -> Reply:
        documents = [
            # A client that leaves does not wait for its text; the thread keeps its turn until it is done.
            await trio.to_thread.run_sync(_encoded, text, abandon_on_cancel=True, limiter=self._parsers)
            for text in _texts(await request.json())
        ]
        return Reply(b'{"documents":[' + b",".join(documents) + b"]}\n")

    async def about(self, request: Request) -> Reply:
        return reply(agent_view(self.agent))

    async def context(self, request: Request, uuid: str) -> Reply:
        return reply(await context_view(self.agent, uuid))


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
    return chunked_json.encode(document(text))
