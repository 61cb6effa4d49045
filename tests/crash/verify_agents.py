"""The checks of work for other agents at the end of a story, whatever was killed and when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from stopgo.actors.log.words import events as e
from stopgo.runtime.journal.protocol import Event

from .remote_agent import TERMINAL, RemoteAgent

Item: TypeAlias = tuple[str, str]
"""The id of a task and the name of a question."""


def check_agents(events: Sequence[Event], is_over: bool, agent: RemoteAgent) -> None:
    """`events` are those of a conversation, whose last run `is_over` or not."""
    told = [
        (event.body["key"], event.body["remote_task"])
        for event in events
        if event.type == e.ToolAccepted.type
    ]
    _check_tasks(told, is_over, agent)
    _check_asked_once(events, agent)
    _check_brought(events)
    _check_agreed(events, agent, {id for _, id in told})


def _check_tasks(told: Sequence[tuple[str, str]], is_over: bool, agent: RemoteAgent) -> None:
    """Each task is recorded once, and none is left open when the run has ended."""
    assert len(told) == len(set(told)), "a task was told twice"
    if is_over:
        tasks = [agent.tasks[id] for _, id in told]
        left = [task.id for task in tasks if task.state not in TERMINAL and not task.is_lost]
        assert not left, f"{left} were left behind"


def _check_agreed(events: Sequence[Event], agent: RemoteAgent, tasks: set[str]) -> None:
    """If the agent got an approval from here, a human had given it."""
    asked = {
        event.body["id"]: item_of(event.body)
        for event in events
        if event.type == e.ApprovalRequested.type and event.body["kind"] == "proxy"
    }
    said = {
        asked[event.body["id"]]
        for event in events
        if event.type == e.ApprovalResolved.type
        and event.body["id"] in asked
        and event.body["decision"].get("approved") is True
    }
    unheard = {item for item in agent.agreed if item[0] in tasks} - said
    assert not unheard, f"nobody agreed to {unheard}"


def _check_asked_once(events: Sequence[Event], agent: RemoteAgent) -> None:
    """People are asked again only where the agent did not take the answer, or nobody knew any more whether it
    asks; and never twice at a time."""
    last: dict[Item, str] = {}
    keys: dict[Item, str] = {}
    excused: Counter[Item] = Counter()
    times: Counter[Item] = Counter()
    over: set[str] = set()
    for event in events:
        match event.type:
            case e.ApprovalRequested.type if event.body["kind"] == "proxy":
                item = item_of(event.body)
                before = last.get(item)
                assert before is None or before in over, f"{item} was put while it was open"
                assert event.body.get("replaces") == before
                last[item], keys[item] = event.body["id"], event.body["key"]
                times[item] += 1
            case e.ApprovalResolved.type | e.ApprovalExpired.type | e.ApprovalVoid.type:
                over.add(event.body["id"])
            case e.ToolUnknown.type:
                lost = (item for item, key in keys.items() if key == event.body["key"])
                excused.update(item for item in lost if last[item] not in over)
    for item, asked in times.items():
        assert asked <= 1 + agent.refused[item] + excused[item], f"{item} was put {asked} times"


def _check_brought(events: Sequence[Event]) -> None:
    """An attempt brings only what was decided, and something new to an agent that has asked; the same again
    only after an attempt that did not get as far as that."""
    over: set[str] = set()
    need: dict[str, Any] = {}
    brought: dict[str, set[str]] = {}
    for event in events:
        body = event.body
        match event.type:
            case e.ApprovalResolved.type | e.ApprovalExpired.type | e.ApprovalVoid.type:
                over.add(body["id"])
            case e.ToolFinished.type:
                need[body["key"]] = body.get("need")
            case e.ToolUnknown.type:
                need[body["key"]] = None
            case e.ToolStarted.type:
                brings = set(body.get("brings", ()))
                assert brings <= over, f"{event} brings what nobody has decided"
                before = brought.setdefault(body["key"], set())
                if (need.get(body["key"]) or {}).get("kind") == "decisions":
                    assert brings, f"{event} brings nothing"
                    assert not brings & before, f"{event} brings something again"
                before |= brings


def item_of(body: Any) -> Item:
    name = body.get("remote_item")
    return body["remote_task_id"], f"message {body['remote_message']}" if name is None else f"item {name}"
