"""Scenarios about channels that are told what happens."""

from __future__ import annotations

import trio

from tests.actors.notify.told_channels import NOTIFY

from .client import Client
from .scenario_parts import NO, ONE, YES, ran_once
from .story import Scenario, Story
from .world import Outside


async def _until_told(client: Client) -> None:
    """Nothing waits any more. A decision that was accepted becomes a row when the conversation reads it."""
    journal = client.agent._journal
    while await journal.outbox(1) or any(  # noqa: ASYNC110
        each.state == "pending" for each in await client.agent.notifications()
    ):
        await trio.sleep(1)


def _check(story: Story) -> None:
    assert story.record.outbox == 0
    told = story.world.told
    found, deleted = story.record.deliveries, [story.client.conversation] if story.client.deleted else []
    assert list(told.check(NOTIFY, story.record.events, found, deleted)) == []


async def _approve(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await _until_told(client)


def _approved(story: Story) -> None:
    ran_once(story)
    _check(story)
    states = {each.kind: each.state for each in story.record.deliveries.values()}
    assert states["approval.resolved"] == "arrived"


TOLD = Scenario(
    "channels are told of an approval and its decision",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _approve,
    _approved,
    notify=NOTIFY,
)


async def _reject_at_last(client: Client) -> None:
    await client.start("go")
    await _until_told(client)
    await client.halt()
    await client.unhalt()
    await client.decide("a", NO, "no")
    await _until_told(client)


def _rejected(story: Story) -> None:
    _check(story)
    told = [kind for _, kind, _ in story.world.told.told.values()]
    assert told.count("approval.requested") == told.count("approval.resolved") == 1
    assert told.count("agent.unhalted") == 1


TOLD_OF_A_HALT = Scenario(
    "channels are told of a request, a halt and a rejection",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _reject_at_last,
    _rejected,
    notify=NOTIFY,
)


async def _delete(client: Client) -> None:
    await client.start("go")
    await client.delete()
    await _until_told(client)


def _deleted(story: Story) -> None:
    _check(story)
    told = [kind for _, kind, _ in story.world.told.told.values()]
    assert told.count("conversation.deleted") == 1


TOLD_OF_A_DELETION = Scenario(
    "channels are told of a deletion",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _delete,
    _deleted,
    notify=NOTIFY,
)
