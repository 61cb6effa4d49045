"""AG-UI runs of simulated logs: valid for a strict client, with all texts and results."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from random import Random

import pytest

from stopgo.actors.log.fold.state import Conversation
from stopgo.actors.log.words import events as e
from stopgo.actors.log.words.deltas import ModelDelta
from stopgo.actors.log.words.event_json import decode
from stopgo.actors.log.words.outcomes import Replied
from stopgo.actors.models.messages.messages import ArgumentsDelta, TextDelta
from stopgo.gateway.agui.agui_events import event_json
from stopgo.gateway.agui.agui_run import AGUIRun
from stopgo.runtime.journal.protocol import Event
from tests.simulation.lives import Simulation, simulate
from tests.simulation.plan import FIRST_WITH_PEER

from .ui import texts
from .verifier import Json, check_stream


@cache
def simulated(seed: int) -> Simulation:
    return simulate(seed)


SEEDS = [*range(300, 340), *range(FIRST_WITH_PEER + 100, FIRST_WITH_PEER + 120)]


@pytest.mark.parametrize("seed", SEEDS)
def test_streams_of_simulated_logs_are_valid(seed: int) -> None:
    random = Random(seed)
    simulation = simulated(seed)
    for person in simulation.people:
        seen = simulation.seen[person.id]
        log = [seen[seq] for seq in itertools.takewhile(seen.__contains__, itertools.count(1))]
        entries = [decode(event) for event in log if event.type != e.CONVERSATION_DELETED]
        for start in starts(entries):
            for patience in (0, 1, 9):
                told, replies = stream(person.id, entries, start, patience, random)
                check_stream(told)
                check_content(told, replies)


Start = dict[str, int | str]


def starts(entries: Sequence[e.Entry]) -> Iterator[Start]:
    """Where AG-UI runs may begin: with a message, or with the end of an interrupt."""
    for entry in entries:
        match entry.event:
            case e.RunStarted(command=command):
                yield {"command": command}
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid() | e.RunResumed():
                yield {"begins": entry.seq}


def stream(
    id: str, entries: Sequence[e.Entry], start: Start, patience: int, random: Random
) -> tuple[list[Json], list[str]]:
    """The stream if it ends with the run, or after so many of its pauses; and the recorded texts."""
    run = AGUIRun(conversation=Conversation(id), thread="t", run="r", **start)  # type: ignore[arg-type]
    told, replies = [run.start()], []
    for entry in entries:
        for delta in deltas(id, entry, random):
            told += run.delta(delta)
        told += run.apply(entry)
        match entry.event:
            case e.StepFinished(outcome=Replied(text=text)) if run.begun and text:
                replies.append(text)
        if run.begun and run.pauses.rests and not run.ended:
            if not patience:
                told += run.pause()
            patience -= 1
        if run.ended:
            break
    if not run.ended:
        told += run.fail("shutting_down", "")
    return [event_json(event) for event in told], replies


def deltas(id: str, entry: e.Entry, random: Random) -> Iterator[ModelDelta]:
    """Pieces of a reply before it is recorded: all, some or none of them, perhaps of earlier attempts too."""
    match entry.event:
        case e.StepFinished(key=key, node=node, outcome=Replied(text=text)):
            for attempt in range(1, random.randint(1, 3) + 1):
                pieces = [text[:2], text[2:5], text[5:]]
                for piece in random.sample(pieces, k=random.randint(0, 3)) if attempt % 2 else pieces:
                    yield ModelDelta(id, entry.seq - 1, key, node, "m", attempt, TextDelta(piece))
                yield ModelDelta(id, entry.seq - 1, key, node, "m", attempt, ArgumentsDelta(0, "x", "{"))


def check_content(told: Sequence[Json], replies: Sequence[str]) -> None:
    """Every recorded text is there once; beside them only the answer of the run. Every call has at most one
    result, and one if the run has ended."""
    assert texts(told)[: len(replies)] == replies
    assert len(texts(told)) <= len(replies) + 1
    called = [event["toolCallId"] for event in told if event["type"] == "TOOL_CALL_START"]
    results = [event["toolCallId"] for event in told if event["type"] == "TOOL_CALL_RESULT"]
    assert len(set(results)) == len(results)
    assert len(set(called)) == len(called)
    if told[-1]["type"] == "RUN_FINISHED" and told[-1]["outcome"]["type"] != "interrupt":
        assert set(called) <= set(results)


def test_simulated_logs_produce_every_event_type() -> None:
    """Otherwise the test above would prove little."""
    found: set[str] = set()
    for seed in SEEDS[:8] + SEEDS[-8:]:
        simulation = simulated(seed)
        for person in simulation.people:
            log: list[Event] = [event for _, event in sorted(simulation.seen[person.id].items())]
            entries = [decode(event) for event in log if event.type != e.CONVERSATION_DELETED]
            if [entry.seq for entry in entries] != list(range(1, len(entries) + 1)):
                continue
            for start in starts(entries):
                told, _ = stream(person.id, entries, start, 9, Random(seed))
                found |= {event["type"] for event in told}
    assert found >= {
        "RUN_STARTED",
        "RUN_FINISHED",
        "RUN_ERROR",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "STEP_STARTED",
        "STEP_FINISHED",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "TOOL_CALL_START",
        "TOOL_CALL_ARGS",
        "TOOL_CALL_END",
        "TOOL_CALL_RESULT",
        "SUBAGENT_STARTED",
        "SUBAGENT_FINISHED",
        "SUBAGENT_ERROR",
    }
