"""The actor that owns one MCP tool server.

Losing the connection is a state it repairs, not a crash. What it cannot repair is a server that
does not start: that is the starter's error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, assert_never

import trio

from ...config.agent_config import MAX_STORED_BYTES
from ...config.mcp import McpServerConfig
from ...runtime.context import Behaviour, Context
from ..tools.server_status import ServerStatus
from ..tools.tool import Authenticate, CallTool, ListTools, ServerMessage

if TYPE_CHECKING:
    from .sdk import ServerObject

slow_start = logging.getLogger("stopgo.mcp.slow_start")
"""A logger of its own, so that commands which hide the log can show these warnings."""
SLOW = 10.0
"""Seconds without a first connection before a warning."""

HANDLERS = 1024
"""Calls in hand at the same time. Callers hold a place each of the server's `max_concurrency`, except while
a human thinks about what the server asks in the middle of a call."""


def _nobody(status: ServerStatus) -> None:
    """Reports go nowhere."""


def mcp_server(
    config: McpServerConfig,
    *,
    report: Callable[[ServerStatus], None] = _nobody,
    max_stored_bytes: int = MAX_STORED_BYTES,
    brought: ServerObject | None = None,
) -> Behaviour[ServerMessage]:
    """Serve the tools of one server.

    Args:
        report: called at every change of state or tools; must not wait.
        max_stored_bytes: of a result; of one that is longer, only the beginning of its text is kept.
        brought: the server itself, if the program brings it.

    The behaviour raises `ServerStartFailed`, before it serves, when the first connection cannot be
    made within `config.connect_timeout`. Stopping it takes the child process with it.
    """

    async def behaviour(ctx: Context[ServerMessage]) -> None:
        # In a thread, because it takes seconds on a busy machine; the event loop keeps running.
        await trio.to_thread.run_sync(import_module, ".sdk", __package__)
        from .caller import Caller
        from .connection import Connection

        connection = Connection(config, report, most=max_stored_bytes, brought=brought)
        caller = Caller(config, connection.line, connection.authenticate, connection.secrets)
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
                    return connection.line.tools
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
