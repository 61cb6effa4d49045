"""The HTTP client of a tool server, below the SDK and below our own calls.

The SDK's session does not survive an HTTP client that raises: one failed POST would end every other in-flight
call, and the caller would never see the status. So `McpTransport` answers a request that fails with a
JSON-RPC error for that request alone. The kind of an HTTP request (`_kind`) decides:

| kind | the request | if it fails |
|---|---|---|
| call | makes, resumes or cancels a tool call; sent by our own code | an exception is raised |
| request | is one of the SDK's session | the response is a JSON-RPC error |
| notification | is one of the SDK's session, bounded by `SIDE_TIMEOUT` | the failure is ignored |
| cancellation | ends the wait for a reply; sent in the background, also bounded | the failure is ignored |
| stream | GET opens the server's own stream, with retries; DELETE ends the session | an exception is raised |
| other | is one that an `httpx2.Auth` makes for itself, without our bearer token | the response is HTTP 503 |

Requests, notifications and others are sent again if the server closed their connection before it answered.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from http import HTTPStatus
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Literal, TypeAlias

import httpx2
import trio

from ....config.sections.agent_config import MAX_STORED_BYTES
from ....runtime.json_text import load_mcp
from ....runtime.restart import Backoff, Streak
from ...common.http_proxies import Routed, said_by_proxy
from ...common.tls import trusted, why_unreached
from ...servers.bearer import current_bearer
from ..wire.failures import (
    REQUEST_REFUSED,
    SERVER_FAILED,
    SESSION_LOST,
    UNAUTHORIZED,
    UNREACHABLE,
    rpc_error,
    session_loss,
    status_line,
)
from ..wire.incoming import parse_message, split_batch
from ..wire.message_bound import BoundedMessage
from ..wire.sdk import redirect_location
from .oauth import FAILED, AuthFailed
from .response_body import STREAM, Bounded, HttpReply, Unbroken, is_stream, read_body

# It logs the URL of every request, and a URL may contain a key.
logging.getLogger("httpx2").setLevel(logging.WARNING)
# It logs, with a traceback, failures that we report as the error of a request anyway.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)

CONNECT_TIMEOUT = 10.0
STREAM_PAUSE = 0.5
"""Least seconds between two attempts to open the server's own stream."""
STREAMS = Backoff(first=1.0, limit=60.0, jitter=0.5)
"""Delays between attempts while the server's own stream cannot be opened."""
KEEP_ALIVE = 2.0
"""Seconds that an idle connection may be reused. Servers close theirs after five (uvicorn, Node): a call sent
at that moment would have an unknown outcome."""
SIDE_TIMEOUT = 2.0
"""Seconds for a notification or the end of a session, because the SDK does nothing else meanwhile."""

SESSION_UNKNOWN = "the server no longer knows this session"

CALL = {"stopgo.call": True}
"""The extension of a request that makes a call, resumes its stream or cancels it. Its sender handles
failures."""
LISTEN = {"stopgo.call": "listen"}
"""The same for a request whose stream carries all messages of the server, including lists of tools."""

