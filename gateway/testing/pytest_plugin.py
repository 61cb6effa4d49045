"""The plugin that pytest loads (entry point `pytest11`): fixtures for tests of an agent.

`agent` needs pytest-trio, which brings its virtual time. The others are there to be overridden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from trio.testing import MockClock

    from ...actors.agent import Agent
    from ...config.agent_config import AgentConfig
    from .tool_stub import ToolStub

# What pytest itself does not need is imported by the fixtures: every run of pytest loads this plugin.


@pytest.fixture
def agent_config(request: pytest.FixtureRequest) -> AgentConfig:
    """The agent file: `agent.yaml` beside the test, unless this fixture is overridden."""
    from ...config.load import load_config

    return load_config(request.path.parent / "agent.yaml")


@pytest.fixture
def agent_script(request: pytest.FixtureRequest) -> Path | str:
    """What its models say: the script `replies.yaml` beside the test, or that of an override, or its text."""
    return request.path.parent / "replies.yaml"


@pytest.fixture
def agent_tools() -> Mapping[str, Sequence[ToolStub]]:
    """The stubs of each of its servers. An override brings them; without one, there are no servers."""
    return {}


@pytest.fixture
async def agent(
    autojump_clock: MockClock,
    agent_config: AgentConfig,
    agent_script: Path | str,
    agent_tools: Mapping[str, Sequence[ToolStub]],
) -> AsyncIterator[Agent]:
    """A running agent with scripted models, stubs for tools, a journal in memory and virtual time."""
    import trio

    from ...runtime.journal.memory import MemoryJournal
    from .tested_agent import MORNING, open_tested, read_script
    from .virtual_time import without_threads

    def wall() -> float:
        return MORNING + trio.current_time()

    script = read_script(agent_script)
    with without_threads():
        async with open_tested(agent_config, script, agent_tools, MemoryJournal(wall), wall) as agent:
            yield agent
