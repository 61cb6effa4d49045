"""The transport to a server object that the program brings, over streams in memory.

The server runs in this process, in a task of the connection or where `server_host` says, for as long as the
connection is open:

    InProcess.request --> self._writes --> InMemoryTransport --> the server object
    open requests and session <-- _pump (via JSON) <-- reads <--/

Its messages are encoded to JSON and decoded again, so that they are bounded like those of other servers, and
neither side keeps references to the other's values. An exception of the server's code ends the connection
and never the program (`_may_pass`).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any

import anyio
import attrs
import trio
from anyio.streams.memory import MemoryObjectSendStream

from ....config.described.wording import nearest
from ....config.sections.agent_config import MAX_STORED_BYTES, AgentConfig
from ....config.sections.mcp import BROUGHT, NAME, McpServerConfig
from ....config.text.errors import ConfigError, Problem
from ....config.text.values import quoted
from ....runtime.errors import leaf
from ...common.server_host import server_host
from ..wire.failures import UNREACHABLE
from ..wire.incoming import parse_message
from ..wire.message_bound import BoundedMessage
from ..wire.requests import Outgoing, Requests
from ..wire.sdk import (
    ContextReceiveStream,
    InMemoryTransport,
    JSONRPCMessage,
    MCPError,
    MCPServer,
    ReadStream,
    Server,
    ServerObject,
    SessionMessage,
    TransportStreams,
    WriteStream,
)
from ..wire.sdk_shims import Tagged
from .foreign_loop import listening, with_reason
from .in_flight import note_withdrawal

GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError)
CANCEL_TIMEOUT = 5.0
"""Seconds for the server to read the notification that a call is cancelled."""


class InProcess:
    """The transport to a server object."""

    def __init__(
        self, server: ServerObject, *, on_end: Callable[[str], None], max_message: int = MAX_STORED_BYTES
    ) -> None:
        """
        Args:
            on_end: called with the reason when no further message can arrive.
            max_message: bytes of a message; a longer one is abridged.
        """
        self._server = server
        self._on_end = on_end
        self._message = BoundedMessage(max_message)
        self._requests = Requests()
        self._writes: WriteStream[SessionMessage]
        self._nursery: trio.Nursery | None = None
        """Set while the connection is open."""

    @asynccontextmanager
    async def open(self) -> AsyncIterator[TransportStreams]:
        """Run the server for the length of a block, and exchange messages with it.

        Raises:
            RuntimeError: the server's code raised `SystemExit` or another exception that is not an
                `Exception`, such as asyncio's `CancelledError`. Other exceptions are raised in a group.
        """

        incoming, merged = anyio.create_memory_object_stream[Tagged](0)
        try:
            with incoming, merged:
                async with trio.open_nursery() as nursery:
                    host = server_host.get()
                    async with host(InMemoryTransport(self._server)) as (reads, self._writes):
                        nursery.start_soon(self._pump, reads, incoming)
                        self._nursery = nursery
                        try:
                            yield ContextReceiveStream(merged), self._writes
                        finally:
                            self._nursery = None
                            self._requests.end()
                    nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            rest, strays = group.split(_may_pass)
            if strays is None:
                raise
            error = leaf(strays)
            ended = RuntimeError(f"its code raised {type(error).__name__}")
            raise (ended if rest is None else BaseExceptionGroup("it has ended", (rest, ended))) from error

    async def request(self, outgoing: Outgoing) -> dict[str, Any]:
        """See `Requester`."""
        with self._requests.open(outgoing) as request, listening() as reasons:
            message = _session_message(request.body())
            try:
                await self._writes.send(message)
            except trio.Cancelled:
                note_withdrawal()
                raise
            except GONE as error:
                raise MCPError(UNREACHABLE, "the connection is closed", {"sent": False}) from error
            try:
                return with_reason(await request.result(), reasons)
            except trio.Cancelled:
                if self._nursery is not None:
                    self._nursery.start_soon(self._cancel, request.cancellation())
                raise

    async def _cancel(self, notification: bytes) -> None:
        with trio.move_on_after(CANCEL_TIMEOUT), suppress(*GONE):
            await self._writes.send(_session_message(notification))

    async def _pump(
        self, reads: ReadStream[SessionMessage | Exception], incoming: MemoryObjectSendStream[Tagged]
    ) -> None:
        try:
            async for item in reads:
                # The context of the current request tells which call a question belongs to.
                context = getattr(reads, "last_context", None) or copy_context()
                if (message := item if isinstance(item, Exception) else self._taken(item)) is not None:
                    await incoming.send((context, message))
        except GONE:
            pass  # the session has ended
        finally:
            self._on_end("it has ended")
            self._requests.end()
            incoming.close()

    def _taken(self, item: SessionMessage) -> SessionMessage | None:
        """Encode and decode a message, as if another process sent it; None if an open request took it."""

        self._message.add(_encoded(item.message))
        message = parse_message(self._message.take())
        return None if message is None or self._requests.take(message) else SessionMessage(message)


def _may_pass(error: BaseException) -> bool:
    """Whether an exception of the server's code may pass: it is handled, or it must end the program."""
    return isinstance(error, Exception | trio.Cancelled | KeyboardInterrupt)


