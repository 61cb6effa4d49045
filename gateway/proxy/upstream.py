"""Forwarding of requests to the agent over HTTP, with streamed answers.

A request is sent once and never repeated. Its answer is passed on chunk by chunk. If the agent closes the
connection in the middle, an event stream simply ends, because its client reconnects; for any other answer the
client's connection is closed, so that a truncated answer does not look complete.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs
import httpx2
import trio

from ...actors.common.tls import trusted, why_unreached
from ..http import sse
from ..http.errors import RequestError
from ..http.request import SESSION_HEADER, HttpRequest
from ..http.responses import IteratedBody, Reply
from .agent_address import AgentAddress
from .passed_headers import to_agent, to_client
from .request_scope import EventStreams, RequestScope, scope_of

log = logging.getLogger(__name__)

CONNECT_TIMEOUT = 10.0
WRITE_TIMEOUT = 30.0
"""Seconds that the agent may leave bytes of a request unread. Its answer has no deadline, because a turn
takes as long as its tools and the model."""
SILENCE = 45.0
"""Seconds without a byte after which an event stream ends. The agent sends a comment after 15 seconds."""
IDLE = 30.0
"""Seconds that an idle connection is kept; less than the agent keeps it."""
MOST_IDLE = 100
_TIMEOUTS = {"connect": CONNECT_TIMEOUT, "read": None, "write": WRITE_TIMEOUT, "pool": None}
_NO_BODY = frozenset({204, 304})
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.UnsupportedProtocol)
_UNKNOWN = "The outcome of the request is unknown. Check for it, or repeat it with the same Idempotency-Key."


def unreachable(address: AgentAddress, error: BaseException) -> RequestError:
    """The error if the agent cannot be reached, or closes the connection before it answers."""
    late = isinstance(error, httpx2.TimeoutException | trio.TooSlowError)
    why = why_unreached(error) or ("not in time" if late else "the connection broke")
    sent = isinstance(error, httpx2.HTTPError) and not isinstance(error, _NOT_SENT)
    return RequestError(
        502,
        "agent_unreachable",
        f"no agent answers at {address.url}: {why}",
        hint=_UNKNOWN if sent else "Start the agent, or correct `agent_url` in the web file.",
    )


@attrs.frozen(eq=False)
class Upstream:
    address: AgentAddress
    tls: ssl.SSLContext | None
    """For connections to an https address."""
    event_streams: EventStreams
    _transport: httpx2.AsyncHTTPTransport

    async def forward(
        self, request: HttpRequest, method: str, path: str, content: bytes, query: str = ""
    ) -> Reply:
        """Forward a request. Raises `RequestError` if the agent does not answer."""
        scope = scope_of(request)
        url = f"{self.address.url}{path}{f'?{query}' if query else ''}"
        headers = [*to_agent(request.headers, self.address), (b"Accept-Encoding", b"identity")]
        if content or method == "POST":
            headers.append((b"Content-Length", b"%d" % len(content)))
        try:
            sent = httpx2.Request(
                method, url, headers=headers, content=content or None, extensions={"timeout": _TIMEOUTS}
            )
            response = await self._transport.handle_async_request(sent)
            scope.resources.push_async_callback(response.aclose)
            if response.status_code < 200:
                raise httpx2.RemoteProtocolError("the agent switched to another protocol")
            return await self._reply(request, response, scope)
        except httpx2.InvalidURL as error:
            raise RequestError(414, "uri_too_long", "the address of the request is too long") from error
        except httpx2.HTTPError as error:
            raise unreachable(self.address, error) from error

    async def _reply(self, request: HttpRequest, response: httpx2.Response, scope: RequestScope) -> Reply:
        """Raises `httpx2.HTTPError` if the connection breaks before the first byte of the body."""
        headers = dict(to_client(response.headers.multi_items(), self.address))
        request.facts["sid"] = headers.pop(SESSION_HEADER.title(), None) or request.session_id()
        content_type = headers.pop("Content-Type", "")
        status = response.status_code
        if request.method == "HEAD" or status in _NO_BODY:
            return Reply(b"", status, content_type, headers)
        pieces = response.aiter_raw()
        scope.resources.push_async_callback(pieces.aclose)
        is_stream = content_type.partition(";")[0].strip().lower() == sse.CONTENT_TYPE
        first = b"" if is_stream else await anext(pieces, b"")
        body = PassedBody(first, pieces, scope, self.event_streams if is_stream else None)
        return Reply(body, status, content_type or "application/octet-stream", headers)


class PassedBody(IteratedBody):
    """The body of the agent's answer, chunk by chunk."""

    def __init__(
        self,
        first: bytes,
        pieces: AsyncIterator[bytes],
        scope: RequestScope,
        event_streams: EventStreams | None,
    ) -> None:
        """`event_streams` is None if the answer is not an event stream."""
        self._first = first
        self._pieces = pieces
        self._scope = scope
        self._event_streams = event_streams

    async def __anext__(self) -> bytes:
        if first := self._first:
            self._first = b""
            return first
        try:
            if self._event_streams is None:
                return await anext(self._pieces)
            with self._event_streams.wait_scope() as wait:
                wait.deadline = trio.current_time() + SILENCE
                return await anext(self._pieces)
        except httpx2.HTTPError:
            log.warning("the agent closed the connection in the middle of an answer")
            if self._event_streams is None:
                self._scope.cancel_scope.cancel()
                await trio.lowlevel.checkpoint()
        raise StopAsyncIteration


@asynccontextmanager
async def open_upstream(address: AgentAddress) -> AsyncIterator[Upstream]:
    """Prepare the connection pool; connect to nothing yet. Raises `TlsUnusable`."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=MOST_IDLE, keepalive_expiry=IDLE)
    # Not an httpx client, because it would send the cookies of one person's answers with other requests.
    tls = trusted() if address.is_secure else None
    async with httpx2.AsyncHTTPTransport(verify=tls or False, limits=limits) as transport:
        yield Upstream(address, tls, EventStreams(), transport)
