"""The tool calls of one connection, which bypass the SDK's session.

A call through the session costs several times as much: two streams between tasks, one or two tasks, and a
pydantic model of every message. So each transport implements `Requester`. It sends the body of an
`OpenRequest`, and passes every message that arrives to `Requests.take` first. `take` accepts the replies and
the progress that belong to open requests; the session gets all other messages. The ids of calls and of the
session's requests do not overlap (`FIRST_ID`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import attrs
import trio
from pydantic_core import to_json

from ...tools.tool import Progress
from .failures import UNREACHABLE, Unsendable
from .sdk import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    MCPError,
)
from .wire import progress_from_wire

FIRST_ID = 1_000_000_000
"""The id of the first call. The session counts from 1 and never reaches it. Ids from here on fit into 32
bits, which is all that some servers store."""


@attrs.frozen
class Outgoing:
    """A request before a connection adds its id and its own headers."""

    method: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    """HTTP headers of the call, for Streamable HTTP; other transports ignore them."""
    on_progress: Callable[[Progress], None] | None = None
    """Called with each report of progress; None: none is requested."""


class Requester(Protocol):
    """A connection that sends requests to a server."""

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """Send the request and wait for its result. If the wait is cancelled, the server is notified.

        Raises:
            MCPError: the server refused, or the outcome is unknown; see `failures`.
            Unsendable: nothing was sent.
        """
        ...


@attrs.define(eq=False)
class OpenRequest:
    """A request that has no reply yet."""

    id: int
    outgoing: Outgoing
    _reply: JSONRPCResponse | JSONRPCError | None = None
    _replied: trio.Event = attrs.field(factory=trio.Event)

    def body(self) -> bytes:
        """Return the message as JSON, with a progress token if progress is requested.

        Raises:
            Unsendable: JSON cannot express the parameters.
        """
        params = self.outgoing.params
        if self.outgoing.on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": self.id}}
        return _encoded({"jsonrpc": "2.0", "id": self.id, "method": self.outgoing.method, "params": params})

    def cancellation(self) -> bytes:
        """Return the notification that the request is cancelled, as JSON."""
        params = {"requestId": self.id, "reason": "caller cancelled"}
        return _encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def resolve(self, reply: JSONRPCResponse | JSONRPCError) -> None:
        """Record the reply and wake the waiting call; only the first reply counts."""
        if self._reply is None:
            self._reply = reply
            self._replied.set()

    async def reply(self) -> JSONRPCResponse | JSONRPCError:
        """Wait for the reply."""
        await self._replied.wait()
        assert self._reply is not None
        return self._reply

    async def result(self) -> dict[str, Any]:
        """Wait for the reply and return its result.

        Raises:
            MCPError: the reply is an error.
        """
        return result_of(await self.reply())


@attrs.define(eq=False)
class Requests:
    """The open requests of one connection."""

    _open: dict[int, OpenRequest] = attrs.field(factory=dict)
    _ids: Iterator[int] = attrs.field(factory=lambda: count(FIRST_ID))
    _ended: bool = False

    @contextmanager
    def open(self, outgoing: Outgoing) -> Iterator[OpenRequest]:
        """Assign an id to the request, which is open within the block.

        Raises:
            MCPError: the connection has ended.
        """
        if self._ended:
            raise MCPError(UNREACHABLE, "the connection is closed", {"sent": False})
        request = OpenRequest(next(self._ids), outgoing)
        self._open[request.id] = request
        try:
            yield request
        finally:
            del self._open[request.id]

    def take(self, message: JSONRPCMessage) -> bool:
        """Deliver a message to the open request that it belongs to. Return False if it is for the session."""
        if isinstance(message, JSONRPCRequest):
            return False
        if not isinstance(message, JSONRPCNotification):
            request = self._find(message.id)
            if request is not None:
                request.resolve(message)
            return request is not None
        if message.method != "notifications/progress":
            return False
        params = message.params or {}
        request = self._find(params.get("progressToken"))
        on_progress = None if request is None else request.outgoing.on_progress
        if on_progress is not None and (progress := progress_from_wire(params)) is not None:
            on_progress(progress)
        return True  # the session requests no progress

    def end(self) -> None:
        """Fail all open requests and all later ones, because no further message can arrive."""
        self._ended = True
        closed = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
        for request in self._open.values():
            request.resolve(JSONRPCError(jsonrpc="2.0", id=request.id, error=closed))

    def _find(self, request_id: object) -> OpenRequest | None:
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 20:
            request_id = int(request_id)  # some servers return every id as a string
        return self._open.get(request_id) if isinstance(request_id, int) else None


def result_of(reply: JSONRPCResponse | JSONRPCError) -> dict[str, Any]:
    """Return the result of a reply.

    Raises:
        MCPError: the reply is an error.
    """
    if isinstance(reply, JSONRPCError):
        raise MCPError(reply.error.code, reply.error.message, reply.error.data)
    return reply.result


def _encoded(message: Mapping[str, Any]) -> bytes:
    try:
        return to_json(message, inf_nan_mode="null")
    except (ValueError, RecursionError) as error:
        raise Unsendable(str(error)) from error
