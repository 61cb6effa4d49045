"""An agent with scripted models and stubbed tools, which uses nothing outside this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ...actors.agent.agent import Agent
from ...actors.agent.open_agent import open_agent
from ...actors.common.errors import StartError
from ...actors.models.messages.errors import InvalidScript, UnreadableScript
from ...actors.models.offline.script import Script, ScriptModel
from ...actors.models.offline.script_reader import load_script, parse_script
from ...config.sections.agent_config import AgentConfig
from ...runtime.clock import WallClock
from ...runtime.journal.protocol import Journal
from .tool_stub import Stubs, check_stubs, serve_stubs

START_TIME = 1_700_000_000.0
"""The wall-clock time at which a test starts, in UTC seconds since the epoch."""


def read_script(script: str | os.PathLike[str]) -> Script:
    """Read a script from a file or a text. Raises `StartError`."""
    try:
        if isinstance(script, str) and ":" in script:  # a script has a colon; a `str` path has none
            return parse_script(script, "the script")
        return load_script(Path(os.path.abspath(script)))
    except (InvalidScript, UnreadableScript) as error:
        raise StartError(str(error)) from error


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
    """Like `open_agent`, with the script for all models and the stubs for the servers.

    Once `is_dead()` is true, tool calls have no effect, as in a killed process.

    Raises:
        StartError: a server has no stubs, or stubs are for an unknown server, or the agent
            calls other agents.
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