def _encoded(message: JSONRPCMessage) -> bytes:
    try:
        return message.model_dump_json(by_alias=True, exclude_unset=True).encode()
    except ValueError:
        # Half of a surrogate pair, as in a file name that is not UTF-8; the parser replaces it.
        return json.dumps(message.model_dump(by_alias=True, exclude_unset=True)).encode()


def _session_message(body: bytes) -> SessionMessage:

    message = parse_message(body)
    assert message is not None
    return SessionMessage(message)


# ------------------------------------------------------------- the servers that a program brings


def with_servers(
    config: AgentConfig, servers: Mapping[str, ServerObject], *, all_of_them: bool = True
) -> AgentConfig:
    """Return the configuration with an entry for each server that the program brings.

    Args:
        all_of_them: every server that the agent file leaves to the program must be among `servers`; if
            False, other code opens the rest.

    Raises:
        ConfigError: a name is invalid or taken, an object is not a server, or a server is missing.
    """
    if problems := tuple(_problems(config, servers, all_of_them)):
        raise ConfigError(problems)
    known = {server.name for server in config.mcp_servers}
    added = (McpServerConfig(name, as_written=BROUGHT) for name in servers if name not in known)
    return attrs.evolve(config, mcp_servers=(*config.mcp_servers, *added))


def _problems(
    config: AgentConfig, servers: Mapping[str, ServerObject], all_of_them: bool
) -> Iterator[Problem]:

    def problem(code: str, message: str, hint: str, name: str = "") -> Problem:
        return Problem(code, message, "open_agent(servers=...)", key=name, hint=hint)

    if not isinstance(servers, Mapping):
        hint = 'write servers={"calc": server}'
        yield problem("wrong_type", f"expected servers by their names, found {_kind(servers)}", hint)
        return
    entries = {server.name: server for server in config.mcp_servers}
    for name, server in servers.items():
        if not isinstance(name, str) or not re.fullmatch(NAME, name):
            hint = "letters, digits, _ and - are allowed"
            yield problem("bad_format", f"{quoted(str(name))} is no name of a server", hint)
            continue
        if not isinstance(server, MCPServer | Server):
            hint = "make it one: server = mcp.server.MCPServer(...), and @server.tool() above each function"
            message = f"expected a server object of the mcp SDK, found {_kind(server)}"
            yield problem("wrong_type", message, hint, name)
        if name in entries and not entries[name].is_brought:
            hint = "take another name, or write brought_by: program in the file, in place of url and command"
            yield problem("duplicate_name", "the agent file has a server of this name already", hint, name)
    for entry in config.enabled_servers:
        if all_of_them and entry.is_brought and entry.name not in servers:
            names = filter(lambda name: isinstance(name, str), servers)
            hint = nearest(entry.name, names) or f'open_agent(config, servers={{"{entry.name}": server}})'
            message = "the program has to bring this server, and does not"
            yield problem("missing_server", message, hint, entry.name)


def _kind(value: object) -> str:
    return f"an object of {type(value).__name__}"
