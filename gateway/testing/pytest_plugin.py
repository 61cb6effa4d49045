"""The plugin that pytest loads (entry point `pytest11`): fixtures for tests of an agent.

Tests with the fixture `agent` run by pytest-trio, in virtual time. The other fixtures are to be overridden.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    import trio

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
    agent_config: AgentConfig,
    agent_script: Path | str,
    agent_tools: Mapping[str, Sequence[ToolStub]],
) -> AsyncIterator[Agent]:
    """A running agent with scripted models, stubs for tools, a journal in memory and virtual time."""
    import trio

    from ...runtime.journal.memory import MemoryJournal
    from .tested_agent import MORNING, open_tested, read_script

    def wall() -> float:
        return MORNING + trio.current_time()

    script = read_script(agent_script)
    async with open_tested(agent_config, script, agent_tools, MemoryJournal(wall), wall) as agent:
        yield agent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Have pytest-trio run each asynchronous test of our `agent` in virtual time; none of another `agent`."""
    if not config.pluginmanager.hasplugin("trio"):
        return
    for item in items:
        if isinstance(item, pytest.Function) and iscoroutinefunction(item.function) and _is_of_agent(item):
            item.add_marker(pytest.mark.trio(run=_run), append=False)


def _is_of_agent(item: pytest.Function) -> bool:
    definitions = item._fixtureinfo.name2fixturedefs.get("agent", ())
    return bool(definitions) and definitions[-1].func.__module__ == __name__


def _run(test: Callable[[], Awaitable[None]], clock: trio.abc.Clock | None = None, **options: Any) -> None:
    from .virtual_time import run_in_virtual_time

    run_in_virtual_time(test, clock, **options)
