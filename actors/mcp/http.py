"""The HTTP underneath a Streamable HTTP server's connection.

The SDK's session does not survive an HTTP client that raises: one failed POST would take every
other call in flight with it, and a status code never reaches the caller. So failures are turned
into the JSON-RPC error of the one request they belong to.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import httpx2

from stopgo.actors.mcp.bearer import current_bearer
from stopgo.actors.mcp.failures import REQUEST_REFUSED, SERVER_FAILED, SESSION_LOST, UNREACHABLE

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

# These log the address of every request, and an address may carry a key.
for _logger in ("httpx2", "mcp.client.streamable_http"):
    logging.getLogger(_logger).setLevel(logging.WARNING)

MAX_BODY = 64 * 1024 * 1024
"""Bytes of the longest reply."""
CONNECT_TIMEOUT = 10.0
SIDE_TIMEOUT = 2.0
"""Seconds for a notification or the end of a session: the SDK waits for these inline."""

_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
_Kind: TypeAlias = Literal["request", "notification", "other"]


class McpTransport(httpx2.AsyncBaseTransport):
    """Sends an MCP client's requests; forwards the bearer of the call at hand."""

    def __init__(self, max_connections: int) -> None:
        # Beside the calls there are the server's own stream to us, and notifications.
        limits = httpx2.Limits(max_connections=max_connections + 2)
        self._inner = httpx2.AsyncHTTPTransport(limits=limits)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        bearer = current_bearer()
        if bearer is not None:
            request.headers["authorization"] = f"Bearer {bearer}"
        kind = _kind(request)
        if kind == "notification" or request.method == "DELETE":
            request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), SIDE_TIMEOUT)
        try:
            response = await self._inner.handle_async_request(request)
            if kind == "request" and not _is_stream(response):
                response = await _read(response, request)
        except httpx2.TransportError as error:
            if kind == "notification":
                return httpx2.Response(HTTPStatus.ACCEPTED, request=request)
            if kind == "other":
                raise  # the SDK expects that of its own stream and of the end of a session
            sent = not isinstance(error, _NOT_SENT)
            return _error(
                request, HTTPStatus.SERVICE_UNAVAILABLE, UNREACHABLE, _reason(error), {"sent": sent}
            )
        return _explained(request, response) if kind == "request" else response

    async def aclose(self) -> None:
        await self._inner.aclose()


@asynccontextmanager
async def streamable_http(url: str, *, max_connections: int) -> AsyncIterator[TransportStreams]:
    """A transport of the SDK for the server at `url`.

    Reads have no timeout: every call is bounded by its caller, and the server's own stream to us
    may be silent for as long as it likes.
    """
    from mcp.client.streamable_http import streamable_http_client

    client = httpx2.AsyncClient(
        transport=McpTransport(max_connections),
        timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        # What is bounded is what is sent: a compressed body could unpack to any size.
        headers={"accept-encoding": "identity"},
    )
    async with (
        client,
        streamable_http_client(url, http_client=client, max_sse_event_size=MAX_BODY) as streams,
    ):
        yield streams


def _kind(request: httpx2.Request) -> _Kind:
    if request.method != "POST":
        return "other"
    message: Any = json.loads(request.content)
    return (
        "request" if isinstance(message, dict) and "id" in message and "method" in message else "notification"
    )


def _is_stream(response: httpx2.Response) -> bool:
    return response.status_code < 400 and response.headers.get("content-type", "").startswith(
        "text/event-stream"
    )


async def _read(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """Read the body here, where a failure can still be told as this request's own."""
    body = bytearray()
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        async for chunk in response.stream:
            body += chunk
            if len(body) > MAX_BODY:
                raise httpx2.RemoteProtocolError(f"the reply is longer than {MAX_BODY} bytes")
    finally:
        await response.aclose()
    return httpx2.Response(
        response.status_code, headers=response.headers, content=bytes(body), request=request
    )


def _explained(request: httpx2.Request, response: httpx2.Response) -> httpx2.Response:
    """The response, or what its status means to an MCP client."""
    status = response.status_code
    if status == HTTPStatus.NOT_FOUND and "mcp-session-id" in request.headers:
        return _error(request, status, SESSION_LOST, "the server does not know this session any more", {})
    if status < 400 or _is_rpc_error(response.content):
        return response
    code = SERVER_FAILED if status >= 500 else REQUEST_REFUSED
    return _error(request, status, code, _status_line(status), {"http_status": status})


def _is_rpc_error(body: bytes) -> bool:
    try:
        message: Any = json.loads(body)
    except ValueError:
        return False
    return isinstance(message, dict) and isinstance(message.get("error"), dict) and "jsonrpc" in message


def _status_line(status: int) -> str:
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def _reason(error: httpx2.TransportError) -> str:
    # Some have no text. None has the URL, which may carry a key, in it.
    return str(error) or type(error).__name__


def _error(
    request: httpx2.Request, status: int, code: int, text: str, data: dict[str, Any]
) -> httpx2.Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": text, "data": data}}
    return httpx2.Response(status, json=body, request=request)
