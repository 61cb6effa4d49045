"""One connection to a tool server: how it is opened, and the state that its owner and callers share.

`ServerConnection` (connection.py) owns the connections of a server, one after the other. For each it makes

1. a `Transport` (`transport_for`), which carries two kinds of traffic: `streams` for the SDK's session, and
   `requests` for tool calls, which bypass the session;
2. the SDK's `Client` on these streams (`client`), which negotiates and lists tools;
3. a `Link`, the state of this connection.

`CurrentLink` outlives the connections. It says which link takes calls now, or how long there has been none.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus

import attrs
import httpx2
import trio
from pydantic import ValidationError

from ...config.sections.mcp import FirstTransport, McpServerConfig
from ...config.sections.secrets import secrets_of_values, weak_values
from ..servers.masking import WEAK_SECRET, Secrets
from ..tools.needs import Wanted
from ..tools.tool import Tool
from .transports.environment import NotLaunchable, launch
from .transports.http import http_client
from .transports.in_flight import InFlightCalls
from .transports.in_process import InProcess
from .transports.legacy_sse import LegacySse
from .transports.oauth import ContainedAuth
from .transports.stdio import StdioTransport
from .transports.streamable import StreamableHttp
from .wire.failures import first_line, http_status, meaning, worth_retrying
from .wire.requests import Requester
from .wire.sdk import (
    LATEST_MODERN_VERSION,
    REQUEST_TIMEOUT,
    Client,
    DiscoverResult,
    Implementation,
    MCPError,
    ServerObject,
    TransportStreams,
)
from .wire.sdk_shims import filtered, repaired
from .wire.tool_calls import CLIENT_NAME, ToolCalls, client_version
from .wire.wire import validation_text


@attrs.define(eq=False)
class Link:
    """The state of one connection, shared by its owner and its callers."""

    in_flight: InFlightCalls
    """The in-flight calls, to which the server's questions belong."""
    secrets: Secrets = attrs.field(factory=Secrets)
    """Masked in everything that quotes the server."""
    client: Client = attrs.field(init=False)
    tool_calls: ToolCalls = attrs.field(init=False)
    version: str | None = None
    """The protocol version, once it is negotiated."""
    left_out: list[str] = attrs.field(factory=list)
    """Tools of the last list that are not offered, each with the reason."""
    loss: str | None = None
    """Why the connection is lost; None while it is not."""
    stale: bool = False
    """The server's tools may have changed since they were listed."""
    listing: bool = False
    """The owner lists the tools again."""
    doubtful: bool = False
    """The answer to a call may mean that the connection is lost; listing the tools shows it."""
    announces_changes: bool = False
    """The server declares that it announces changed tools."""
    changed: trio.Event = attrs.field(factory=trio.Event)
    """Set when one of the above has changed; the owner replaces it."""

    @property
    def is_outdated(self) -> bool:
        """Whether the known tools may differ from those that the server has now."""
        return self.stale or self.listing

    def lose(self, why: str) -> None:
        """Record that the connection is lost; the first reason counts."""
        if self.loss is None:
            self.loss = why
        self.changed.set()

    def refresh(self) -> None:
        """Have the owner list the tools again."""
        self.stale = True
        self.changed.set()

    def doubt(self) -> None:
        """Have the owner list the tools again; if that fails, the connection is lost."""
        self.doubtful = True
        self.refresh()

    def stream_begins(self) -> None:
        """List the tools again: before its stream began, the server could not announce a change."""
        if self.announces_changes:
            self.refresh()

    async def wait_for_change(self) -> None:
        """For the owner: wait until something has changed."""
        await self.changed.wait()
        self.changed = trio.Event()


