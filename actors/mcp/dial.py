"""How a server is reached: the transport its configuration asks for, and the SDK's client on top."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from stopgo.actors.mcp.command import CommandNotFound, find_command
from stopgo.actors.mcp.failures import first_line, worth_retrying
from stopgo.actors.mcp.link import Link
from stopgo.actors.mcp.listing import repaired
from stopgo.actors.mcp.stdio import StdioTransport
from stopgo.config.model import McpServerConfig

if TYPE_CHECKING:
    from mcp import Client
    from mcp.client._transport import TransportStreams
    from mcp.client.session import IncomingMessage

Mode: TypeAlias = Literal["auto", "legacy"]


class ConnectFailed(Exception):
    """An attempt to connect failed; the text is the reason."""

    def __init__(self, reason: str, *, retry: bool = False) -> None:
        super().__init__(reason)
        self.retry = retry
        """The server may merely not be up yet."""


class NoAnswer(ConnectFailed):
    """The time was up."""


@attrs.frozen
class Transport:
    """The way to a server, and who can say afterwards how that ended."""

    streams: AbstractAsyncContextManager[TransportStreams]
    account_of_end: Callable[[], str | None] = lambda: None


def transport(config: McpServerConfig, link: Link, log: logging.Logger) -> Transport:
    """The way to the server for one life of its connection.

    Raises:
        ConnectFailed: there is no such command.
    """
    if config.url is not None:
        from stopgo.actors.mcp.http import streamable_http

        return Transport(streamable_http(config.url, max_connections=config.max_concurrency))
    assert config.command is not None
    try:
        command = find_command(config.command, search_path=config.env.get("PATH"))
    except CommandNotFound as error:
        raise ConnectFailed(str(error)) from error
    stdio = StdioTransport(
        [command, *config.args],
        env=config.env,
        log=log,
        on_end=lambda: link.lose("its output ended"),
    )
    return Transport(stdio.open(), stdio.account_of_end)


def client(transport: Transport, link: Link, mode: Mode, log: logging.Logger) -> Client:
    """The SDK's client on this transport; to be entered and left by one task."""
    from mcp import Client
    from mcp_types import Implementation, ToolListChangedNotification

    async def on_message(message: IncomingMessage) -> None:
        if isinstance(message, ToolListChangedNotification):
            link.stale = True
            link.news.set()

    return Client(
        repaired(transport.streams, lambda: link.client.protocol_version, log),
        mode=mode,
        client_info=Implementation(name="stopgo", version=version("agent-stop-and-go")),
        message_handler=on_message,
        cache=None,
    )


def connect_failure(error: BaseException | None, account: str | None, timeout: float) -> ConnectFailed:
    """Why a connection did not come to be.

    Args:
        error: what the SDK raised; None when the time was up.
        account: how the transport says that it ended.
    """
    from mcp import MCPError

    if account is not None:
        return ConnectFailed(account)
    if error is None:
        return NoAnswer(f"no answer within {timeout:g} s")
    retry = isinstance(error, MCPError) and worth_retrying(error.code)
    return ConnectFailed(first_line(error), retry=retry)


def is_expected(error: BaseException) -> bool:
    """Whether that is how connections fail; anything else wants to be looked into."""
    import httpx2
    from mcp import MCPError

    return isinstance(error, MCPError | RuntimeError | ValueError | OSError | httpx2.HTTPError)
