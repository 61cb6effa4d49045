"""How long it takes a conversation to come back into memory."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.agent.agent import Agent
from stopgo.actors.conversation.result import Turn
from stopgo.actors.log.writer.logs import Logs
from stopgo.actors.log.writer.observer import Observer
from stopgo.runtime.clock import system_clock
from stopgo.runtime.event_bus import EventBus
from stopgo.runtime.journal.lease import Lease

from .inprocess import agent_config, life, llm, no_collection
from .served import report

MESSAGES = 200
ACTIVATION_MS = 5.0
SLOW_MACHINE = 4
"""How many times as long it may take in bad hours of a shared machine."""
CALLS = 100
"""Of the model, each with a tool call; a replay passes all of them, one by one."""
STEPS = 2 * CALLS
RESUME_MS = 50.0
ROUNDS = 30
RESUMED = 8


@pytest.mark.bench
async def test_activation_of_a_long_conversation(tmp_path: Path) -> None:
    """Claim, read, fold, first look into the inbox."""
    config = agent_config(tmp_path, [{"text": "I see."}])
    async with life(config, tmp_path / "data") as (agent, journal):
        id = (await agent.start_conversation()).conversation.id
        for number in range(MESSAGES // 2):
            turn = await agent.send(id, f"message {number}")
        assert len(turn.conversation.messages) >= MESSAGES
        taken = []
        lease = Lease(journal)
        await lease.renew()
        with no_collection():
            for _ in range(ROUNDS):
                began = time.process_time()
                logs = Logs(journal, lease, EventBus(), system_clock, Observer())
                log = await logs.open(id, start_soon=lambda work: None, progress=lambda: None)
                assert log is not None
                assert await journal.inbox(id) == ()
                taken.append((time.process_time() - began) * 1000)
        assert log is not None
        assert len(log.state.messages) == len(turn.conversation.messages)
    report(
        bench="activation",
        messages=len(log.state.messages),
        events=log.state.last_seq,
        cpu_ms=min(taken),
        target_ms=ACTIVATION_MS,
        bound_ms=SLOW_MACHINE * ACTIVATION_MS,
    )
    assert min(taken) < SLOW_MACHINE * ACTIVATION_MS


@pytest.mark.bench
async def test_cold_resume_of_a_long_run(tmp_path: Path) -> None:
    """From the yes to a run that has waited since before a restart, to its end."""
    said = {"name": "echo", "arguments": {"text": "hi"}}
    replies: list[dict[str, Any]] = [
        {"when": {"call": CALLS + 1}, "text": "done"},
        {"when": {"call": CALLS}, "tool_calls": [{"name": "erase", "arguments": {}}]},
        {"tool_calls": [said]},
    ]
    config = agent_config(tmp_path, replies, agent=llm("worker", max_turns=CALLS + 1))
    waiting: list[Turn] = []
    async with life(config, tmp_path / "data") as (agent, _):
        for _ in range(RESUMED):
            waiting.append(await agent.start_conversation("go"))
            assert _steps(waiting[-1]) == STEPS
    taken = []
    async with life(config, tmp_path / "data") as (agent, _):
        with no_collection():
            for turn in waiting:
                taken.append(await _resume(agent, turn))
    report(bench="cold resume", steps=STEPS, cpu_ms=min(taken), bound_ms=RESUME_MS)
    assert min(taken) < RESUME_MS


def _steps(turn: Turn) -> int:
    """Replies of the model and the calls in them."""
    return 2 * sum(message.role == "tool" for message in turn.conversation.messages)


async def _resume(agent: Agent, turn: Turn) -> float:
    """Milliseconds of CPU."""
    (approval,) = turn.conversation.head.pending
    began = time.process_time()
    done = await agent.decide(approval, {"approved": True})
    taken = time.process_time() - began
    assert done.result is not None
    assert done.result.state == "finished"
    return taken * 1000
