"""The pytest plugin (entry point `pytest11`): fixtures for tests of an agent.

Tests with the fixture `agent` run with pytest-trio, in virtual time. Tests override the other fixtures.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import os

    import trio

    from ...actors.agent.agent import Agent
    from ...config.sections.agent_config import AgentConfig
    from ...runtime.clock import WallClock
    from .tool_stub import ToolStub

# The agent is imported inside the fixtures, because every run of pytest loads this plugin.


@pytest.fixture
def agent_config(request: pytest.FixtureRequest) -> AgentConfig:
    """The configuration in the file `agent.yaml` beside the test; for tests to override."""
    from ...config.load import load_config

    return load_config(request.path.parent / "agent.yaml")


@pytest.fixture
def agent_script(request: pytest.FixtureRequest) -> str | os.PathLike[str]:
    """The script for all models: the file `replies.yaml` beside the test; for tests to override."""
    return request.path.parent / "replies.yaml"


@pytest.fixture
def agent_tools() -> Mapping[str, Sequence[ToolStub]]:
    """The stubs of each server in the file. The default is none; for tests to override."""
    return {}


@pytest.fixture
def _agent_wall() -> WallClock:
    """The wall clock of `agent` in virtual time. Only tests of that `agent` have this fixture."""
    import trio

    from .tested_agent import START_TIME

    return lambda: START_TIME + trio.current_time()


@pytest.fixture
async def agent(
    agent_config: AgentConfig,
    agent_script: str | os.PathLike[str],
    agent_tools: Mapping[str, Sequence[ToolStub]],
    _agent_wall: WallClock,
) -> AsyncIterator[Agent]:
    """A running agent with scripted models, stubs for tools, a journal in memory and virtual time."""
    from ...runtime.journal.memory.memory_journal import MemoryJournal
    from .tested_agent import open_tested, read_script

    script, journal = read_script(agent_script), MemoryJournal(_agent_wall)
    async with open_tested(agent_config, script, agent_tools, journal, _agent_wall) as agent:
        yield agent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run each asynchronous test that uses this fixture `agent` with pytest-trio in virtual time."""
    if not config.pluginmanager.hasplugin("trio"):
        return
    for item in items:
        if (
            isinstance(item, pytest.Function)
            and iscoroutinefunction(item.function)
            and "_agent_wall" in item.fixturenames
        ):
            item.add_marker(pytest.mark.trio(run=_run), append=False)


def _run(test: Callable[[], Awaitable[None]], clock: trio.abc.Clock | None = None, **options: Any) -> None:
    from .virtual_time import run_in_virtual_time

    run_in_virtual_time(test, clock, **options)
