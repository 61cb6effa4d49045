"""A tool server with a call that lasts as long as a test wants: until somebody makes the file it names."""

from __future__ import annotations

import anyio
from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("gate-server")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def wait_for(path: str) -> str:
    """Wait until there is such a file."""
    while not await anyio.Path(path).exists():  # noqa: ASYNC110 - there is no event for it
        await anyio.sleep(0.01)
    return "the gate is open"


if __name__ == "__main__":
    server.run()
