"""The HTTP underneath the connection to a server that speaks it.

The SDK's session does not survive an HTTP client that raises: one failed POST would take every
other call in flight with it, and a status code never reaches the caller. So failures are turned
into the JSON-RPC error of the one request they belong to.
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

from ...config.agent_config import MAX_STORED_BYTES
from ...runtime.json_text import load_mcp
from ...runtime.restart import Backoff, Streak
from ..common.tls import trusted, why_unreached
from ..tools.bearer import current_bearer
from .environment import proxy_to
from .failures import (
    REQUEST_REFUSED,
    SERVER_FAILED,
    SESSION_LOST,
    UNAUTHORIZED,
    UNREACHABLE,
    rpc_error,
    status_line,
)
from .message_bound import MAX_LISTING, Message
from .oauth import FAILED, AuthFailed
from .sdk import redirect_location
from .sdk_shims import Bounded, Reply, Unbroken

# This logs the address of every request, and an address may carry a key.
logging.getLogger("httpx2").setLevel(logging.WARNING)
# And this, with a traceback, what reaches us as the error of a request anyway.
logging.getLogger("mcp.client.streamable_http").setLevel(logging.CRITICAL)

MAX_EVENT = 2 * MAX_LISTING
"""Bytes of the longest event: one whose data is not abridged, and its other fields."""
CONNECT_TIMEOUT = 10.0
STREAM_PAUSE = 0.5
"""Seconds at least from one opening of the server's own stream to the next."""
STREAMS = Backoff(first=1.0, limit=60.0, jitter=0.5)
"""While it cannot be opened."""
KEEP_ALIVE = 2.0
"""Seconds that an idle connection may be used again. Servers close theirs after five (uvicorn, Node): a call
sent at that moment would have an outcome that nobody knows."""
SIDE_TIMEOUT = 2.0
"""Seconds for a notification or the end of a session: who sends one waits for it, and does nothing else."""

SESSION_UNKNOWN = "the server does not know this session any more"

CALL = {"stopgo.call": True}
"""The extension of a request that is a call, takes up its stream or calls it off: who makes it knows what
failures mean."""
LISTEN = {"stopgo.call": "listen"}
"""The same, of a request whose stream brings whatever the server says, also the list of its tools."""