_KEPT_HEADERS = {"www-authenticate", "retry-after"}
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,  # the proxy refused; later failures of a proxy look like the server's
    httpx2.UnsupportedProtocol,
)
_CLOSED = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""How a request fails if the server closed the idle connection at the moment of its reuse."""
_NO_STREAM_ANY_MORE = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.GONE)
"""How a server answers a GET that it accepted before, if it has forgotten the session. 409 is not among them:
servers that allow one stream answer so while the earlier one lingers (TypeScript SDK)."""
_Kind: TypeAlias = Literal["call", "request", "notification", "cancellation", "stream", "other"]


class McpTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one MCP client, with the bearer token of the current call."""

    def __init__(
        self,
        on_lost: Callable[[str], None],
        on_stream: Callable[[], None],
        on_session: Callable[[str], None],
        nursery: trio.Nursery,
        max_message: int = MAX_STORED_BYTES,
    ) -> None:
        """
        Args:
            on_lost: called with the reason when the server's own stream shows that the session is gone.
            on_stream: called whenever that stream begins; earlier messages on it are lost.
            on_session: called with the id of the session that the SDK's requests are in.
            nursery: runs background requests.
            max_message: bytes of a message; a longer one is abridged.

        Raises:
            TlsUnusable
        """
        # No limit of connections, because each call holds a slot. With one, calls could wait behind calls
        # whose server is waiting for a human.
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE)
        self._transport = Routed(limits, trusted())
        self._on_lost = on_lost
        self._on_stream = on_stream
        self._on_session = on_session
        self._nursery = nursery
        self._max_message = max_message
        self._streamed = False
        self._next_stream = -math.inf
        self._replies: dict[object, HttpReply] = {}
        """By the id of the SDK's request."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()  # the body of a request that follows a redirect
        kind, request_id = _kind(request)
        bearer = current_bearer()
        if bearer is not None and kind != "other":
            request.headers["authorization"] = f"Bearer {bearer}"
        if kind == "call":
            return await self._send(request)
        if "mcp-session-id" in request.headers:
            self._on_session(request.headers["mcp-session-id"])
        if kind in ("notification", "cancellation") or request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), SIDE_TIMEOUT)
        if kind == "cancellation":
            if request_id in self._replies:
                self._replies[request_id].give_up()
            # In the background, because calls are cancelled when a server does not answer: each would wait.
            self._nursery.start_soon(self._send_in_background, request)
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        try:
            if kind == "request":
                return _explained(request, await self._request(request, request_id))
            if kind == "stream" and request.method == "GET":
                return await self._open_stream(request)
            return await (self._send(request) if kind == "stream" else self._send_twice(request))
        except httpx2.TransportError as error:
            return self._failed(request, kind, error)

    async def aclose(self) -> None:
        await self._transport.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._send_unbounded(request)
        if not response.has_redirect_location:
            may_list = request.extensions.get("stopgo.call") is not True
            return Bounded.body_of(
                response, BoundedMessage(self._max_message, may_list), stream=is_stream(response)
            )
        # Drop the body: a client that follows the redirect would first read all of it, however long.
        await response.aclose()
        # As bytes, because the address may not be ASCII.
        location = [header for header in response.headers.raw if header[0].lower() == b"location"]
        return httpx2.Response(response.status_code, headers=location)

    async def _send_twice(self, request: httpx2.Request) -> httpx2.Response:
        """Send a message that may arrive twice; send it again if the connection ends without a response."""
        try:
            return await self._send(request)
        except _CLOSED:
            return await self._send(request)

    async def _request(self, request: httpx2.Request, request_id: object) -> httpx2.Response:
        """Send a request of the SDK's; read the whole response unless it is a stream."""

        def forget() -> None:
            if self._replies.get(request_id) is reply:
                del self._replies[request_id]

        reply = self._replies[request_id] = HttpReply(on_close=forget)
        streams = False
        try:
            response = await reply.wait_for(lambda: self._send_twice(request))
            streams = is_stream(response)
            if streams:
                return reply.streams(response)
            body = await reply.wait_for(lambda: read_body(response))
            return _readable(response, body, request)
        finally:
            if not streams:
                forget()

    async def _send_in_background(self, request: httpx2.Request) -> None:
        with suppress(httpx2.TransportError):
            await (await self._send_unbounded(request)).aclose()

    async def _send_unbounded(self, request: httpx2.Request) -> httpx2.Response:
        if (failed := request.extensions.get(FAILED)) is not None:
            raise failed
        return await self._transport.handle_async_request(request)

    def _failed(self, request: httpx2.Request, kind: _Kind, error: httpx2.TransportError) -> httpx2.Response:
        if kind == "notification":
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        if kind == "request":
            return _error(request, HTTPStatus.SERVICE_UNAVAILABLE, *transport_failure(error))
        if kind == "other":
            return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, request=request)
        if self._streamed and isinstance(error, httpx2.ConnectError):
            self._on_lost(transport_text(error))
        raise error  # the SDK handles it: for the server's own stream and for the end of a session

    async def _open_stream(self, request: httpx2.Request) -> httpx2.Response:
        """Open the server's own stream to us, retrying for as long as the server may come back.

        The SDK reopens a stream that ended, but hardly ever one that could not be opened, and it reports
        neither.
        """
        failures = Streak(STREAMS)
        while True:
            await trio.sleep_until(self._next_stream)
            self._next_stream = trio.current_time() + STREAM_PAUSE
            try:
                response = await self._send(request)
            except (httpx2.ConnectError, AuthFailed):
                raise
            except httpx2.TransportError:
                pass
            else:
                if response.status_code == HTTPStatus.OK:
                    self._streamed = True
                    self._on_stream()
                    return Unbroken.body_of(response)
                if response.status_code < 500:
                    if self._streamed and response.status_code in _NO_STREAM_ANY_MORE:
                        self._on_lost(SESSION_UNKNOWN)
                    return response
                await response.aclose()
            await trio.sleep(failures.fail(served=0))


@asynccontextmanager
async def http_client(
    *,
    headers: Mapping[str, str],
    auth: httpx2.Auth | None,
    on_lost: Callable[[str], None],
    on_stream: Callable[[], None],
    on_session: Callable[[str], None],
    max_message: int = MAX_STORED_BYTES,
) -> AsyncIterator[httpx2.AsyncClient]:
    """Open an HTTP client for one server, for the length of a block.

    Reads have no timeout, because callers bound their calls and the server's own stream may be silent.

    Args:
        headers: sent with every message to the server.
        auth: sees every response first, with its status and headers.
        on_lost, on_stream, on_session, max_message: see `McpTransport`.
    """
    async with trio.open_nursery() as nursery:
        async with httpx2.AsyncClient(
            transport=McpTransport(on_lost, on_stream, on_session, nursery, max_message),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            # Decompression costs more than it saves here; a server may still compress.
            headers={**headers, "accept-encoding": "identity"},
            # No cookies, because one set for one caller would be sent with another's call.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            auth=auth,
        ) as client:
            yield client
        nursery.cancel_scope.cancel()


