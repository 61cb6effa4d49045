"""The transport to servers that speak Streamable HTTP: the SDK's for its session, and a POST of our own for
each call, in the task that makes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from contextvars import Context, copy_context
from http import HTTPStatus
from typing import Any, TypeAlias

import anyio
import attrs
import httpx2
import trio
from anyio.streams.memory import MemoryObjectSendStream

from . import http
from .failures import UNREACHABLE
from .incoming import not_understood, parse_message
from .requests import OpenRequest, Outgoing, Requests, result_of
from .sdk import (
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
from .tool_calls import VERSION_HEADER

Item: TypeAlias = tuple[Context, SessionMessage | Exception]
RpcReply: TypeAlias = JSONRPCResponse | JSONRPCError

RESUME_DELAY = 1.0
"""Seconds before a stream that ended too early is taken up again, if the server does not say."""
RESUME_DELAYS = (0.05, 3600.0)
"""The least and the most that it may say."""
RESUME_ATTEMPTS = 2
"""In a row, that fail."""


class StreamableHttp:
    """The way to the server at `url`. Whoever makes a call makes its POST, in their own context and time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._requests = Requests()
        self._session: str | None = None
        self._client: httpx2.AsyncClient
        self._incoming: MemoryObjectSendStream[Item]
        self._nursery: trio.Nursery | None = None
        """As long as the connection lasts."""

    def in_session(self, session: str) -> None:
        """Make calls in this session of the server's."""
        self._session = session

    @asynccontextmanager
    async def open(self, http_client: http.HttpClient) -> AsyncIterator[TransportStreams]:
        """Exchange messages with the server for the length of a block."""

        self._incoming, merged = anyio.create_memory_object_stream[Item](0)
        with self._incoming, merged:
            async with http_client as self._client:
                way = streamable_http_client(
                    self._url, http_client=self._client, max_sse_event_size=http.MAX_EVENT
                )
                async with way as (reads, writes), trio.open_nursery() as nursery:
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
        with self._requests.one(outgoing) as request:
            try:
                return result_of(await self._post(request))
            except trio.Cancelled:
                self._call_off(request)
                raise

    async def _pump(self, reads: ReadStream[SessionMessage | Exception]) -> None:
        """Pass on what the SDK's own requests, and the server's stream to us, bring."""
        async for item in reads:
            if isinstance(item, Exception) or not self._requests.take(item.message):
                # The context of the SDK's request that brought it.
                await self._pass_on(getattr(reads, "last_context", None) or copy_context(), item)
        self._incoming.close()

    async def _pass_on(self, context: Context, item: SessionMessage | Exception) -> None:
        """Give the session what it is to deal with in this context; when it is gone, nobody is there to."""
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
                if http.is_stream(response):
                    return await self._follow(request, response)
                body = await http.read_body(response)
                return _reply(response, body, in_session=self._session is not None)
        except httpx2.RequestError as error:
            raise MCPError(*http.transport_failure(error)) from error

    async def _follow(self, request: OpenRequest, response: httpx2.Response) -> RpcReply:
        """The reply, out of a stream of events; one that ends too early is taken up again if it can be."""

        stream = _Stream()
        try:
            reply = await self._read(request, stream, httpx2.EventSource(response, http.MAX_EVENT))
        except httpx2.SSEError:
            raise
        except httpx2.RequestError:
            reply = None
        failures = 0
        while reply is None:
            if stream.last_id is None or failures == RESUME_ATTEMPTS:
                raise MCPError(UNREACHABLE, "its stream ended without a reply", {"sent": True})
            with trio.move_on_after(stream.retry):
                return await request.reply()  # or the end of the connection
            headers = httpx2.Headers(self._headers(request.outgoing))
            headers["last-event-id"] = stream.last_id  # in UTF-8, as HTML says
            try:
                async with stream_within_origin(
                    self._client, "GET", self._url, headers=headers, extensions=http.CALL
                ) as resumed:
                    resumed.raise_for_status()
                    reply = await self._read(request, stream, httpx2.EventSource(resumed, http.MAX_EVENT))
                    failures = 0
            except httpx2.HTTPError:
                failures += 1
        return reply

    async def _read(
        self, request: OpenRequest, stream: _Stream, events: httpx2.EventSource
    ) -> RpcReply | None:
        """The reply, if the stream brings it; whatever else it brings is given to whom it concerns."""

        async for event in events:
            stream.note(event)
            if event.event != "message" or not event.data:
                continue
            message = parse_message(event.data.encode())
            if isinstance(message, JSONRPCResponse | JSONRPCError):
                return message
            # What is no message is ignored, as it is elsewhere: the reply may come yet.
            if message is not None and not self._requests.take(message):
                await self._pass_on(copy_context(), SessionMessage(message))
        return None

    def _call_off(self, request: OpenRequest) -> None:
        """Tell an older server that nobody waits any more; a newer one sees it by the end of the POST."""
        headers = self._headers(request.outgoing)
        if headers[VERSION_HEADER] not in MODERN_PROTOCOL_VERSIONS and self._nursery is not None:
            self._nursery.start_soon(self._tell, request.cancellation(), headers)

    async def _tell(self, notification: bytes, headers: dict[str, str]) -> None:

        with trio.move_on_after(http.SIDE_TIMEOUT), suppress(httpx2.RequestError):
            async with stream_within_origin(
                self._client, "POST", self._url, content=notification, headers=headers, extensions=http.CALL
            ):
                pass


@attrs.define
class _Stream:
    """What a stream of events says about how to take it up again (HTML, "Server-sent events")."""

    last_id: str | None = None
    retry: float = RESUME_DELAY

    def note(self, event: httpx2.ServerSentEvent) -> None:
        self.last_id = event.id or self.last_id
        if event.retry is not None:
            shortest, longest = RESUME_DELAYS
            self.retry = max(shortest, min(event.retry, longest * 1000) / 1000)


def _reply(response: httpx2.Response, body: bytes, *, in_session: bool) -> RpcReply:
    """The reply that a response which is no stream holds.

    Raises:
        MCPError: it holds none.
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