@attrs.define(eq=False)
class CurrentLink:
    """The link that takes calls now; without one, the attempts to connect since the last."""

    link: Link | None = None
    tools: tuple[Tool, ...] = ()
    """The tools that the server last listed."""
    left_out: tuple[str, ...] = ()
    """Tools of that list that are not offered, each with the reason."""
    wanted: Wanted | None = None
    """The server admits no connection without another token."""
    error: str | None = None
    """Why there is no link, masked; None if there is one, or no attempt has failed yet."""
    down_since: float = -math.inf
    failures: int = 0
    """Failed attempts to connect since then."""
    wake: trio.Event = attrs.field(factory=trio.Event)
    """Set when a call waits for the next attempt."""
    _last_failure_began: float = -math.inf
    """When the last failed attempt began."""
    _may_be_starting: bool = False
    """Whether it failed as it does while a server restarts."""
    _changed: trio.Event = attrs.field(factory=trio.Event)

    def open(self, link: Link) -> None:
        """Admit calls to this link."""
        self.link, self.wanted = link, None
        self.failures = 0
        self._notify()

    def close(self, link: Link) -> None:
        """Admit no further calls to this link."""
        if self.link is link:
            self.link = None
            self.down_since = trio.current_time()

    def fail(self, began: float, wanted: Wanted | None = None, *, may_be_starting: bool = False) -> None:
        """Count a failed attempt to connect that began at this time. `wanted`: the token it lacked."""
        self.failures += 1
        self._last_failure_began, self.wanted, self._may_be_starting = began, wanted, may_be_starting
        self._notify()

    async def wait(self, since: float, patience: float, attempts: int, retry_for: float = 0.0) -> Link | None:
        """Wait for a link, for a call that has been ready since `since`.

        Returns None in three cases: `patience` seconds have passed; the server wants another token; or
        `attempts` attempts have failed, of which the last began after `since`, and, if the server may be
        starting, `retry_for` seconds have passed. So at least one attempt begins after each call, and waiting
        calls fail together, not one by one.
        """
        began = max(since, self.down_since)
        with trio.CancelScope(deadline=began + patience):
            while self.link is None and self.wanted is None:
                if self.failures >= attempts:
                    is_starting = self._may_be_starting and trio.current_time() < began + retry_for
                    if self._last_failure_began > since and not is_starting:
                        break
                    self.wake.set()
                await self._changed.wait()
        return self.link

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()


# ----------------------------------------------------------------- opening a connection

NOT_SPOKEN = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""How a server of the older HTTP kind answers a POST (MCP 2025-11-25, "Backwards Compatibility")."""


class ConnectFailed(Exception):
    """An attempt to connect failed; the text is the reason."""

    def __init__(
        self,
        reason: str,
        *,
        retry: bool = False,
        refused: bool = False,
        status: int | None = None,
        data: object = None,
        mistake: bool = False,
    ) -> None:
        super().__init__(reason)
        self.retry = retry
        """The server may still be starting."""
        self.refused = refused
        """The server itself refused."""
        self.status = status
        """The HTTP status of that refusal."""
        self.data = data
        """The data of its JSON-RPC error."""
        self.died = False
        """The command ended before it had said which protocol it speaks."""
        self.mistake = mistake
        """The cause is a mistake in the agent file, or in a file that it names."""


class NoReply(ConnectFailed):
    """The server did not answer in time."""


@attrs.frozen
class SessionDialect:
    """How to speak to a server; remembered from one connection to the next."""

    kind: FirstTransport
    legacy: bool
    """Begin with a handshake, as in versions up to 2025-11-25."""

    @classmethod
    def first(cls, config: McpServerConfig) -> SessionDialect:
        """Return the dialect to try while nothing is known about the server."""
        kind = config.first_transport
        return cls(kind, legacy=config.mode == "legacy" or (kind == "sse" and config.mode == "auto"))


@attrs.frozen
class Transport:
    """A connection that is not open yet, and functions that explain afterwards how it ended."""

    streams: AbstractAsyncContextManager[TransportStreams]
    """The messages of the SDK's session."""
    requests: Requester
    """The tool calls."""
    exit_report: Callable[[], str | None] = lambda: None
    """How the server's process exited, if it did."""
    stderr_tail: Callable[[], str] = str
    not_mcp_hint: Callable[[], str] = str
    """A suffix for an error: why the program may not be an MCP server."""


