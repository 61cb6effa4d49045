"""One life of a connection to a tool server: its transport, and the link for callers."""

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

from ...config.mcp import FirstTransport, McpServerConfig
from ...config.secrets import secrets_of_values
from ..tools.masking import Secrets
from ..tools.needs import Wanted
from ..tools.tool import Tool
from .environment import NotLaunchable, launch
from .failures import first_line, http_status, meaning, worth_retrying
from .http import http_client
from .in_flight import Flights
from .in_process import InProcess
from .legacy_sse import LegacySse
from .oauth import Patient
from .requests import Requester
from .sdk import (
    LATEST_MODERN_VERSION,
    REQUEST_TIMEOUT,
    Client,
    DiscoverResult,
    Implementation,
    MCPError,
    ServerObject,
    TransportStreams,
)
from .sdk_shims import filtered, repaired
from .stdio import StdioTransport
from .streamable import StreamableHttp
from .tool_calls import CLIENT_NAME, ToolCalls, client_version
from .wire import validation_text


@attrs.define(eq=False)
class Link:
    """One life of the connection, between its owner and its callers."""

    flights: Flights
    """The calls under way, for questions that come up in them."""
    secrets: Secrets = attrs.field(factory=Secrets)
    """What the server may not be quoted with."""
    client: Client = attrs.field(init=False)
    tool_calls: ToolCalls = attrs.field(init=False)
    version: str | None = None
    """Of the protocol, once it is agreed upon."""
    left_out: list[str] = attrs.field(factory=list)
    """Which tools of the last list there are not, and why."""
    loss: str | None = None
    """Why it is lost."""
    stale: bool = False
    """The server's tools may have changed."""
    announces: bool = False
    """The server says that it tells of such changes."""
    news: trio.Event = attrs.field(factory=trio.Event)
    """Something of the above has changed; the owner looks, and waits for the next."""

    def lose(self, why: str) -> None:
        if self.loss is None:
            self.loss = why
        self.news.set()

    def refresh(self) -> None:
        """Have the tools listed again."""
        self.stale = True
        self.news.set()

    def stream_begins(self) -> None:
        """From here on the server can tell of changes; before, it may have told nobody."""
        if self.announces:
            self.refresh()

    async def wait_for_news(self) -> None:
        await self.news.wait()
        self.news = trio.Event()


@attrs.define(eq=False)
class Line:
    """The link that takes calls at present; if there is none, since when, and how often one was tried."""

    link: Link | None = None
    tools: tuple[Tool, ...] = ()
    """What the server last listed."""
    left_out: tuple[str, ...] = ()
    """Which tools of that there are not, and why."""
    wanted: Wanted | None = None
    """The server has nothing to do with us without another token."""
    error: str | None = None
    """Why there is no link, masked; None when there is one, or when nothing went wrong yet."""
    down_since: float = -math.inf
    failures: int = 0
    """Attempts to connect that have failed since."""
    wake: trio.Event = attrs.field(factory=trio.Event)
    """Set when a call waits for the next attempt."""
    _failed: float = -math.inf
    """When the last attempt that failed had begun."""
    _news: trio.Event = attrs.field(factory=trio.Event)

    def open(self, link: Link) -> None:
        """Let calls over this link."""
        self.link, self.wanted = link, None
        self.failures = 0
        self._tell()

    def close(self, link: Link) -> None:
        """Let no further call over this link."""
        if self.link is link:
            self.link = None
            self.down_since = trio.current_time()

    def fail(self, began: float, wanted: Wanted | None = None) -> None:
        """Count an attempt to connect, begun then, that failed, perhaps for want of a token."""
        self.failures += 1
        self._failed, self.wanted = began, wanted
        self._tell()

    async def wait(self, since: float, patience: float, attempts: int) -> Link | None:
        """Wait for a link, for a call that has been ready since `since`.

        None: `patience` seconds have passed; or `attempts` attempts to connect have failed, the last of which
        began after `since`; or the server wants another token. So each call has an attempt that began after
        it, and the calls of a queue are refused together, not one by one.
        """
        with trio.CancelScope(deadline=max(since, self.down_since) + patience):
            while self.link is None and self.wanted is None:
                if self.failures >= attempts:
                    if self._failed > since:
                        break
                    self.wake.set()
                await self._news.wait()
        return self.link

    def _tell(self) -> None:
        self._news.set()
        self._news = trio.Event()


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
        answered: bool = False,
        status: int | None = None,
        data: object = None,
        mistake: bool = False,
    ) -> None:
        super().__init__(reason)
        self.retry = retry
        """The server may merely not be up yet."""
        self.answered = answered
        """The server itself said no."""
        self.status = status
        """Of the HTTP response in which it did."""
        self.data = data
        """What else that said."""
        self.mistake = mistake
        """The agent file is wrong, or a file that it names."""


class NoAnswer(ConnectFailed):
    """The time was up."""


@attrs.frozen
class Manner:
    """How a server is spoken to: remembered from one life of its connection to the next."""

    kind: FirstTransport
    legacy: bool
    """With a handshake, as up to 2025-11-25."""

    @classmethod
    def first(cls, config: McpServerConfig) -> Manner:
        """What to try as long as nothing is known."""
        kind = config.first_transport
        return cls(kind, legacy=config.mode == "legacy" or (kind == "sse" and config.mode == "auto"))


