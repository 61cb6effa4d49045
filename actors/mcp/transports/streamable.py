"""The transport to servers that speak Streamable HTTP.

Two kinds of traffic share one HTTP client. The SDK's transport carries the messages of its session:
negotiation, lists of tools, the server's own stream. Each tool call bypasses that transport: it is a separate
POST, in the caller's task and context (`request`). The reply to a call arrives in one of three ways:

1. as the JSON body of the response;
2. as an event of the response's stream; if the stream ends without the reply, it is resumed after its last
   event id (`_follow`);
3. on the server's own stream, from which `_pump` takes it.

Other messages on a call's stream are passed to the session, in the context of that call.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from contextvars import Context, copy_context
from http import HTTPStatus
from typing import Any, TypeAlias

import anyio
import attrs
import httpx2
import trio
from anyio.streams.memory import MemoryObjectSendStream

from ...common.sse_parser import SseEvent
from ..wire.failures import UNREACHABLE, casts_doubt
from ..wire.incoming import not_understood, parse_message, split_batch
from ..wire.requests import OpenRequest, Outgoing, Requests, result_of
from ..wire.sdk import (
    MODERN_PROTOCOL_VERSIONS,
    ContextReceiveStream,
    JSONRPCError,
    JSONRPCResponse,
    MCPError,
    ReadStream,
    SessionMessage,
    TransportStreams,
    stream_within_origin,
    streamable_http_client,
)
from ..wire.sdk_shims import Tagged
from ..wire.tool_calls import VERSION_HEADER
from . import http
from .response_body import MAX_EVENT, is_stream, read_body, read_events

RpcReply: TypeAlias = JSONRPCResponse | JSONRPCError

RESUME_DELAY = 1.0
"""Seconds before a stream that ended without the reply is resumed, unless the server sets another delay."""
RESUME_DELAYS = (0.05, 3600.0)
"""The shortest and the longest delay that a server can set, in seconds."""
RESUME_ATTEMPTS = 2
"""Number of failed attempts in a row after which the call fails."""


class StreamableHttp:
    """The transport to the server at `url`."""

    def __init__(self, url: str, on_doubt: Callable[[], None]) -> None:
        """
        Args:
            on_doubt: called when the answer to a call may mean that the session is lost.
        """
        self._url = url
        self._on_doubt = on_doubt
        self._requests = Requests()
        self._session: str | None = None
        self._client: httpx2.AsyncClient
        self._incoming: MemoryObjectSendStream[Tagged]
        self._nursery: trio.Nursery | None = None
        """Set while the connection is open."""

    def in_session(self, session: str) -> None:
        """Send the following calls with this MCP session id."""
        self._session = session

    @asynccontextmanager
    async def open(self, http_client: http.HttpClient) -> AsyncIterator[TransportStreams]:
        """Exchange messages with the server for the length of a block."""
        self._incoming, merged = anyio.create_memory_object_stream[Tagged](0)
        with self._incoming, merged:
            async with http_client as self._client:
                transport = streamable_http_client(
                    self._url, http_client=self._client, max_sse_event_size=MAX_EVENT
                )
                async with transport as (reads, writes), trio.open_nursery() as nursery:
                    nursery.start_soon(self._pump, reads)
                    self._nursery = nursery
                    try:
                        yield ContextReceiveStream(merged), writes
                    finally:
                        self._nursery = None
                        self._requests.end()
                        nursery.cancel_scope.cancel()

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""
        with self._requests.open(outgoing) as request:
            try:
                return result_of(await self._post(request))
            except trio.Cancelled:
                self._cancel(request)
                raise

    async def _pump(self, reads: ReadStream[SessionMessage | Exception]) -> None:
        """Distribute the messages that the SDK's transport receives: replies to calls, and all others."""
        async for item in reads:
            if isinstance(item, Exception) or not self._requests.take(item.message):
                # In the context of the SDK's request whose response contained the message.
                await self._pass_on(getattr(reads, "last_context", None) or copy_context(), item)
        self._incoming.close()

    async def _pass_on(self, context: Context, item: SessionMessage | Exception) -> None:
        """Pass a message to the session, which handles it in this context; drop it if the session ended."""
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await self._incoming.send((context, item))

    def _headers(self, outgoing: Outgoing) -> dict[str, str]:
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            **outgoing.headers,
        }
        if self._session is not None:
            headers["mcp-session-id"] = self._session
        return headers

    async def _post(self, request: OpenRequest) -> RpcReply:
        message, headers = request.body(), self._headers(request.outgoing)
        try:
            async with stream_within_origin(
                self._client, "POST", self._url, content=message, headers=headers, extensions=http.CALL
            ) as response:
                if is_stream(response):
                    return await self._follow(request, response)
                body = await read_body(response)
                if casts_doubt(response.status_code, ""):
                    self._on_doubt()
                own = await self._own_reply(body)
                return _reply(response, own, in_session=self._session is not None)
        except httpx2.RequestError as error:
            raise MCPError(*http.transport_failure(error)) from error

    async def _own_reply(self, body: bytes) -> bytes:
        """Return the reply in a body; pass on the other messages, if it has a batch."""
        reply, messages = body, split_batch(body)
        for data in messages if len(messages) > 1 else ():
            message = parse_message(data)
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                reply = data
            elif message is not None and not self._requests.take(message):
                await self._pass_on(copy_context(), SessionMessage(message))
        return messages[0] if len(messages) == 1 else reply

    async def _follow(self, request: OpenRequest, response: httpx2.Response) -> RpcReply:
        """Return the reply from a stream of events.

        If the stream ends without the reply, resume it, unless no event had an id.

        Raises:
            MCPError: the stream could not be resumed, so the outcome of the call is unknown.
        """
        position = _Position()
        try:
            reply = await self._read(request, position, response)
        except httpx2.SSEError:
            raise
        except httpx2.RequestError:
            reply = None
        failures = 0
        while reply is None:
            if position.last_id is None or failures == RESUME_ATTEMPTS:
                raise MCPError(UNREACHABLE, "its stream ended without a reply", {"sent": True})
            with trio.move_on_after(position.retry):
                return await request.reply()  # from the server's own stream, or from `Requests.end`
            headers = httpx2.Headers(self._headers(request.outgoing))
            headers["last-event-id"] = position.last_id  # encoded as UTF-8 (HTML)
            try:
                async with stream_within_origin(
                    self._client, "GET", self._url, headers=headers, extensions=http.CALL
                ) as resumed:
                    resumed.raise_for_status()
                    reply = await self._read(request, position, resumed)
                    failures = 0
            except httpx2.HTTPError:
                failures += 1
        return reply

    async def _read(
        self, request: OpenRequest, position: _Position, response: httpx2.Response
    ) -> RpcReply | None:
        """Return the reply, or None if the stream ends without it. Other messages are passed on."""
        async with aclosing(read_events(response)) as events:
            async for event in events:
                position.update(event)
                if event.type != "message" or not event.data:
                    continue
                message = parse_message(event.data)
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    return message
                # Data that is not a message is ignored, because the reply may still follow.
                if message is not None and not self._requests.take(message):
                    await self._pass_on(copy_context(), SessionMessage(message))
        return None

    def _cancel(self, request: OpenRequest) -> None:
        """Notify the server in the background that the call is cancelled. With a modern protocol version, the
        end of the POST is the notification."""
        headers = self._headers(request.outgoing)
        if headers[VERSION_HEADER] not in MODERN_PROTOCOL_VERSIONS and self._nursery is not None:
            self._nursery.start_soon(self._notify, request.cancellation(), headers)

    async def _notify(self, notification: bytes, headers: dict[str, str]) -> None:
        with trio.move_on_after(http.SIDE_TIMEOUT), suppress(httpx2.RequestError):
            async with stream_within_origin(
                self._client, "POST", self._url, content=notification, headers=headers, extensions=http.CALL
            ):
                pass


@attrs.define
class _Position:
    """The position from which a stream of events can be resumed."""

    last_id: str | None = None
    """The id of the last event that had one."""
    retry: float = RESUME_DELAY
    """Seconds before the next attempt."""

    def update(self, event: SseEvent) -> None:
        self.last_id = event.id or self.last_id
        if event.retry is not None:
            shortest, longest = RESUME_DELAYS
            self.retry = max(shortest, min(event.retry, longest * 1000) / 1000)


def _reply(response: httpx2.Response, body: bytes, *, in_session: bool) -> RpcReply:
    """Return the reply in a response that is not a stream.

    Raises:
        MCPError: the response contains no reply.
    """
    if response.status_code >= HTTPStatus.MULTIPLE_CHOICES:
        raise MCPError(*http.failure(response, body, in_session=in_session))
    if response.status_code == HTTPStatus.ACCEPTED:
        raise not_understood("the server answered a request with 202 Accepted")
    message = parse_message(body)
    if isinstance(message, JSONRPCResponse | JSONRPCError):
        return message
    kind = response.headers.get("content-type", "")
    if not kind.lower().startswith("application/json"):
        raise not_understood(f"Unexpected content type: {kind}")
    raise not_understood()
