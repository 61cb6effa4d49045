"""The transport to servers of the older HTTP kind: one stream of events from them, one POST for each message
to them (MCP 2024-11-05, "HTTP with SSE").

The SDK's own ends with the first POST that fails, and holds back every message behind one that hangs.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import httpx2
import trio

from stopgo.actors.mcp import http
from stopgo.actors.mcp.failures import REQUEST_REFUSED, SESSION_LOST, UNREACHABLE
from stopgo.actors.mcp.message import error_reply, parse_message

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from mcp.client._transport import TransportStreams
    from mcp.shared.message import SessionMessage

    Incoming = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def legacy_sse(
    url: str, http_client: http.HttpClient, on_end: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """A transport for the server whose stream is at `url`.

    Args:
        on_end: told why, when no further message can come.

    Raises:
        MCPError: there is no such stream; with the codes of `failures`.
    """
    incoming, reads = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
    with incoming, reads:
        async with http_client as client, _stream(url, client) as response:
            events = aiter(httpx2.EventSource(response, max_event_size=http.MAX_BODY))
            writes = Posts(client, await _endpoint(url, events), incoming)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_pump, events, incoming, on_end)
                yield reads, writes
                nursery.cancel_scope.cancel()


class Posts:
    """The way to the server. Whoever sends a message makes its POST, in their own context and time."""

    def __init__(self, client: httpx2.AsyncClient, endpoint: httpx2.URL, incoming: Incoming) -> None:
        self._client = client
        self._endpoint = endpoint
        self._incoming = incoming

    async def send(self, item: SessionMessage, /) -> None:
        """Post the message; what goes wrong with a request becomes its reply."""
        from mcp_types import JSONRPCRequest

        response = await self._client.post(
            self._endpoint,
            content=item.message.model_dump_json(by_alias=True, exclude_unset=True),
            headers={"content-type": "application/json"},
        )
        if response.status_code < HTTPStatus.MULTIPLE_CHOICES or not isinstance(item.message, JSONRPCRequest):
            return
        code, text, data = _failure(response)
        await self._incoming.send(error_reply(item.message.id, code, text, data))

    async def aclose(self) -> None:
        """There is nothing to close: a POST ends with its sender."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


@asynccontextmanager
async def _stream(url: str, client: httpx2.AsyncClient) -> AsyncIterator[httpx2.Response]:
    from mcp import MCPError

    headers = {"accept": "text/event-stream", "cache-control": "no-store"}
    request = client.build_request("GET", url, headers=headers)
    try:
        response = await client.send(request, stream=True)
    except httpx2.TransportError as error:
        raise MCPError(UNREACHABLE, http.transport_text(error), {"sent": False}) from error
    try:
        if response.status_code != HTTPStatus.OK:
            raise MCPError(*http.refusal(response))
        yield response
    finally:
        await response.aclose()


async def _endpoint(url: str, events: AsyncIterator[httpx2.ServerSentEvent]) -> httpx2.URL:
    """Where to post, which is the first thing the server says."""
    from mcp import MCPError

    try:
        first = await anext(events, None)
    except httpx2.TransportError as error:
        raise MCPError(REQUEST_REFUSED, http.transport_text(error)) from error
    if first is None or first.event != "endpoint":
        raise MCPError(REQUEST_REFUSED, "its stream does not begin with where to post")
    here = httpx2.URL(url)
    endpoint = here.join(first.data)
    if (endpoint.scheme, endpoint.host, endpoint.port) != (here.scheme, here.host, here.port):
        raise MCPError(REQUEST_REFUSED, "it wants messages posted to another server")
    return endpoint


async def _pump(
    events: AsyncIterator[httpx2.ServerSentEvent], incoming: Incoming, on_end: Callable[[str], None]
) -> None:
    reason = "its stream ended"
    try:
        async for event in events:
            message = parse_message(event.data.encode()) if event.event == "message" else None
            if message is not None:
                await incoming.send(message)
    except httpx2.TransportError as error:
        reason = http.transport_text(error)
    except (anyio.BrokenResourceError, anyio.ClosedResourceError):
        pass  # the session is gone, and with it whoever would read
    finally:
        incoming.close()
        on_end(reason)


def _failure(response: httpx2.Response) -> tuple[int, str, object]:
    """Code, text and data of what the server, or our own transport for it, says is wrong."""
    status = response.status_code
    if status == HTTPStatus.NOT_FOUND:
        return SESSION_LOST, http.SESSION_UNKNOWN, {}
    body: Any = json.loads(response.content) if http.is_rpc_error(response.content) else {}
    error: dict[str, Any] = body.get("error", {})
    code, text = error.get("code"), error.get("message")
    if isinstance(code, int) and isinstance(text, str):
        return code, text, error.get("data")
    return http.refusal(response)
