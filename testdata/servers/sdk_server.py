"""A tool server made with the SDK, which speaks every version of the protocol:

    python sdk_server.py http|stateless|sse [PORT] [LEDGER]

Without a port, or with 0, it takes any free one; the address is printed when it listens. Every call
of `wipe` is appended to the ledger, and on disk, before it is answered.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from functools import partial
from typing import Any

import hypercorn.trio
import trio
from hypercorn.config import Config
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp_types import ToolAnnotations
from pydantic import BaseModel

KIND = sys.argv[1]
PORT = int(sys.argv[2]) if len(sys.argv) > 2 else 0
LEDGER = sys.argv[3] if len(sys.argv) > 3 else None

server = MCPServer("sdk-server")


class Amount(BaseModel):
    """A form."""

    n: int


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def echo(text: str) -> str:
    """Give the text back."""
    return text


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def slow(seconds: float) -> str:
    """Take some seconds."""
    await trio.sleep(seconds)
    return "slow done"


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def stubborn() -> str:
    """Answer nobody, and do not be told to stop."""
    with trio.CancelScope(shield=True):
        await trio.sleep(600)
    return "stubborn done"


@server.tool(annotations=ToolAnnotations(destructive_hint=False, read_only_hint=False))
async def wipe(text: str) -> str:
    """Write the text into the ledger."""
    if LEDGER is not None:
        ledger = os.open(LEDGER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(ledger, text.encode() + b"\n")
            os.fsync(ledger)
        finally:
            os.close(ledger)
    return text


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
async def count(to: int, ctx: Context) -> str:
    """Tell how far it is after each step."""
    for n in range(1, to + 1):
        await ctx.report_progress(n, to, f"step {n}")
    return f"counted to {to}"


@server.tool()
async def ask(ctx: Context) -> str:
    """Ask a question during the call."""
    answer = await ctx.elicit("How many?", Amount)
    return f"the answer is {answer.action}"


@server.tool()
async def learn(name: str, ctx: Context) -> str:
    """Offer one more tool from now on, and say so."""
    server.add_tool(echo, name=name)
    await ctx.notify_tools_changed()
    with warnings.catch_warnings(action="ignore"):
        await ctx.session.send_tool_list_changed()
    return name


async def main() -> None:
    match KIND:
        case "sse":
            app: Any = server.sse_app()
        case _:
            app = server.streamable_http_app(stateless_http=KIND == "stateless")
    config = Config()
    config.bind = [f"127.0.0.1:{PORT}"]
    config.accesslog = None
    config.errorlog = logging.getLogger("errors")
    async with trio.open_nursery() as nursery:
        [address] = await nursery.start(partial(hypercorn.trio.serve, app, config))
        print(f"{address}/{'sse' if KIND == 'sse' else 'mcp'}", flush=True)


if __name__ == "__main__":
    trio.run(main)
