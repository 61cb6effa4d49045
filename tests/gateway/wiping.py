"""A tool server in this process with one destructive tool and one that reads."""

from __future__ import annotations

from collections.abc import Callable

from mcp.server import MCPServer
from mcp.types import ToolAnnotations


def wiping_server(done: Callable[[str], object] = lambda name: None) -> MCPServer:
    """`done` is called with the argument of each `wipe`."""
    server = MCPServer("disks")

    @server.tool(annotations=ToolAnnotations(destructive_hint=True))
    def wipe(name: str) -> str:
        """Wipe a disk."""
        done(name)
        return f"wiped {name}"

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def look(name: str) -> str:
        """Look at a disk."""
        return f"{name} is fine"

    return server
