"""The transport to servers of the older HTTP kind (MCP 2024-11-05, "HTTP with SSE").

The server sends everything on one stream of events. Its first event, `endpoint`, says where to POST; each
message to the server is a POST of its own, and the response to a POST says only whether it was accepted.

Servers behind a proxy name the address at which they listen, or a path without the beginning that the proxy
has removed. So only the path counts, at the origin of the stream, and if nothing is there, it is tried below
the folders of the stream (`places`).

A call's POST runs in a task of its own, in the caller's context, because the reply may arrive on the stream
before the POST ends. The SDK's own transport is not used: it ends with the first POST that fails, and one
POST that hangs holds up all messages after it.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from http import HTTPStatus
from typing import Any, TypeAlias

import anyio
import httpx2
import trio
from anyio.abc import AsyncResource

from ...common.sse_parser import SseEvent
from ..wire.failures import REQUEST_REFUSED
from ..wire.incoming import error_reply, parse_message
from ..wire.requests import OpenRequest, Outgoing, Requests
from ..wire.sdk import JSONRPCRequest, MCPError, SessionMessage, TransportStreams, stream_within_origin
from ..wire.sdk_shims import Incoming
from . import http
from .response_body import STREAM, read_body, read_events

PostMessage: TypeAlias = Callable[[bytes], Awaitable[tuple[int, str, object] | None]]


class LegacySse:
    """The transport to the server whose stream is at `url`."""

    def __init__(self, url: str, on_end: Callable[[str], None]) -> None:
        """
        Args:
            on_end: called with the reason when no further message can arrive.
        """
        self._url = url
        self._on_end = on_end
        self._requests = Requests()
        self._client: httpx2.AsyncClient
        self._endpoints: list[httpx2.URL] = []
        """Where to POST; the others are tried until a message is accepted."""
        self._nursery: trio.Nursery

    @asynccontextmanager
    async def open(self, http_client: http.HttpClient) -> AsyncIterator[TransportStreams]:
        """Exchange messages with the server for the length of a block.

        Raises:
            MCPError: there is no such stream; with the codes of `failures`.
        """
        incoming, reads = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        with incoming, reads:
            async with (
                http_client as self._client,
                _stream(self._url, self._client) as response,
                aclosing(read_events(response)) as events,
            ):
                self._endpoints = places(response.url, await _endpoint(events))
                writes = Posts(self._post, incoming)
                async with trio.open_nursery() as self._nursery:
                    self._nursery.start_soon(self._pump, events, incoming)
                    yield reads, writes
                    self._nursery.cancel_scope.cancel()

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""
        with self._requests.open(outgoing) as request:
            posting = trio.CancelScope()
            self._nursery.start_soon(self._submit, request, request.body(), posting)
            try:
                return await request.result()
            except trio.Cancelled:
                posting.cancel()
                await self._cancel(request)
                raise
            finally:
                posting.deadline = trio.current_time() + http.SIDE_TIMEOUT

    async def _submit(self, request: OpenRequest, body: bytes, scope: trio.CancelScope) -> None:
        with scope:
            if (failure := await self._post(body)) is not None:
                request.resolve(error_reply(request.id, *failure))

    async def _cancel(self, request: OpenRequest) -> None:
        if not self._client.is_closed:
            with trio.move_on_after(http.SIDE_TIMEOUT, shield=True):
                await self._post(request.cancellation())

    async def _post(self, body: bytes) -> tuple[int, str, object] | None:
        """Post a message; return code, text and data of the failure, or None."""
        headers = {"content-type": "application/json"}
        try:
            async with stream_within_origin(
                self._client, "POST", self._endpoints[0], content=body, headers=headers, extensions=http.CALL
            ) as response:
                answer = await read_body(response)
        except httpx2.RequestError as error:
            return http.transport_failure(error)
        if response.status_code in _NOTHING_THERE and len(self._endpoints) > 1:
            del self._endpoints[0]
            return await self._post(body)
        if response.status_code < HTTPStatus.MULTIPLE_CHOICES:
            del self._endpoints[1:]
            return None
        # The stream is open, so an error of a gateway does not mean that the session is lost.
        return http.failure(response, answer, in_session=response.status_code < 500)

    async def _pump(self, events: AsyncIterator[SseEvent], incoming: Incoming) -> None:
        reason = "its stream ended"
        try:
            async for event in events:
                message = parse_message(event.data or b"") if event.type == "message" else None
                if message is not None and not self._requests.take(message):
                    await incoming.send(SessionMessage(message))
        except httpx2.TransportError as error:
            reason = http.transport_text(error)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the session has ended
        finally:
            self._on_end(reason)
            self._requests.end()
            incoming.close()


class Posts(AsyncResource):
    """The write stream of the session: it posts each message."""

    def __init__(self, post: PostMessage, incoming: Incoming) -> None:
        self._post = post
        self._incoming = incoming

    async def send(self, item: SessionMessage, /) -> None:
        """Post the message; the failure of a request becomes its reply, other failures are ignored."""
        body = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        if not isinstance(item.message, JSONRPCRequest):
            with trio.move_on_after(http.SIDE_TIMEOUT):
                await self._post(body)
        elif (failure := await self._post(body)) is not None:
            await self._incoming.send(SessionMessage(error_reply(item.message.id, *failure)))

    async def aclose(self) -> None:
        """Do nothing: a POST ends with its sender."""


@asynccontextmanager
async def _stream(url: str, client: httpx2.AsyncClient) -> AsyncIterator[httpx2.Response]:
    headers = {"accept": STREAM, "cache-control": "no-store"}
    async with AsyncExitStack() as stack:
        try:
            stream = stream_within_origin(client, "GET", url, headers=headers, extensions=http.LISTEN)
            response = await stack.enter_async_context(stream)
        except httpx2.RequestError as error:
            raise MCPError(*http.transport_failure(error)) from error
        if response.status_code != HTTPStatus.OK:
            raise MCPError(*http.failure(response, b"", in_session=False))
        yield response


async def _endpoint(events: AsyncIterator[SseEvent]) -> str:
    """Read the address for POSTs from the first event."""
    try:
        first = await anext(events, None)
    except httpx2.TransportError as error:
        raise MCPError(REQUEST_REFUSED, http.transport_text(error)) from error
    if first is None or first.type != "endpoint":
        raise MCPError(REQUEST_REFUSED, "its stream does not begin with an endpoint event")
    return (first.data or b"").decode(errors="replace")


_NOTHING_THERE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
_MOST_PLACES = 4


def places(here: httpx2.URL, named: str) -> list[httpx2.URL]:
    """The addresses that an endpoint event may mean, the likeliest first, all at the origin of the stream.

    Sources: python-sdk#965, cosmo#1841, heym#78 (the address at which the server listens); python-sdk#242 and
    #2255 (a path before it); mcphost#26 (a colon that is encoded).
    """
    meant = here.join(re.sub(r"\A(https?)%3A", r"\1:", named, flags=re.IGNORECASE)).raw_path
    folders = here.path.split("/")[1:-1]
    befores = ["/".join(["", *folders[:end]]) for end in range(len(folders), 0, -1)]
    paths = [meant, *(each.encode() + meant for each in befores if not meant.startswith(f"{each}/".encode()))]
    return [here.copy_with(raw_path=path) for path in paths[:_MOST_PLACES]]
