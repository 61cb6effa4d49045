"""The tools that a server lists, page by page, and notifications that its list has changed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import trio

from ...runtime.restart import Backoff, Streak
from ..tools.tool import Tool
from .bearer import current_bearer
from .failures import first_line, http_status, meaning
from .session import Link
from .wire import tool_from_wire

if TYPE_CHECKING:
    from mcp import Client

MAX_PAGES = 100
"""Pages of `tools/list` that are read."""


async def list_tools(link: Link, server: str, log: logging.Logger) -> tuple[Tool, ...]:
    """Every tool the server lists that can be called, each name once."""
    tools: dict[str, Tool] = {}
    cursors: set[str | None] = {None}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await link.client.list_tools(cursor=cursor)
        for tool in page.tools:
            if tool.name in tools:
                log.warning('lists the tool "%s" twice; the first one counts', tool.name)
            elif tool.execution is not None and tool.execution.task_support == "required":
                log.info('left out the tool "%s": it can only be called as a task', tool.name)
            else:
                tools[tool.name] = tool_from_wire(tool, server)
        cursor = page.next_cursor or None  # some servers have an empty one where there is no more
        if cursor in cursors:
            break
        cursors.add(cursor)
    else:
        log.warning("lists more than %d pages of tools; the rest is left out", MAX_PAGES)
    link.tool_calls.listed(tools.values())
    secrets = link.secrets.beside(current_bearer())
    return tuple(map(secrets.tool, tools.values()))


# ----------------------------------------------------------------- changes

LISTEN_AGAIN = Backoff(first=0.25, factor=4.0, limit=300.0, healthy=10.0, jitter=0.5)


def tells_of_changes(client: Client) -> bool:
    """Whether the server says that it tells of changed tools."""
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def listen_for_changes(link: Link) -> None:
    """Have the tools listed again at every change, and after every time in which one may have been missed.

    For servers of the 2026 protocol, which tell only clients that listen.

    Ends when the server itself will not have it, or is gone.
    """
    from mcp import MCPError
    from mcp.client.subscriptions import SubscriptionLost

    streak = Streak(LISTEN_AGAIN)
    while True:
        began = trio.current_time()
        try:
            async with link.client.listen(tools_list_changed=True) as changes:
                link.refresh()  # what changed before was told to nobody
                async for _ in changes:
                    link.refresh()
        except MCPError as error:
            match meaning(error.code, error.message, error.data):
                case "answered" if http_status(error.code, error.data) is None:
                    return
                case "answered":
                    pass  # something in front of it: it may be too busy, or want a token
                case "never_ran" | "connection_lost":
                    link.lose(first_line(error))
                    return
                case "reply_lost" | "outcome_unknown":
                    pass
        except SubscriptionLost:
            pass
        await trio.sleep(streak.fail(trio.current_time() - began))
