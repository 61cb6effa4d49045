"""Scenarios about how runs and conversations end."""

from __future__ import annotations

from .client import Client
from .scenario_parts import ONE, YES, call_of, group, just_start, llm, nothing_ran, ran_once
from .story import Scenario, Story
from .world import Outside


async def _cancel_waiting(client: Client) -> None:
    await client.start("go")
    await client.cancel("cancel")
    await client.decide("a", YES, "too late")


def _void(story: Story) -> None:
    assert story.world.ledger == []
    assert {each.state for each in story.record.questions} == {"void"}
    assert story.client.answers["too late"] == {"error": "void"}
    assert call_of(story, "a").state == "cancelled"


CANCELLED_WAITING = Scenario(
    "cancelled while it waits for a human",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _cancel_waiting,
    _void,
)


async def _cancel_in_flight(client: Client) -> None:
    await client.start("go", wait=False)
    await client.until("tool.started")
    await client.cancel("cancel")
    await client.send("again", "again")


def _at_most_once(story: Story) -> None:
    assert story.world.times("a") <= 1
    assert not [each for each in story.record.questions if each.state == "pending"]


def _result_awaited(story: Story) -> None:
    _at_most_once(story)
    if not story.fired:
        assert call_of(story, "a").state == "finished"


CANCELLED_IN_FLIGHT = Scenario(
    "cancelled while a call is in flight, whose result comes in time",
    ONE,
    Outside({("go", "one"): [["post a"]]}, seconds={"a": 3.0}),
    _cancel_in_flight,
    _result_awaited,
)


def _result_missed(story: Story) -> None:
    _at_most_once(story)
    if not story.fired:
        assert call_of(story, "a").state == "unknown"


def _stopped_in_time(story: Story) -> None:
    _result_awaited(story)
    run = story.record.conversation.head.run
    assert run is not None
    assert run.state == "failed"


FAILED_FAST = Scenario(
    "one branch fails while a call of the other is in flight",
    group("parallel", "fan", llm("left"), llm("right")),
    Outside({("go", "right"): [["post a"]]}, seconds={"left": 1.0, "a": 3.0}, failing=frozenset({"left"})),
    just_start,
    _stopped_in_time,
    compared=False,  # begun again, the other branch may come further before this one fails
)

CANCELLED_TOO_SLOW = Scenario(
    "cancelled while a call is in flight, whose result does not come",
    ONE,
    Outside({("go", "one"): [["post a"]]}, seconds={"a": 30.0}),
    _cancel_in_flight,
    _result_missed,
)


async def _delete_waiting(client: Client) -> None:
    if "start" not in client.answers:
        await client.start("go")
    await client.delete()


DELETED = Scenario(
    "deleted while it waits", ONE, Outside({("go", "one"): [["wipe a"]]}), _delete_waiting, nothing_ran
)


async def _complete(client: Client) -> None:
    await client.start("go")
    await client.complete("too early")
    await client.decide("a", YES, "yes")
    await client.rest()
    await client.complete("complete")
    await client.send("more", "too late")


def _completed(story: Story) -> None:
    ran_once(story)
    assert story.client.answers["too early"] == {"error": "run_in_progress"}
    assert story.client.answers["too late"] == {"error": "conversation_completed"}
    assert story.record.conversation.head.status == "completed"


COMPLETED = Scenario("completed", ONE, Outside({("go", "one"): [["wipe a"]]}), _complete, _completed)
