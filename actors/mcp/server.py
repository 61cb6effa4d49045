"""The actor that owns one MCP tool server.

A lost connection is not a crash: the actor repairs it. A server that cannot be reached at the start is an
error of the start. This file loads the rest of the package, and with it the MCP SDK, when the first server
starts (see `sdk.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, assert_never

import trio

from ...config.sections.agent_config import MAX_STORED_BYTES
from ...config.sections.mcp import McpServerConfig
from ...runtime.context import Behaviour, Context
from ..servers.server_status import ServerStatus
from ..tools.tool import Authenticate, CallTool, ListTools, ServerMessage

if TYPE_CHECKING:
    from .modes import Modes
    from .wire.sdk import ServerObject

slow_start = logging.getLogger("stopgo.mcp.slow_start")
"""A logger of its own, so that commands which hide the log can show these warnings."""
SLOW = 10.0
"""Seconds without a first connection before a warning."""

HANDLERS = 1024
"""Concurrent calls of the actor. The server's `max_concurrency` is enforced by slots, which each call holds,
except while a human answers a question of the server."""


def _ignore(status: ServerStatus) -> None:
    """Drop the report."""


def mcp_server(
    config: McpServerConfig,
    *,
    report: Callable[[ServerStatus], None] = _ignore,
    max_stored_bytes: int = MAX_STORED_BYTES,
    brought: ServerObject | None = None,
    modes: Modes | None = None,
) -> Behaviour[ServerMessage]:
    """Serve the tools of one server.

    Args:
        report: called at every change of state or tools; must not block.
        max_stored_bytes: of a result; only the beginning of a longer result's text is kept.
        brought: the server itself, if the program brings it.
        modes: remembers the mode of a command; None: each start asks for it.

    The behaviour raises `ServerStartFailed`, before it serves, if the first connection cannot be made within
    `config.connect_timeout`. Stopping it stops the child process.
    """

    async def behaviour(ctx: Context[ServerMessage]) -> None:
        # In a thread, because it takes seconds on a busy machine; the event loop keeps running.
        await trio.to_thread.run_sync(import_module, ".wire.sdk", __package__)
        from .caller import ToolCaller
        from .connection import ServerConnection

        connection = ServerConnection(
            config, report, max_message=max_stored_bytes, brought=brought, modes=modes
        )
        caller = ToolCaller(config, connection.current, connection.authenticate, connection.secrets)
        ctx.start_soon(connection.run)
        ctx.start_soon(_warn_when_slow, config, connection.first_attempt)
        await connection.started()

        async def handle(message: ServerMessage) -> object:
            match message:
                case CallTool():
                    return await caller.call(message)
                case Authenticate(bearer=bearer):
                    await connection.authenticate(bearer)
                    return None
                case ListTools():
                    return connection.current.tools
                case _:
                    assert_never(message)

        await ctx.serve(handle, concurrency=HANDLERS)
        await connection.stop()

    return behaviour


async def _warn_when_slow(config: McpServerConfig, first_attempt: trio.Event) -> None:
    """Warn once if the first connection takes long."""
    with trio.move_on_after(SLOW):
        await first_attempt.wait()
        return
    first = " (the first start of npx or uvx downloads the server)" if config.command else ""
    slow_start.warning(
        'MCP server "%s": no answer from %s yet; waiting up to %g s, its connect_timeout%s',
        config.name,
        config.as_written or "it",
        config.connect_timeout,
        first,
    )
