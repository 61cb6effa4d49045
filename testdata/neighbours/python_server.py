"""A server of the Python SDK 1.x: `python_server.py stdio`, or `http PORT`."""

import inspect
import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("notes", **({"port": int(sys.argv[2])} if sys.argv[1] == "http" else {}))
HINTS = "annotations" in inspect.signature(server.tool).parameters
"""Whether this release has hints, as of 1.8."""


def hints(**given: bool) -> dict[str, object]:
    if not HINTS:
        return {}
    from mcp.types import ToolAnnotations

    return {"annotations": ToolAnnotations(**given)}


@server.tool(**hints(readOnlyHint=True))
def read_note(name: str) -> str:
    """Read a note."""
    return f"the text of {name}"


@server.tool(**hints(destructiveHint=True))
def remove_note(name: str) -> str:
    """Remove a note."""
    return f"removed {name}"


@server.tool(**hints(readOnlyHint=True))
def read_broken_note(name: str) -> str:
    """Fail."""
    raise ValueError(f"{name} is broken")


server.run(transport="streamable-http" if sys.argv[1] == "http" else "stdio")
