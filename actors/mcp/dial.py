"""How a server is reached: the transport its configuration asks for, and the SDK's client on top."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from http import HTTPStatus
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs
import trio

from stopgo.actors.mcp.command import CommandNotFound, find_command
from stopgo.actors.mcp.content import validation_text
from stopgo.actors.mcp.environment import EnvFileError, read_env_file
from stopgo.actors.mcp.failures import first_line, http_status, meaning, worth_retrying
from stopgo.actors.mcp.link import Link
from stopgo.actors.mcp.listing import repaired
from stopgo.actors.mcp.sifted import sifted
from stopgo.config.mcp import McpServerConfig

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.client._transport import TransportStreams

    from stopgo.actors.mcp.requests import Requester

Kind: TypeAlias = Literal["stdio", "http", "sse"]

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


class NoAnswer(ConnectFailed):
    """The time was up."""


@attrs.frozen
class Manner:
    """How a server is spoken to: remembered from one life of its connection to the next."""

    kind: Kind
    legacy: bool
    """With a handshake, as up to 2025-11-25."""

    @classmethod
    def first(cls, config: McpServerConfig) -> Manner:
        """What to try as long as nothing is known."""
        kind = config.transport or ("http" if config.command is None else "stdio")
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


async def transport(
    config: McpServerConfig, manner: Manner, link: Link, log: logging.Logger, auth: httpx2.Auth | None
) -> Transport:
    """The way to the server for one life of its connection.

    Raises:
        ConnectFailed: there is no such command, or its `env_file` is of no use.
    """
    if config.url is None:
        return await _child(config, link, log)
    from stopgo.actors.mcp.auth import Patient
    from stopgo.actors.mcp.http import http_client
    from stopgo.actors.mcp.sse import LegacySse
    from stopgo.actors.mcp.streamable import StreamableHttp

    streamable = StreamableHttp(config.url)
    http = http_client(
        headers=config.headers,
        auth=None if auth is None else Patient(auth, log),
        on_lost=link.lose,
        on_stream=link.stream_begins,
        on_session=streamable.in_session,
    )
    if manner.kind == "sse":
        sse = LegacySse(config.url, link.lose)
        return Transport(sse.open(http), sse)
    return Transport(streamable.open(http), streamable)


async def _child(config: McpServerConfig, link: Link, log: logging.Logger) -> Transport:
    from stopgo.actors.mcp.stdio import StdioTransport

    assert config.command is not None
    env = dict(config.env)
    try:
        if config.env_file is not None:
            env = await trio.to_thread.run_sync(read_env_file, config.env_file) | env
        command = find_command(config.command, search_path=env.get("PATH"))
    except (CommandNotFound, EnvFileError) as error:
        raise ConnectFailed(str(error)) from error
    stdio = StdioTransport([command, *config.args], env=env, cwd=config.cwd, log=log, on_end=link.lose)
    return Transport(stdio.open(), stdio, stdio.account_of_end, stdio.last_words)


def client(
    config: McpServerConfig, manner: Manner, way: Transport, link: Link, log: logging.Logger
) -> Client:
    """The SDK's client on this transport; to be entered and left by one task."""
    from mcp import Client
    from mcp_types import Implementation
    from mcp_types.version import LATEST_MODERN_VERSION

    from stopgo.actors.mcp.tool_calls import CLIENT_NAME, client_version

    # A version by name is taken for granted: there is no probe, and no falling back.
    otherwise = LATEST_MODERN_VERSION if config.mode == "modern" else "auto"
    return Client(
        repaired(sifted(way.streams, link.refresh, log), lambda: link.version, log),
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
    from mcp import MCPError
    from mcp_types import REQUEST_TIMEOUT, DiscoverResult
    from mcp_types.version import LATEST_MODERN_VERSION

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
    from mcp import MCPError
    from pydantic import ValidationError

    account = way.account_of_end()
    if account is not None:
        return ConnectFailed(account)
    if error is None:
        words = way.last_words()
        return NoAnswer(f"no answer within {timeout:g} s" + (f": {words}" if words else ""))
    if isinstance(error, ValidationError):
        return ConnectFailed(f"its answer is no valid {error.title}: {validation_text(error)}")
    if not isinstance(error, MCPError):
        return ConnectFailed(first_line(error))
    return ConnectFailed(
        first_line(error),
        retry=worth_retrying(error.code),
        answered=meaning(error.code, error.message, error.data) == "answered",
        status=http_status(error.code, error.data),
        data=error.data,
    )


def is_expected(error: BaseException) -> bool:
    """Whether that is how connections fail; anything else wants to be looked into."""
    import httpx2
    from mcp import MCPError

    of_http = httpx2.HTTPError | httpx2.InvalidURL
    return isinstance(error, MCPError | RuntimeError | ValueError | OSError | of_http)
