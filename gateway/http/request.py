"""One request as the routes see it, and its facts for the access log."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, TypeAlias

import attrs
from hypercorn.typing import ASGIReceiveCallable
from quart.wrappers.base import BaseRequestWebsocket
from werkzeug.datastructures import Headers as WerkzeugHeaders
from werkzeug.datastructures import MultiDict

from ...actors.access.principal import Principal
from ...actors.common.errors import check_fields
from . import body
from .access_log import IDENTITY
from .identity import Identity
from .request_observer import TRACEPARENT, valid_traceparent

Headers: TypeAlias = WerkzeugHeaders
"""Headers by name, in any case."""
Query: TypeAlias = MultiDict[str, str]
"""Query parameters by name."""

SESSION_HEADER = "X-Session-ID"
_SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")

STREAM = "stream"
"""The fact under which the count of an open stream is kept."""

current: ContextVar[HttpRequest] = ContextVar("current")
"""The request that the current task answers."""


@attrs.frozen(eq=False)
class HttpRequest:
    """A request, or the handshake of a websocket."""

    _raw: BaseRequestWebsocket
    _receive: ASGIReceiveCallable

    @property
    def method(self) -> str:
        return self._raw.method

    @property
    def path(self) -> str:
        return self._raw.path

    @property
    def headers(self) -> Headers:
        return self._raw.headers

    @property
    def args(self) -> Query:
        return self._raw.args

    @property
    def cookies(self) -> Query:
        return self._raw.cookies

    @property
    def host(self) -> str:
        """The host and port that the client used."""
        return self._raw.host

    @property
    def peer(self) -> str:
        """The address of the client."""
        return self._raw.remote_addr or ""

    @property
    def via_socket(self) -> bool:
        """Whether the request arrived at a Unix socket, not at an address."""
        return self._raw.scope["server"] is None

    @property
    def facts(self) -> dict[str, Any]:
        """Facts for the access log: ``sid`` and ``conversation``. The log reads them from the ASGI scope."""
        state: dict[str, Any] = self._raw.scope["state"]
        return state

    @property
    def traceparent(self) -> str | None:
        """The trace that this request is a part of (W3C Trace Context): that of an observer, else that of the
        client."""
        observed: str | None = self.facts.get(TRACEPARENT)
        return observed or valid_traceparent(self.headers.get("traceparent", ""))

    @property
    def identity(self) -> Identity | None:
        """The verified sender; None if the agent has no `auth:`, and on public routes."""
        identity: Identity | None = self.facts.get(IDENTITY)
        return identity

    @property
    def principal(self) -> Principal | None:
        """The principal of `identity`."""
        return None if self.identity is None else self.identity.principal

    def count_stream(self) -> None:
        """Count this request among the streams of its principal, until it ends.

        Raises `RequestError` ``limit_reached``.
        """
        if self.identity is not None and (streams := self.identity.streams) is not None:
            streams.begin()
            self.facts[STREAM] = streams

    async def body(self) -> bytes:
        """The body. Raises `RequestError` when it is too large or does not arrive in time."""
        return await body.read(self._receive)

    async def json(self, known: Sequence[str] | None = None) -> dict[str, Any]:
        """The body as an object, whatever its content type; an empty body is ``{}``.

        `known` lists the valid fields. None: the caller checks them. Raises `RequestError`, and
        `AgentError` ``unknown_field``.
        """
        given = body.parse_object(await self.body())
        if known is not None:
            check_fields(given, known, "the body")
        return given

    def session_id(self, key: str | None = None) -> str:
        """The session from the request's header, else a new one.

        A request with an idempotency `key` gets the same session each time it is repeated.
        """
        if "sid" not in self.facts:
            given = self.headers.get(SESSION_HEADER, "")
            made = key[:8] if key is not None else secrets.token_hex(4)
            self.facts["sid"] = given if _SESSION_ID.fullmatch(given) else made
        sid: str = self.facts["sid"]
        return sid

    def set_conversation(self, conversation: str, session_id: str = "") -> None:
        """Set the conversation for the access log. Its stored session replaces the request's session, in the
        log and in the reply."""
        self.facts["conversation"] = conversation
        if session_id:
            self.facts["sid"] = session_id


def set_conversation(conversation: str, session_id: str) -> None:
    """`HttpRequest.set_conversation` of the current request, if there is one."""
    if (request := current.get(None)) is not None:
        request.set_conversation(conversation, session_id)