async def transport_for(
    config: McpServerConfig,
    dialect: SessionDialect,
    link: Link,
    log: logging.Logger,
    auth: httpx2.Auth | None,
    max_message: int,
    brought: ServerObject | None,
) -> Transport:
    """Make the transport for one connection.

    Args:
        max_message: bytes of a message; a longer one is abridged.
        brought: the server itself, if the program brings it.

    Raises:
        ConnectFailed: the command cannot be run, or the program brings no server.
    """
    if config.is_brought:
        if brought is None:
            raise ConnectFailed("only a program can bring it: open_agent(config, servers=...)")
        in_process = InProcess(brought, on_end=link.lose, max_message=max_message)
        return Transport(in_process.open(), in_process)
    if config.url is None:
        return await _child(config, link, log, max_message)
    streamable = StreamableHttp(config.url, link.doubt)
    http = http_client(
        headers=config.headers,
        auth=None if auth is None else ContainedAuth(auth, log),
        on_lost=link.lose,
        on_stream=link.stream_begins,
        on_session=streamable.in_session,
        max_message=max_message,
    )
    if dialect.kind == "sse":
        sse = LegacySse(config.url, link.lose)
        return Transport(sse.open(http), sse)
    return Transport(streamable.open(http), streamable)


async def _child(config: McpServerConfig, link: Link, log: logging.Logger, max_message: int) -> Transport:
    try:
        command, variables = await trio.to_thread.run_sync(launch, config)
    except NotLaunchable as error:
        raise ConnectFailed(str(error), mistake=True) from error
    link.secrets.learn_written("env_file", secrets_of_values(variables))
    for name, reason in weak_values(variables):
        log.info(WEAK_SECRET, name, reason)
    stdio = StdioTransport(
        [command, *config.args],
        env=variables | dict(config.env),
        cwd=config.cwd,
        log=log,
        on_end=link.lose,
        stderr=link.secrets.stream(),
        stdout=link.secrets.stream(),
        max_message=max_message,
    )
    return Transport(stdio.open(), stdio, stdio.exit_report, stdio.stderr_tail, stdio.not_mcp_hint)


def client(
    config: McpServerConfig, dialect: SessionDialect, transport: Transport, link: Link, log: logging.Logger
) -> Client:
    """Make the SDK's client on this transport. One task must enter and leave it."""
    # Given a version, the SDK neither probes the server nor falls back.
    modern = LATEST_MODERN_VERSION if config.mode == "modern" else "auto"
    return Client(
        repaired(filtered(transport.streams, link.refresh, log), lambda: link.version, log, link.left_out),
        mode="legacy" if dialect.legacy else modern,
        client_info=Implementation(name=CLIENT_NAME, version=client_version()),
        elicitation_callback=link.in_flight.answering(),
        cache=None,
    )


async def verify_modern(client: Client, config: McpServerConfig) -> None:
    """With `mode: modern`, verify that the server speaks it, because the SDK does not.

    Raises:
        MCPError: the server does not, or refuses.
        ValueError: its answer is not valid; RuntimeError: we support none of its versions.
    """
    while config.mode == "modern":
        try:
            raw = await client.session.send_discover(LATEST_MODERN_VERSION)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                continue  # it may be starting; the caller limits how long that takes
            if meaning(error.code, error.message, error.data) != "answered":
                raise
            text = f"it does not speak MCP {LATEST_MODERN_VERSION}: {error.message}"
            raise MCPError(error.code, text, error.data) from error
        client.session.adopt(DiscoverResult.model_validate(raw))
        return


def connect_failure(error: BaseException | None, transport: Transport, timeout: float) -> ConnectFailed:
    """Return the reason why a connection was not made.

    Args:
        error: the exception of the SDK; None if the time ran out.
        timeout: that time, in seconds.
    """
    report, hint = transport.exit_report(), transport.not_mcp_hint()
    if report is not None:
        return ConnectFailed(report + hint)
    if error is None:
        tail = transport.stderr_tail()
        return NoReply(f"no answer within {timeout:g} s" + (f": {tail}" if tail else "") + hint)
    if isinstance(error, ValidationError):
        return ConnectFailed(f"its answer is no valid {error.title}: {validation_text(error)}")
    if not isinstance(error, MCPError):
        return ConnectFailed(first_line(error) + hint)
    return ConnectFailed(
        first_line(error) + hint,
        retry=worth_retrying(error.code),
        refused=meaning(error.code, error.message, error.data) == "answered",
        status=http_status(error.code, error.data),
        data=error.data,
    )


def is_expected(error: BaseException) -> bool:
    """Whether connections normally fail like this; other errors are logged with a traceback."""
    of_http = httpx2.HTTPError | httpx2.InvalidURL
    return isinstance(error, MCPError | RuntimeError | ValueError | OSError | of_http)
