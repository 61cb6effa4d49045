"""Hearing of changed tools from servers of the 2026 protocol, which say so only to those who listen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio

from stopgo.actors.mcp.failures import first_line, http_status, meaning
from stopgo.actors.mcp.link import Link
from stopgo.runtime.restart import Backoff, Streak

if TYPE_CHECKING:
    from mcp import Client

LISTEN_AGAIN = Backoff(first=0.25, factor=4.0, limit=300.0, healthy=10.0, jitter=0.5)


def tells_of_changes(client: Client) -> bool:
    """Whether the server says that it tells of changed tools."""
    tools = client.server_capabilities.tools
    return tools is not None and bool(tools.list_changed)


async def listen_for_changes(link: Link) -> None:
    """Have the tools listed again at every change, and after every time in which one may have been missed.

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
