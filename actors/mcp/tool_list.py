"""Lists the tools of a server, page by page, and listens for changes of the list."""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import islice

import trio

from ...config.sections.mcp import McpServerConfig, ToolFilter
from ...runtime.restart import Backoff, Streak
from ..servers.bearer import current_bearer
from ..tools.catalogue import admits
from ..tools.tool import Tool
from .session import Link
from .wire.failures import first_line, http_status, meaning
from .wire.sdk import Client, MCPError, SubscriptionLost, types
from .wire.wire import MAX_LABEL, MAX_PROBLEMS, tool_from_wire

METHOD_NOT_FOUND = -32601
NO_TOOLS = "it offers no tools"
MAX_PAGES = 100
"""Pages of `tools/list` that are read; further pages are left out."""
MAX_TOOLS = 1000
"""Tools of one server."""
MAX_DEFINITIONS = 2 * 1024 * 1024
"""Bytes of all definitions of one server together, as JSON."""


async def list_tools(link: Link, config: McpServerConfig, log: logging.Logger) -> tuple[Tool, ...]:
    """Return the tools that can be called, each name once, within the limits above."""
    tools: dict[str, Tool] = {}
    too_many: dict[str, None] = {}
    link.left_out.clear()
    cursors: set[str | None] = {None}
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await _page(link.client, cursor)
        if page is None:
            log.warning('the server "%s" offers no tools', config.name)
            link.left_out.append(NO_TOOLS)
            break
        for tool in page.tools:
            if tool.name in tools:
                log.warning('lists the tool "%s" twice; the first one counts', tool.name)
            elif tool.execution is not None and tool.execution.task_support == "required":
                log.info('left out the tool "%s": it can only be called as a task', tool.name)
            else:
                tools[tool.name] = tool_from_wire(tool, config.name)
        fitting = _fitting(tools.values(), config.tools)
        too_many.update((name, None) for name in tools if name not in fitting)
        tools = fitting
        cursor = page.next_cursor or None  # some servers send an empty cursor on the last page
        if cursor in cursors:
            break
        cursors.add(cursor)
    else:
        log.warning("lists more than %d pages of tools; the rest is left out", MAX_PAGES)
    if too_many:
        names = ", ".join(name[:MAX_LABEL] for name in islice(too_many, MAX_PROBLEMS))
        text = f"{len(too_many)} tools beyond the first {MAX_TOOLS} or {MAX_DEFINITIONS} bytes: {names}"
        log.warning("left out of its tools: %s", text)
        link.left_out.append(text)
    link.tool_calls.set_tools(tools.values())
    secrets = link.secrets.beside(current_bearer())
    return tuple(map(secrets.tool, tools.values()))


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult | None:
    """Return a page of the list; None if the server offers no tools.

    A server that declares other capabilities is not asked for tools that it does not declare (MCP 2025-11-25,
    "Capability Negotiation"). One that declares nothing at all may have forgotten to; it may refuse.
    """
    declared = client.server_capabilities
    if declared.tools is None and declared.model_dump(exclude_none=True):
        return None
    try:
        return await client.list_tools(cursor=cursor)
    except MCPError as error:
        if error.code == METHOD_NOT_FOUND and cursor is None:
            return None
        raise


def _fitting(tools: Collection[Tool], filter: ToolFilter) -> dict[str, Tool]:
    """Return the tools within the limits, by name. Those that the agent uses take precedence."""
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
    """Whether the server declares that it announces changed tools."""
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def listen_for_changes(link: Link) -> None:
    """List the tools again at every change, and after every time in which a change may have been missed.

    It is for servers of the 2026 protocol, which notify only clients that listen. Returns when the server
    refuses, or is gone.
    """

    streak = Streak(LISTEN_AGAIN)
    while True:
        began = trio.current_time()
        try:
            async with link.client.listen(tools_list_changed=True) as changes:
                link.refresh()  # earlier changes were not announced
                async for _ in changes:
                    link.refresh()
        except MCPError as error:
            match meaning(error.code, error.message, error.data):
                case "answered" if http_status(error.code, error.data) is None:
                    return
                case "answered":
                    pass  # a proxy in front of the server, perhaps: it may be busy, or want a token
                case "never_ran" | "connection_lost":
                    link.lose(first_line(error))
                    return
                case "reply_lost" | "outcome_unknown":
                    pass
        except SubscriptionLost:
            pass
        await trio.sleep(streak.fail(trio.current_time() - began))
