"""Scenarios with bearer tokens, which are never stored and so are lost with a process."""

from __future__ import annotations

import trio

from stopgo.actors.access.principal import Grant, Principal
from stopgo.actors.log.words.events import RunAuthRequired
from stopgo.config.sections.approval import ApprovalConfig

from .client import Client
from .decision_scenarios import FAN
from .demands import FRESH, GOOD, WEAK, Demands
from .scenario_parts import ONE, YES, call_of, nothing_ran, ran_once
from .story import Scenario, Story
from .world import Outside

GUARDED = Demands(tokens={"a": [GOOD]})


def approved_once(story: Story) -> None:
    ran_once(story)
    assert [each.state for each in story.record.questions if each.kind == "tool"] == ["decided"]


def ran(story: Story) -> None:
    """However often: it may be repeated."""
    assert story.world.times("a") >= 1
    assert call_of(story, "a").state == "finished"


def ran_or_unknown(story: Story) -> None:
    """Nobody is asked about these, so one that may have left is never sent again."""
    assert story.world.times("a") == 1 or (story.fired and call_of(story, "a").state == "unknown")


async def _start_and_resume(client: Client) -> None:
    await client.start("go")
    await client.resume(GOOD)


UNAUTHORIZED = Scenario(
    "a call without a token, then with one",
    ONE,
    Outside({("go", "one"): [["post a"]]}, demands=GUARDED),
    _start_and_resume,
    ran_or_unknown,
)


async def _better_and_better(client: Client) -> None:
    await client.start("go", token=WEAK)
    await client.resume(WEAK, GOOD)


FORBIDDEN = Scenario(
    "a token that does not do, and again, then a better one",
    ONE,
    Outside({("go", "one"): [["bump a", "read b"]]}, demands=GUARDED),
    _better_and_better,
    ran,
)


async def _approve_and_resume(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await client.resume(GOOD)


APPROVED_UNAUTHORIZED = Scenario(
    "an approved call without a token, then with one",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=GUARDED),
    _approve_and_resume,
    approved_once,
)


async def _start_with_token(client: Client) -> None:
    await client.start("go", token=GOOD)
    await client.decide("a", YES, "yes")
    await client.resume(GOOD)


LOST_TOKEN = Scenario(
    "a token that may be lost while a human thinks",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=GUARDED),
    _start_with_token,
    approved_once,
)

BOSS = Principal(id="boss", grants=(Grant("approver", "approver"),))


async def _approve_with_a_token(client: Client) -> None:
    await client.start("go", token=FRESH)
    await client.decide("a", YES, "yes", token=GOOD, by=BOSS)
    await client.resume(GOOD, FRESH)


def _each_call_had_its_token(story: Story) -> None:
    approved_once(story)
    assert story.world.times("b") >= 1
    assert story.fired or not any(each.type == RunAuthRequired.type for each in story.record.events)


OWN_TOKEN = Scenario(
    "an approver whose token serves the approved call only",
    ONE,
    Outside({("go", "one"): [["wipe a"], ["bump b"]]}, demands=Demands(tokens={"a": [GOOD], "b": [FRESH]})),
    _approve_with_a_token,
    _each_call_had_its_token,
)

LOCKED = Scenario(
    "a server that lists its tools to nobody without a token",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=Demands(tokens={"a": [GOOD]}, locked=True)),
    _start_with_token,
    approved_once,
)


# ------------------------------------------------------------ several at a time


def _all_ran(story: Story) -> None:
    assert (story.world.times("a"), story.world.times("b") >= 1) == (1, True)
    assert [request for request in story.world.requests if request[1] == "sum"]


BESIDE_APPROVAL = Scenario(
    "a call without a token in one of three branches, while another waits for a human",
    FAN,
    Outside(
        {("go", "left"): [["wipe a"]], ("go", "right"): [["bump b"]], ("go", "slow"): [["read y"]]},
        seconds={"slow": 1.0},
        demands=Demands(tokens={"b": [GOOD]}),
    ),
    _approve_and_resume,
    _all_ran,
    approval=ApprovalConfig(in_parallel="ask"),
)


async def _at_once(client: Client) -> None:
    await client.start("go")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.decide, "a", YES, "yes")
        nursery.start_soon(client.bring, GOOD, "good")
        nursery.start_soon(client.bring, WEAK, "weak")
    await client.resume(GOOD)


TWO_TOKENS = Scenario(
    "two tokens and a decision at the same moment",
    FAN,
    BESIDE_APPROVAL.outside,
    _at_once,
    _all_ran,
    approval=ApprovalConfig(in_parallel="ask"),
)


async def _say_more(client: Client) -> None:
    await client.start("go")
    await client.send("weak", "weak", token=WEAK)
    await client.send("good", "good", token=GOOD)
    await client.resume(GOOD)


def _three_turns(story: Story) -> None:
    assert story.world.times("a") >= 1
    assert len(story.record.conversation.turns) == 3


BY_MESSAGE = Scenario(
    "messages with tokens behind a run that needs one",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=GUARDED),
    _say_more,
    _three_turns,
)


async def _cancel(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await client.cancel("cancel")
    await client.bring(GOOD, "too late")


def _cancelled(story: Story) -> None:
    nothing_ran(story)
    assert story.client.answers["too late"] == {"error": "not_waiting_for_credential"}
    assert call_of(story, "a").state in ("cancelled", "unknown" if story.fired else "")


CANCELLED_UNAUTHORIZED = Scenario(
    "cancelled while it waits for a token",
    ONE,
    APPROVED_UNAUTHORIZED.outside,
    _cancel,
    _cancelled,
)


# ------------------------------------------------------------- with a question


async def _token_answer_token(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    while True:
        await client.resume(FRESH if client.world.asked["a"] else GOOD)
        await client.reply("a")
        if await client.state() == "finished":
            return


ANSWERED_TOO_LATE = Scenario(
    "a token that has run out when the question is answered which the call brought about",
    ONE,
    Outside(
        {("go", "one"): [["wipe a"]]}, demands=Demands(tokens={"a": [GOOD, FRESH]}, first={"a": ["who"]})
    ),
    _token_answer_token,
    approved_once,
)

TOKENS = (
    UNAUTHORIZED,
    FORBIDDEN,
    APPROVED_UNAUTHORIZED,
    LOST_TOKEN,
    OWN_TOKEN,
    LOCKED,
    BESIDE_APPROVAL,
    TWO_TOKENS,
    BY_MESSAGE,
    CANCELLED_UNAUTHORIZED,
    ANSWERED_TOO_LATE,
)
