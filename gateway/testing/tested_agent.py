"""An agent with a script for its models, stubs for its tools and nothing outside this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ...actors.agent import Agent
from ...actors.models.script import Script, ScriptModel
from ...actors.models.script_reader import load_script, parse_script
from ...actors.open_agent import open_agent
from ...config.agent_config import AgentConfig
from ...runtime.clock import WallClock
from ...runtime.journal.protocol import Journal
from .tool_stub import Stubs, check_stubs, serve_stubs

MORNING = 1_700_000_000.0
"""UTC seconds at which the virtual time of a test begins."""


def read_script(script: Path | str) -> Script:
    """The script in a file, or in a text. Raises `InvalidScript`."""
    return load_script(script) if isinstance(script, Path) else parse_script(script, "the script")


@asynccontextmanager
async def open_tested(
    config: AgentConfig,
    script: Script,
    tools: Stubs,
    journal: Journal,
    wall: WallClock,
    *,
    is_dead: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Agent]:
    """As `open_agent`: all models of the file go by the script, its servers are stubs.

    Raises:
        StartError: a server has no stubs, or stubs have no server.
    """
    check_stubs(config, tools)
    async with open_agent(
        config,
        journal=journal,
        wall=wall,
        open_server=serve_stubs(tools, is_dead),
        open_model=lambda name, *, folder: ScriptModel(script),
    ) as agent:
        yield agent
