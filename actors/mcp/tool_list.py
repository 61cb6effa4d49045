"""The tools that a server lists, page by page, and notifications that its list has changed."""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import islice

import trio

from ...config.mcp import McpServerConfig, ToolFilter
from ...runtime.restart import Backoff, Streak
from ..tools.bearer import current_bearer
from ..tools.catalogue import admits
from ..tools.tool import Tool
from .failures import first_line, http_status, meaning
from .sdk import Client, MCPError, SubscriptionLost
from .session import Link
from .wire import MAX_LABEL, MAX_PROBLEMS, tool_from_wire

MAX_PAGES = 100
"""Pages of `tools/list` that are read."""
MAX_TOOLS = 1000
"""Of a server."""
MAX_DEFINITIONS = 2 * 1024 * 1024
"""Bytes of their definitions together, as JSON."""


async def list_tools(link: Link, config: McpServerConfig, log: logging.Logger) -> tuple[Tool, ...]:
    """Every tool the server lists that can be called, each name once, as far as there is room for them."""
    tools: dict[str, Tool] = {}
    lacks_room: dict[str, None] = {}
    link.left_out.clear()
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
                tools[tool.name] = tool_from_wire(tool, config.name)
        fitting = _fitting(tools.values(), config.tools)
        lacks_room.update((name, None) for name in tools if name not in fitting)
        tools = fitting
        cursor = page.next_cursor or None  # some servers have an empty one where there is no more
        if cursor in cursors:
            break
        cursors.add(cursor)
    else:
        log.warning("lists more than %d pages of tools; the rest is left out", MAX_PAGES)
    if lacks_room:
        names = ", ".join(name[:MAX_LABEL] for name in islice(lacks_room, MAX_PROBLEMS))
        text = f"{len(lacks_room)} tools beyond the first {MAX_TOOLS} or {MAX_DEFINITIONS} bytes: {names}"
        log.warning("left out of its tools: %s", text)
        link.left_out.append(text)
    link.tool_calls.listed(tools.values())
    secrets = link.secrets.beside(current_bearer())
    return tuple(map(secrets.tool, tools.values()))


def _fitting(tools: Collection[Tool], filter: ToolFilter) -> dict[str, Tool]:
    """By name, those that there is room for: the first ones, but none before those that the agent uses."""
    kept: set[str] = set()
    room = MAX_DEFINITIONS
    for tool in sorted(tools, key=lambda tool: not admits(filter, tool.name)):
        size = tool.size
        if len(kept) < MAX_TOOLS and size <= room:
            kept.add(tool.name)
            room -= size
    return {tool.name: tool for tool in tools if tool.name in kept}


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