STREAM = "text/event-stream"
_KEPT_HEADERS = {"www-authenticate", "retry-after"}
_NOT_SENT = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.ProxyError,  # of its handshake; afterwards it is not to be told from the server
    httpx2.UnsupportedProtocol,
)
_LEFT = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""How a request fails whose server closed the connection just as it was used again."""
_Kind: TypeAlias = Literal["call", "request", "notification", "cancellation", "stream", "other"]
"""The last is what an `httpx2.Auth` sends for itself: it may go anywhere, and none of ours with it."""


class McpTransport(httpx2.AsyncBaseTransport):
    """Sends an MCP client's requests; forwards the bearer of the call at hand."""

    def __init__(
        self,
        on_lost: Callable[[str], None],
        on_stream: Callable[[], None],
        on_session: Callable[[str], None],
        nursery: trio.Nursery,
        most: int = MAX_STORED_BYTES,
    ) -> None:
        """
        Args:
            on_lost: told why, when the server's own stream to us shows that the session is gone.
            on_stream: called whenever that stream begins; what was said before it did is lost.
            on_session: told the id of the session that the SDK's requests are in.
            nursery: for what nobody waits for.
            most: bytes of a message; a longer one is abridged.

        Raises:
            TlsUnusable
        """
        self._trusted = trusted()
        self._ways: dict[tuple[str, bytes], httpx2.AsyncHTTPTransport] = {}
        """By scheme and address."""
        self._on_lost = on_lost
        self._on_stream = on_stream
        self._on_session = on_session
        self._nursery = nursery
        self._most = most
        self._streamed = False
        self._next_stream = -math.inf
        self._replies: dict[object, Reply] = {}
        """By the id of the request that each is to."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
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
            # A server that does not answer is what calls are cancelled for, one after the other.
            self._nursery.start_soon(self._send_aside, request)
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        try:
            if kind == "request":
                return _explained(request, await self._ask(request, request_id))
            if kind == "stream" and request.method == "GET":
                return await self._open_stream(request)
            return await (self._send(request) if kind == "stream" else self._send_twice(request))
        except httpx2.TransportError as error:
            return self._failed(request, kind, error)

    async def aclose(self) -> None:
        for way in self._ways.values():
            await way.aclose()

    async def _send(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._reach(request)
        if not response.has_redirect_location:
            may_list = request.extensions.get("stopgo.call") is not True
            return Bounded.body_of(response, Message(self._most, may_list), stream=is_stream(response))
        # Who follows it would first read its body to the end, however far that is.
        await response.aclose()
        # As bytes: what is there need not be ASCII.
        location = [header for header in response.headers.raw if header[0].lower() == b"location"]
        return httpx2.Response(response.status_code, headers=location)

    async def _send_twice(self, request: httpx2.Request) -> httpx2.Response:
        """Send a message that may arrive twice: once more when its connection ends without a response."""
        try:
            return await self._send(request)
        except _LEFT:
            return await self._send(request)

    async def _ask(self, request: httpx2.Request, request_id: object) -> httpx2.Response:
        """The response to a request, read to its end unless it is a stream."""

        def forget() -> None:
            if self._replies.get(request_id) is reply:
                del self._replies[request_id]

        reply = self._replies[request_id] = Reply(on_close=forget)
        streams = False
        try:
            response = await reply.wait_for(lambda: self._send_twice(request))
            streams = is_stream(response)
            if streams:
                return reply.streams(response)
            body = await reply.wait_for(lambda: read_body(response))
            status, headers = response.status_code, response.headers
            return httpx2.Response(status, headers=headers, content=body, request=request)
        finally:
            if not streams:
                forget()

    async def _send_aside(self, request: httpx2.Request) -> None:
        with suppress(httpx2.TransportError):
            await (await self._reach(request)).aclose()

    async def _reach(self, request: httpx2.Request) -> httpx2.Response:
        if (failed := request.extensions.get(FAILED)) is not None:
            raise failed
        url = request.url
        return await (self._ways.get((url.scheme, url.netloc)) or self._way(url)).handle_async_request(
            request
        )

    def _way(self, url: httpx2.URL) -> httpx2.AsyncHTTPTransport:
        # Who calls has a place, which bounds connections well enough: a bound of their own would keep calls
        # waiting behind those whose servers wait for a human.
        limits = httpx2.Limits(max_connections=None, keepalive_expiry=KEEP_ALIVE)
        try:
            way = httpx2.AsyncHTTPTransport(limits=limits, proxy=proxy_to(url), verify=self._trusted)
        except (ValueError, httpx2.InvalidURL) as error:
            text = "the proxy of the environment has no valid address"
            raise httpx2.UnsupportedProtocol(text) from error
        self._ways[url.scheme, url.netloc] = way
        return way

    def _failed(self, request: httpx2.Request, kind: _Kind, error: httpx2.TransportError) -> httpx2.Response:
        if kind == "notification":
            return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
        if kind == "request":
            return _error(request, HTTPStatus.SERVICE_UNAVAILABLE, *transport_failure(error))
        if kind == "other":
            return httpx2.Response(HTTPStatus.SERVICE_UNAVAILABLE, request=request)
        if self._streamed and isinstance(error, httpx2.ConnectError):
            self._on_lost(transport_text(error))
        raise error  # the SDK expects that of the server's stream and of the end of a session

    async def _open_stream(self, request: httpx2.Request) -> httpx2.Response:
        """The server's own stream to us. The SDK opens it again when it ends, as often as the server says so,
        but hardly ever when that fails; and it would not tell how it went."""
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
                    if self._streamed and response.status_code == HTTPStatus.NOT_FOUND:
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
    most: int = MAX_STORED_BYTES,
) -> AsyncIterator[httpx2.AsyncClient]:
    """A client for one server, closed with the block.

    Reads have no timeout: every call is bounded by its caller, and the server's own stream to us
    may be silent for as long as it likes.

    Args:
        headers: sent with every message to the server.
        auth: sees every response before anything else does, with its status and headers.
        on_lost, on_stream, on_session, most: see `McpTransport`.
    """
    async with trio.open_nursery() as nursery:
        async with httpx2.AsyncClient(
            transport=McpTransport(on_lost, on_stream, on_session, nursery, most),
            timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
            # Unpacking costs more than it saves here; a server may pack all the same.
            headers={**headers, "accept-encoding": "identity"},
            # What a server sets for one caller must not go with the call of another.
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
            auth=auth,
        ) as client:
            yield client
        nursery.cancel_scope.cancel()


HttpClient: TypeAlias = AbstractAsyncContextManager[httpx2.AsyncClient]


def _kind(request: httpx2.Request) -> tuple[_Kind, object]:
    """What the HTTP request is for, and the id of the MCP request that it is or is about."""
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


def is_stream(response: httpx2.Response) -> bool:
    """Whether a stream of events follows."""
    kind = response.headers.get("content-type", "").lower()
    return response.status_code < 400 and kind.startswith(STREAM)


async def read_body(response: httpx2.Response) -> bytes:
    """The body, abridged if it is too long; the request that it answers gets the failure.

    Raises:
        httpx2.TransportError: it could not be read to its end.
    """
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        return b"".join([chunk async for chunk in response.stream])
    except httpx2.DecodingError as error:
        raise httpx2.RemoteProtocolError(str(error)) from error
    finally:
        await response.aclose()


def _explained(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The response, or what its status means to an MCP client."""
    if response.status_code < 400:
        return response
    in_session = "mcp-session-id" in request.headers
    code, text, data = failure(response, response.content, in_session=in_session)
    return _error(request, response.status_code, code, text, data, response.headers)


