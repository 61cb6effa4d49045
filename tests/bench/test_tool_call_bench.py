"""What a tool call costs beyond the bare SDK, in CPU of this process."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters

from stopgo.actors.mcp.server import mcp_server
from stopgo.actors.tools import CallTool
from stopgo.config.model import McpServerConfig
from stopgo.runtime.events import EventBus
from stopgo.runtime.supervisor import open_supervisor

from .served import report

SCRIPT = str(Path(__file__).parents[2] / "testdata" / "servers" / "echo_server.py")
CALLS = 100
ROUNDS = 15


async def cpu_of(call: Callable[[], Awaitable[object]]) -> float:
    """Milliseconds of CPU for one call."""
    began = time.process_time()
    for _ in range(CALLS):
        await call()
    return (time.process_time() - began) / CALLS * 1000


@pytest.mark.bench
async def test_a_call_through_the_actor_costs_little_more_than_a_bare_one() -> None:
    config = McpServerConfig(name="echo", command=sys.executable, args=("-S", SCRIPT))
    async with Client(StdioServerParameters(command=sys.executable, args=["-S", SCRIPT])) as client:
        await client.list_tools()
        async with open_supervisor(EventBus()) as supervisor:
            server = await supervisor.start("echo", mcp_server(config))
            bare, ours = [], []
            # In turns, and the best of each, for the machine is shared.
            for _ in range(ROUNDS):
                bare.append(await cpu_of(lambda: client.call_tool("echo", {"text": "hi"})))
                ours.append(await cpu_of(lambda: server.ask(CallTool("echo", {"text": "hi"}))))
    report(bench="tool call", bare_ms=min(bare), ours_ms=min(ours), ratio=min(ours) / min(bare), bound=1.5)
    assert min(ours) < 1.5 * min(bare)
