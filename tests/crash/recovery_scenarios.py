"""Scenarios about restarts, queued messages and calls of unknown outcome."""

from __future__ import annotations

from typing import Any

import trio

from stopgo.actors.tools.tool import Hints
from stopgo.config.sections.approval import ApprovalConfig

from .client import Client
from .scenario_parts import ONE, YES, approve, call_of, just_start, ran_once
from .story import Scenario, Story
from .world import Outside


async def _queue(client: Client) -> None:
    async with trio.open_nursery() as nursery:
        await client.start("go", wait=False)
        nursery.start_soon(client.send, "next", "next")
    await client.decide("a", YES, "yes")


def _both_turns(story: Story) -> None:
    ran_once(story)
    answer = story.client.answers["next"]
    assert answer is not None
    assert answer["state"] in ("queued", "waiting")
    stored = answer["state"] == "queued"
    assert len(story.record.conversation.turns) == 1 + stored


QUEUED = Scenario(
    "a message queued behind a run that asks",
    ONE,
    Outside({("go", "one"): [["read b"], ["wipe a"]]}),
    _queue,
    _both_turns,
)


async def _restart_first(client: Client) -> None:
    await client.start("go")
    await client.restart("before the decision")
    await client.decide("a", YES, "yes")


RESTARTED = Scenario(
    "an orderly restart, then the decision",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _restart_first,
    ran_once,
)


async def _restart_in_flight(client: Client) -> None:
    await client.start("go", wait=False)
    await client.until("tool.started")
    await client.restart("in flight")


def _restarted_in_flight(story: Story) -> None:
    assert story.world.times("a") == 1 or story.fired
    if not story.fired:
        assert call_of(story, "a").state == "finished"


RESTARTED_IN_FLIGHT = Scenario(
    "an orderly restart while calls are in flight, with more to do",
    ONE,
    Outside({("go", "one"): [["post a", "bump b"], ["read c"]]}, seconds={"a": 3.0, "b": 1.0}),
    _restart_in_flight,
    _restarted_in_flight,
)


# ------------------------------------------------------------ unknown outcomes


def _lost(name: str, policy: Any, check: Any) -> Scenario:
    return Scenario(
        f"a lost answer: {name}",
        ONE,
        Outside({("go", "one"): [["wipe a"]]}, lost=frozenset("a")),
        approve,
        check,
        policy=policy,
    )


def _retry(times: int) -> str:
    return "retry" if times < 2 else "done"


def _failed(times: int) -> str:
    return "failed" if times else "retry"


def _ran_again(story: Story) -> None:
    assert story.world.times("a") == 2


def _given_up(story: Story) -> None:
    assert story.world.times("a") == 1
    assert call_of(story, "a").is_error


LOST_RETRIED = _lost("retry", _retry, _ran_again)
LOST_DONE = _lost("done", lambda times: "done" if times else "retry", ran_once)
LOST_FAILED = _lost("failed", _failed, _given_up)


def _never_repeated(story: Story) -> None:
    assert story.world.times("a") <= 1
    assert not [each for each in story.record.questions if each.kind == "outcome_unknown"]


UNASKED = Scenario(
    "a call nobody was asked about, by a tool that calls itself harmless later",
    ONE,
    Outside({("go", "one"): [["post a"]]}, later={"post": Hints(read_only=True)}),
    just_start,
    _never_repeated,
    approval=ApprovalConfig(on_weaker_hints="trust"),
)


async def _weaken(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await client.restart("its server says less of it")
    await client.rest()
    await client.send("next", "next")
    await client.decide("b", YES, "yes too")


def _asked_twice(story: Story) -> None:
    asked = [each for each in story.record.questions if each.kind == "tool"]
    assert [each.body["tool_args"]["name"] for each in asked] == ["a", "b"]
    assert [story.world.times(label) for label in ("a", "b")] == [1, 1]


WEAKENED = Scenario(
    "a tool that calls itself harmless later, and is called again",
    ONE,
    Outside(
        {("go", "one"): [["wipe a"]], ("next", "one"): [["wipe b"]]}, later={"wipe": Hints(read_only=True)}
    ),
    _weaken,
    _asked_twice,
)