HttpClient: TypeAlias = AbstractAsyncContextManager[httpx2.AsyncClient]


def _kind(request: httpx2.Request) -> tuple[_Kind, object]:
    """Return the kind of an HTTP request, and the id of the MCP request that it makes or cancels."""
    if CALL.keys() <= request.extensions.keys():
        return "call", None
    if request.method == "DELETE":
        return "stream", None
    if request.method == "GET":
        return "stream" if STREAM in request.headers.get("accept", "") else "other", None
    try:
        message: Any = load_mcp(request.content)
    except ValueError:
        return "other", None
    match message:
        case {"jsonrpc": _, "method": "notifications/cancelled", "params": {"requestId": request_id}}:
            return "cancellation", request_id
        case {"jsonrpc": _, "method": _, "id": request_id}:
            return "request", request_id
        case {"jsonrpc": _}:
            return "notification", None
        case _:
            return "other", None


def _readable(response: httpx2.Response, body: bytes, request: httpx2.Request) -> httpx2.Response:
    """Return the response in a form that the SDK reads: valid messages, with the content type of JSON, or as
    events if they are a batch. Another body stays as it is."""
    headers, messages = response.headers.copy(), [parse_message(each) for each in split_batch(body)]
    encoded = [each.model_dump_json(by_alias=True, exclude_unset=True).encode() for each in messages if each]
    if response.status_code == HTTPStatus.OK and encoded:
        headers["content-type"] = STREAM if len(encoded) > 1 else "application/json"
        events = b"".join(b"data: %s\n\n" % each for each in encoded)
        body = events if len(encoded) > 1 else encoded[0]
    return httpx2.Response(response.status_code, headers=headers, content=body, request=request)


def _explained(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """Return the response, or, for an error status, a JSON-RPC error that says what it means."""
    if response.status_code < 400:
        return response
    in_session = "mcp-session-id" in request.headers
    code, text, data = failure(response, response.content, in_session=in_session)
    return _error(request, response.status_code, code, text, data, response.headers)


def failure(response: httpx2.Response, body: bytes, *, in_session: bool) -> tuple[int, str, object]:
    """Return code, text and data of the JSON-RPC error that a response without success amounts to."""

    status = response.status_code
    if (location := redirect_location(response)) is not None:
        text = f"Redirect to {location} not followed; use that URL if it is the intended server"
        return REQUEST_REFUSED, text, {}
    challenged = "www-authenticate" in response.headers
    lost = session_loss(status, body, challenged=challenged) if in_session else None
    if lost is not None:
        return lost, SESSION_UNKNOWN if lost == SESSION_LOST else status_line(status), {}
    answer = None if status in UNAUTHORIZED else rpc_error(body)
    return answer or refusal(response)


def transport_failure(error: httpx2.RequestError) -> tuple[int, str, object]:
    """Return the same for a request that got no response."""
    if isinstance(error, httpx2.LocalProtocolError) or (isinstance(error, AuthFailed) and not error.sent):
        return REQUEST_REFUSED, transport_text(error), {}  # nothing was sent
    return UNREACHABLE, transport_text(error), {"sent": not isinstance(error, _NOT_SENT)}


def refusal(response: httpx2.Response) -> tuple[int, str, dict[str, Any]]:
    """Return code, text and data for an HTTP error without a JSON-RPC error of the tool server."""
    status = response.status_code
    data: dict[str, Any] = {"http_status": status}
    if (challenge := response.headers.get("www-authenticate")) is not None:
        data["www_authenticate"] = challenge
    return SERVER_FAILED if status >= 500 else REQUEST_REFUSED, status_line(status), data


def transport_text(error: httpx2.RequestError) -> str:
    """Return the reason, without the URL, which may contain a key."""
    if isinstance(error, httpx2.LocalProtocolError):
        return "a header of the request is not valid"  # the error quotes the header, which may be a token
    if isinstance(error, httpx2.ProxyError):
        return said_by_proxy(error)
    unreached = why_unreached(error) if isinstance(error, httpx2.ConnectError) else None
    return unreached or str(error) or type(error).__name__


def _error(
    request: httpx2.Request,
    status: int,
    code: int,
    text: str,
    data: object,
    headers: httpx2.Headers | None = None,
) -> httpx2.Response:
    """Return a response with a JSON-RPC error, and with the headers that an `httpx2.Auth` may read."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text, "data": data}}
    response = httpx2.Response(status, json=body, request=request)
    if headers is not None:
        for name in _KEPT_HEADERS & headers.keys():
            response.headers[name] = headers[name]
    return response
