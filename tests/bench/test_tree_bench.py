"""What the nodes of a tree cost beyond the calls they make and the saves they cause.

The floor makes the same calls of model and tool, and writes the very commits of a measured run, by hand.
"""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from stopgo.actors.agent.agent import Agent
from stopgo.actors.log.words import events as e
from stopgo.actors.models.messages.messages import AskModel, ModelRequest, ToolMessage, UserMessage
from stopgo.actors.tools.registry import Resolve, Resolved, Server
from stopgo.actors.tools.tool import CallTool
from stopgo.runtime.journal.protocol import (
    Commit,
    Event,
    Journal,
    NewCommand,
    NewEvent,
    NewIntent,
    SettleIntent,
)
from stopgo.runtime.journal.summary import Summary
from tests.runtime.journal.kept import claimed

from .inprocess import agent_config, group, life, llm, no_collection
from .served import report

WIDE = 5
ITERATIONS = 10
LEAVES = WIDE + WIDE + ITERATIONS
NODES = LEAVES + 4
"""Executions: the leaves, the three groups, the root."""
ROUNDS = 12
BOUND_MS = 2.0

ARGUMENTS = {"text": "hi"}
REPLIES: list[dict[str, Any]] = [
    {"when": {"last_tool": "echo"}, "text": "said"},
    {"tool_calls": [{"name": "echo", "arguments": ARGUMENTS}]},
]
TREE = group(
    "sequential",
    "root",
    group("sequential", "one after the other", *(llm(f"a{n}") for n in range(WIDE))),
    group("parallel", "side by side", *(llm(f"b{n}") for n in range(WIDE))),
    group("loop", "again", llm("c"), max_iterations=ITERATIONS),
)


@pytest.mark.bench
async def test_a_tree_over_the_same_calls_by_hand(tmp_path: Path) -> None:
    config = agent_config(tmp_path, REPLIES, agent=TREE)
    trees, by_hand = [], []
    async with life(config, tmp_path / "data") as (agent, journal):
        with no_collection():
            for number in range(ROUNDS):
                began = time.process_time()
                turn = await agent.start_conversation("go")
                trees.append((time.process_time() - began) * 1000)
                assert turn.result is not None
                assert turn.result.state == "finished"
                history = await journal.events_since(turn.conversation.id, 0)
                assert sum(event.type == e.ToolFinished.type for event in history) == LEAVES
                began = time.process_time()
                await _by_hand(agent, journal, f"by hand {number}", history)
                by_hand.append((time.process_time() - began) * 1000)
    each = (min(trees) - min(by_hand)) / NODES
    report(
        bench="tree",
        nodes=NODES,
        tree_ms=min(trees),
        by_hand_ms=min(by_hand),
        ms_of_each_node=each,
        bound_ms=BOUND_MS,
    )
    assert each < BOUND_MS


async def _by_hand(agent: Agent, journal: Journal, stream: str, history: tuple[Event, ...]) -> None:
    services = agent._cast.services
    model = (await services.model("script:script.yaml")).ref
    found = await services.registry.ask(Resolve("echo", {}))
    assert isinstance(found, Resolved)
    assert isinstance(found.server, Server)
    for number in range(LEAVES):
        request = ModelRequest("", (UserMessage("go"),), (), "go", "leaf", 1, number)
        reply = await model.ask(AskModel(request))
        (call,) = reply.tool_calls
        result = await found.server.ref.ask(CallTool("echo", call.arguments))
        answered = ModelRequest("", (ToolMessage("1", "echo", result.content),), (), "go", "leaf", 1, number)
        assert (await model.ask(AskModel(answered))).text == "said"

    await journal.deliver(NewCommand(stream, "key", "create", {}, new=True))
    fence = await claimed(journal, stream)
    seq = 0
    for _, commit in groupby(history, key=lambda event: event.at):
        events = [NewEvent(event.type, event.body) for event in commit]
        await journal.save(
            Commit(
                fence,
                seq,
                events,
                intents=[
                    NewIntent(event.body["key"], 1, "read", event.body)
                    for event in events
                    if event.type == e.ToolStarted.type
                ],
                settle=[
                    SettleIntent(event.body["key"], 1, "finished")
                    for event in events
                    if event.type == e.ToolFinished.type
                ],
                summary=Summary("active", "go", open=True, body={}),
            )
        )
        seq += len(events)
