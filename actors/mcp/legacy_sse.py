"""The transport to servers of the older HTTP kind: one stream of events from them, one POST for each message
to them (MCP 2024-11-05, "HTTP with SSE").

The SDK's own ends with the first POST that fails, and holds back every message behind one that hangs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeAlias

import anyio
import httpx2
import trio
from anyio.abc import AsyncResource
from anyio.streams.memory import MemoryObjectSendStream

from . import http
from .failures import REQUEST_REFUSED
from .incoming import error_reply, parse_message
from .requests import OpenRequest, Outgoing, Requests
from .sdk import JSONRPCRequest, MCPError, SessionMessage, TransportStreams, stream_within_origin

Incoming: TypeAlias = MemoryObjectSendStream[SessionMessage | Exception]
Post: TypeAlias = Callable[[bytes], Awaitable[tuple[int, str, object] | None]]


class LegacySse:
    """The way to the server whose stream is at `url`. A call's POST has a task of its own, in the context of
    whoever makes the call: what becomes of the call is said in the stream, however the POST ends."""

    def __init__(self, url: str, on_end: Callable[[str], None]) -> None:
        """
        Args:
            on_end: told why, when no further message can come.
        """
        self._url = url
        self._on_end = on_end
        self._requests = Requests()
        self._client: httpx2.AsyncClient
        self._endpoint: httpx2.URL
        self._nursery: trio.Nursery

    @asynccontextmanager
    async def open(self, http_client: http.HttpClient) -> AsyncIterator[TransportStreams]:
        """Exchange messages with the server for the length of a block.

        Raises:
            MCPError: there is no such stream; with the codes of `failures`.
        """
        incoming, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with incoming, reads:
            async with http_client as self._client, _stream(self._url, self._client) as response:
                events = aiter(httpx2.EventSource(response, max_event_size=http.MAX_EVENT))
                self._endpoint = await _endpoint(response.url, events)
                writes = Posts(self._post, incoming)
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._pump, events, incoming)
                    yield reads, writes
                    self._nursery.cancel_scope.cancel()

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""
        with self._requests.one(outgoing) as request:
            posting = trio.CancelScope()
            self._nursery.start_soon(self._submit, request, request.body(), posting)
            try:
                return await request.result()
            except trio.Cancelled:
                posting.cancel()
                await self._call_off(request)
                raise
            finally:
                posting.deadline = trio.current_time() + http.SIDE_TIMEOUT

    async def _submit(self, request: OpenRequest, body: bytes, scope: trio.CancelScope) -> None:
        with scope:
            if (failure := await self._post(body)) is not None:
                request.settle(error_reply(request.id, *failure))

    async def _call_off(self, request: OpenRequest) -> None:
        if not self._client.is_closed:
            with trio.move_on_after(http.SIDE_TIMEOUT, shield=True):
                await self._post(request.cancellation())

    async def _post(self, body: bytes) -> tuple[int, str, object] | None:
        """Post a message; code, text and data of what went wrong."""

        headers = {"content-type": "application/json"}
        try:
            async with stream_within_origin(
                self._client, "POST", self._endpoint, content=body, headers=headers, extensions=http.CALL
            ) as response:
                said = await http.read_body(response)
        except httpx2.RequestError as error:
            return http.transport_failure(error)
        if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
            return None
        return http.failure(response, said, in_session=True)

    async def _pump(self, events: AsyncIterator[httpx2.ServerSentEvent], incoming: Incoming) -> None:

        reason = "its stream ended"
        try:
            async for event in events:
                message = parse_message(event.data.encode()) if event.event == "message" else None
                if message is not None and not self._requests.take(message):
                    await incoming.send(SessionMessage(message))
        except httpx2.TransportError as error:
            reason = http.transport_text(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session is gone, and with it whoever would read
        finally:
            self._on_end(reason)
            self._requests.end()
            incoming.close()


class Posts(AsyncResource):
    """The session's way to the server."""

    def __init__(self, post: Post, incoming: Incoming) -> None:
        self._post = post
        self._incoming = incoming

    async def send(self, item: SessionMessage, /) -> None:
        """Post the message; what goes wrong with a request becomes its reply."""

        body = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if not isinstance(item.message, JSONRPCRequest):
            with trio.move_on_after(http.SIDE_TIMEOUT):
                await self._post(body)
        elif (failure := await self._post(body)) is not None:
            await self._incoming.send(SessionMessage(error_reply(item.message.id, *failure)))

    async def aclose(self) -> None:
        """There is nothing to close: a POST ends with its sender."""


@asynccontextmanager
async def _stream(url: str, client: httpx2.AsyncClient) -> AsyncIterator[httpx2.Response]:

    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    async with AsyncExitStack() as stack:
        try:
            stream = stream_within_origin(client, "GET", url, headers=headers, extensions=http.LISTEN)
            response = await stack.enter_async_context(stream)
        except httpx2.RequestError as error:
            raise MCPError(*http.transport_failure(error)) from error
        if response.status_code != HTTPStatus.OK:
            raise MCPError(*http.failure(response, b"", in_session=False))
        yield response


async def _endpoint(here: httpx2.URL, events: AsyncIterator[httpx2.ServerSentEvent]) -> httpx2.URL:
    """Where to post, which is the first thing the server says."""

    try:
        first = await anext(events, None)
    except httpx2.TransportError as error:
        raise MCPError(REQUEST_REFUSED, http.transport_text(error)) from error
    if first is None or first.event != "endpoint":
        raise MCPError(REQUEST_REFUSED, "its stream does not begin with where to post")
    endpoint = here.join(first.data)
    if (endpoint.scheme, endpoint.host, endpoint.port) != (here.scheme, here.host, here.port):
        raise MCPError(REQUEST_REFUSED, "it wants messages posted to another server")
    return endpoint