@attrs.frozen
class Transport:
    """The way to a server, and who can say afterwards how that ended."""

    streams: AbstractAsyncContextManager[TransportStreams]
    """For the SDK's session."""
    requests: Requester
    """For our own."""
    account_of_end: Callable[[], str | None] = lambda: None
    last_words: Callable[[], str] = str
    doubt: Callable[[], str] = str
    """Why there may be no MCP server, to be read after how it failed."""


async def transport(
    config: McpServerConfig,
    manner: Manner,
    link: Link,
    log: logging.Logger,
    auth: httpx2.Auth | None,
    most: int,
    brought: ServerObject | None,
) -> Transport:
    """The way to the server for one life of its connection. A message of more than `most` bytes is abridged.
    `brought` is the server itself, if the program brings it.

    Raises:
        ConnectFailed: the command cannot be run, or the program brings no server.
    """
    if config.is_brought:
        if brought is None:
            raise ConnectFailed("only a program can bring it: open_agent(config, servers=...)")
        in_process = InProcess(brought, on_end=link.lose, most=most)
        return Transport(in_process.open(), in_process)
    if config.url is None:
        return await _child(config, link, log, most)
    streamable = StreamableHttp(config.url)
    http = http_client(
        headers=config.headers,
        auth=None if auth is None else Patient(auth, log),
        on_lost=link.lose,
        on_stream=link.stream_begins,
        on_session=streamable.in_session,
        max_message=most,
    )
    if manner.kind == "sse":
        sse = LegacySse(config.url, link.lose)
        return Transport(sse.open(http), sse)
    return Transport(streamable.open(http), streamable)


async def _child(config: McpServerConfig, link: Link, log: logging.Logger, most: int) -> Transport:
    try:
        command, variables = await trio.to_thread.run_sync(launch, config)
    except NotLaunchable as error:
        raise ConnectFailed(str(error), mistake=True) from error
    link.secrets.learn("env_file", secrets_of_values(variables))
    stdio = StdioTransport(
        [command, *config.args],
        env=variables | dict(config.env),
        cwd=config.cwd,
        log=log,
        on_end=link.lose,
        stderr=link.secrets.stream(),
        stdout=link.secrets.stream(),
        most=most,
    )
    return Transport(stdio.open(), stdio, stdio.account_of_end, stdio.last_words, stdio.doubt)


def client(
    config: McpServerConfig, manner: Manner, way: Transport, link: Link, log: logging.Logger
) -> Client:
    """The SDK's client on this transport; to be entered and left by one task."""

    # A version by name is taken for granted: there is no probe, and no falling back.
    otherwise = LATEST_MODERN_VERSION if config.mode == "modern" else "auto"
    return Client(
        repaired(filtered(way.streams, link.refresh, log), lambda: link.version, log, link.left_out),
        mode="legacy" if manner.legacy else otherwise,
        client_info=Implementation(name=CLIENT_NAME, version=client_version()),
        elicitation_callback=link.flights.answering(),
        cache=None,
    )


async def settle_era(client: Client, config: McpServerConfig) -> None:
    """See to it that a server which is to be modern is: what is taken for granted would fail in odd ways.

    Raises:
        MCPError: it is not, or refuses.
        ValueError: its answer is none; RuntimeError: no version that it speaks is one of ours.
    """

    while config.mode == "modern":
        try:
            raw = await client.session.send_discover(LATEST_MODERN_VERSION)
        except MCPError as error:
            if error.code == REQUEST_TIMEOUT:
                continue  # it may be slow to start; how slow is the caller's to say
            if meaning(error.code, error.message, error.data) != "answered":
                raise
            text = f"it does not speak MCP {LATEST_MODERN_VERSION}: {error.message}"
            raise MCPError(error.code, text, error.data) from error
        client.session.adopt(DiscoverResult.model_validate(raw))
        return


def connect_failure(error: BaseException | None, way: Transport, timeout: float) -> ConnectFailed:
    """Why a connection did not come to be.

    Args:
        error: what the SDK raised; None when the time was up.
    """

    account, doubt = way.account_of_end(), way.doubt()
    if account is not None:
        return ConnectFailed(account + doubt)
    if error is None:
        words = way.last_words()
        return NoAnswer(f"no answer within {timeout:g} s" + (f": {words}" if words else "") + doubt)
    if isinstance(error, ValidationError):
        return ConnectFailed(f"its answer is no valid {error.title}: {validation_text(error)}")
    if not isinstance(error, MCPError):
        return ConnectFailed(first_line(error) + doubt)
    return ConnectFailed(
        first_line(error) + doubt,
        retry=worth_retrying(error.code),
        answered=meaning(error.code, error.message, error.data) == "answered",
        status=http_status(error.code, error.data),
        data=error.data,
    )


def is_expected(error: BaseException) -> bool:
    """Whether that is how connections fail; anything else wants to be looked into."""
    of_http = httpx2.HTTPError | httpx2.InvalidURL
    return isinstance(error, MCPError | RuntimeError | ValueError | OSError | of_http)
