"""Our own requests over one connection: the calls of tools, which the SDK's session never sees.

A call that travels through the session costs several times what it does on its own: two streams between
tasks, a task or two, and models of everything on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any, Protocol

import attrs
import trio
from pydantic_core import to_json

from ..tools.tool import Progress
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
"""Of a request of ours. The session counts from 1 and never comes so far; what follows fits the 32 bits that
some servers keep such numbers in."""


@attrs.frozen
class Outgoing:
    """A request, less what a connection adds."""

    method: str
    params: Mapping[str, Any]
    headers: Mapping[str, str]
    """For those connections that have any."""
    on_progress: Callable[[Progress], None] | None = None
    """Told how far it is; None: the server is not asked to tell."""


class Requester(Protocol):
    """The way of requests to a server."""

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """Send the request and wait for its result. When the wait is cancelled, the server is told.

        Raises:
            MCPError: the server refused, or what became of the request is not known; see `failures`.
            Unsendable: nothing was sent.
        """
        ...


@attrs.define(eq=False)
class OpenRequest:
    """A request whose reply has not come."""

    id: int
    outgoing: Outgoing
    _reply: JSONRPCResponse | JSONRPCError | None = None
    _replied: trio.Event = attrs.field(factory=trio.Event)

    def body(self) -> bytes:
        """The message, as JSON.

        Raises:
            Unsendable: there is none.
        """
        params = self.outgoing.params
        if self.outgoing.on_progress is not None:
            params = {**params, "_meta": {**params.get("_meta", {}), "progressToken": self.id}}
        return _encoded({"jsonrpc": "2.0", "id": self.id, "method": self.outgoing.method, "params": params})

    def cancellation(self) -> bytes:
        """The notification that nobody waits for the reply any more, as JSON."""
        params = {"requestId": self.id, "reason": "caller cancelled"}
        return _encoded({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    def settle(self, reply: JSONRPCResponse | JSONRPCError) -> None:
        """Give the reply to whoever waits for it; only the first counts."""
        if self._reply is None:
            self._reply = reply
            self._replied.set()

    async def reply(self) -> JSONRPCResponse | JSONRPCError:
        """Wait for the reply."""
        await self._replied.wait()
        assert self._reply is not None
        return self._reply

    async def result(self) -> dict[str, Any]:
        """Wait for the reply, and return the result.

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
    def one(self, outgoing: Outgoing) -> Iterator[OpenRequest]:
        """Give the request its id, under which it is open within the block.

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
        """Whether what the server says is for none but open requests; then whoever waits for that has it."""
        if isinstance(message, JSONRPCRequest):
            return False
        if not isinstance(message, JSONRPCNotification):
            request = self._find(message.id)
            if request is not None:
                request.settle(message)
            return request is not None
        if message.method != "notifications/progress":
            return False
        params = message.params or {}
        request = self._find(params.get("progressToken"))
        on_progress = None if request is None else request.outgoing.on_progress
        if on_progress is not None and (progress := progress_from_wire(params)) is not None:
            on_progress(progress)
        return True  # nobody else is told of any

    def end(self) -> None:
        """Nothing more will come: every open request learns it at once, and none is opened any more."""
        self._ended = True
        closed = ErrorData(code=CONNECTION_CLOSED, message="Connection closed")
        for request in self._open.values():
            request.settle(JSONRPCError(jsonrpc="2.0", id=request.id, error=closed))

    def _find(self, request_id: object) -> OpenRequest | None:
        if isinstance(request_id, str) and request_id.isdecimal() and len(request_id) < 20:
            request_id = int(request_id)  # some servers make every id a text
        return self._open.get(request_id) if isinstance(request_id, int) else None


def result_of(reply: JSONRPCResponse | JSONRPCError) -> dict[str, Any]:
    """The result in the reply.

    Raises:
        MCPError: it is an error.
    """
    if isinstance(reply, JSONRPCError):
        raise MCPError(reply.error.code, reply.error.message, reply.error.data)
    return reply.result


def _encoded(message: Mapping[str, Any]) -> bytes:
    try:
        return to_json(message, inf_nan_mode="null")
    except (ValueError, RecursionError) as error:
        raise Unsendable(str(error)) from error
