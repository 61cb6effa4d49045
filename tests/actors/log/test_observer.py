"""Observers: each is told everything, and the failure of one concerns nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.log.writer.observer import Observer
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.nodes import LlmNode
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal

REPORTS = ("happened", "node_started", "model_called")


class Told(Observer):
    def __init__(self, told: list[str], error: Exception | None = None) -> None:
        for name in REPORTS:
            setattr(self, name, lambda *_, name=name: self._told(told, name, error))

    def _told(self, told: list[str], name: str, error: Exception | None) -> None:
        told.append(name)
        if error is not None:
            raise error


async def test_failing_observer_stops_neither_the_run_nor_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first: list[str] = []
    second: list[str] = []
    config = AgentConfig(agent=LlmNode(name="a", prompt="", model="offline:rules"))
    observers: list[Any] = [Told(first, RuntimeError("broken")), Told(second)]
    async with open_agent(config, journal=MemoryJournal(), observers=observers) as agent:
        turn = await agent.start_conversation("hello")
    assert turn.conversation.run is not None
    assert turn.conversation.run.state == "finished"
    assert first == second
    assert set(first) == set(REPORTS)
    assert sum("an observer failed" in each.message for each in caplog.records) == len(first)
