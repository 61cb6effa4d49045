"""The routes of the former web application, kept for scripts. Each becomes one request of the HTTP API."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import attrs

from ...runtime.json_text import dump_wire
from ..http.body import kind, message_of
from ..http.errors import RequestError
from ..http.request import HttpRequest
from ..http.responses import Reply, View
from .upstream import Upstream


@attrs.frozen
class OlderRoutes:
    upstream: Upstream

    def views(self) -> Iterator[tuple[str, str, View]]:
        """Method, path and view of each."""
        yield "POST", "/api/send", self.send
        yield "POST", "/api/approve", self.approve
        yield "GET", "/api/conversation/{id}", self.conversation

    async def send(self, request: HttpRequest) -> Reply:
        """Send a message to a conversation, by default a new one."""
        body = await request.json(("message", "conversation_id"))
        message = message_of(body)
        if message is None:
            raise RequestError(400, "message_required", "message is required")
        id = _id(body, "conversation_id")
        path = "/conversations" if id is None else f"/conversations/{id}/messages"
        return await self._post(request, path, {"message": message})

    async def approve(self, request: HttpRequest) -> Reply:
        body = await request.json(("uuid", "approved"))
        uuid = _id(body, "uuid")
        if uuid is None:
            raise _invalid("uuid", "uuid is required")
        approved = body.get("approved")
        if not isinstance(approved, bool):
            raise _invalid("approved", "approved must be true or false")
        return await self._post(request, f"/approvals/{uuid}", {"approved": approved})

    async def conversation(self, request: HttpRequest, id: str) -> Reply:
        path = f"/conversations/{_in_path(id, 'id')}"
        return await self.upstream.forward(request, request.method, path, b"")

    async def _post(self, request: HttpRequest, path: str, body: Mapping[str, Any]) -> Reply:
        return await self.upstream.forward(request, "POST", path, dump_wire(body))


def _id(body: Mapping[str, Any], field: str) -> str | None:
    """An id, quoted for a path. Empty and null count as absent."""
    value = body.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str):
        raise _invalid(field, f"{field} must be a string, not {kind(value)}")
    return _in_path(value, field)


def _in_path(id: str, field: str) -> str:
    if id in (".", ".."):  # dot segments would change the path
        raise _invalid(field, f"{field} is not an id")
    return quote(id, safe="")


def _invalid(field: str, message: str) -> RequestError:
    return RequestError(400, "invalid_request", message, details={"field": field})