def failure(response: httpx2.Response, body: bytes, *, in_session: bool) -> tuple[int, str, object]:
    """Code, text and data of what is wrong, by a response that is no success."""

    status = response.status_code
    if (location := redirect_location(response)) is not None:
        text = f"Redirect to {location} not followed; use that URL if it is the intended server"
        return REQUEST_REFUSED, text, {}
    if status == HTTPStatus.NOT_FOUND and in_session:
        return SESSION_LOST, SESSION_UNKNOWN, {}
    answer = None if status in UNAUTHORIZED else rpc_error(body)
    return answer or refusal(response)


def transport_failure(error: httpx2.RequestError) -> tuple[int, str, object]:
    """The same, of a request that failed on its way."""
    if isinstance(error, httpx2.LocalProtocolError) or (isinstance(error, AuthFailed) and not error.sent):
        return REQUEST_REFUSED, transport_text(error), {}  # by ourselves: nothing was sent
    return UNREACHABLE, transport_text(error), {"sent": not isinstance(error, _NOT_SENT)}


def refusal(response: httpx2.Response) -> tuple[int, str, dict[str, Any]]:
    """Our code, text and data for an HTTP status that is no answer of the tool server's."""
    status = response.status_code
    data: dict[str, Any] = {"http_status": status}
    if (challenge := response.headers.get("www-authenticate")) is not None:
        data["www_authenticate"] = challenge
    return SERVER_FAILED if status >= 500 else REQUEST_REFUSED, status_line(status), data


def transport_text(error: httpx2.RequestError) -> str:
    """What went wrong; some have no text, and none has the URL, which may carry a key, in it."""
    if isinstance(error, httpx2.LocalProtocolError):
        return "a header of the request is not valid"  # its text quotes the header, which may be a token
    if isinstance(error, httpx2.ProxyError):
        return f"the proxy of the environment says: {error}"
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
    """A response whose body is the error, with the headers that an `httpx2.Auth` may look for."""
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text, "data": data}}
    response = httpx2.Response(status, json=body, request=request)
    if headers is not None:
        for name in _KEPT_HEADERS & headers.keys():
            response.headers[name] = headers[name]
    return response
