"""Scenarios about what servers ask people: before they do anything for a call, and in the middle of one."""

from __future__ import annotations

from stopgo.actors.log.words import events as e
from stopgo.config.sections.approval import ApprovalConfig

from .client import Client
from .demands import Demands
from .scenario_parts import ONE, YES, call_of, nothing_ran
from .story import Scenario, Story
from .token_scenarios import approved_once, ran, ran_or_unknown
from .world import Outside

FIRST = Demands(first={"a": ["who"]})
VISIT = Demands(visits=frozenset("a"))
AMID = Demands(amid=frozenset("a"))


def theirs(story: Story) -> list[str]:
    """The states of what the server asked, but for what its lost calls asked."""
    lost = [each for each in story.record.questions if each.body.get("in_flight") and each.state == "void"]
    return [each.state for each in story.record.questions if each.kind == "elicitation" and each not in lost]


async def _accept(client: Client) -> None:
    await client.start("go")
    await client.reply("a")


async def _decline(client: Client) -> None:
    await client.start("go")
    await client.reply("a", "decline")


async def _wave_off(client: Client) -> None:
    await client.start("go")
    await client.reply("a", "cancel")


async def _approve_and_accept(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await client.reply("a")


def _told_so(story: Story) -> None:
    nothing_ran(story)
    assert call_of(story, "a").is_error
    assert set(theirs(story)) == {"decided"}


# ------------------------------------------------------------ before it begins


ACCEPTED = Scenario(
    "a question before a call, accepted",
    ONE,
    Outside({("go", "one"): [["post a"]]}, demands=FIRST),
    _accept,
    ran_or_unknown,
)

DECLINED = Scenario(
    "a question before a call, declined",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=FIRST),
    _decline,
    _told_so,
)

WAVED_OFF = Scenario(
    "a question before a call, cancelled",
    ONE,
    Outside({("go", "one"): [["read a"]]}, demands=FIRST),
    _wave_off,
    _told_so,
)

APPROVED_ASKED = Scenario(
    "two questions before an approved call",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=Demands(first={"a": ["who", "why"]})),
    _approve_and_accept,
    approved_once,
)

VISITED = Scenario(
    "an address to visit before an approved call",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=VISIT),
    _approve_and_accept,
    approved_once,
)

NOT_VISITED = Scenario(
    "an address before a call that nobody wants to visit",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=VISIT),
    _decline,
    _told_so,
)


async def _cancel(client: Client) -> None:
    await client.start("go")
    await client.cancel("cancel")
    await client.send("again", "again")


def _void(story: Story) -> None:
    nothing_ran(story)
    assert {each.state for each in story.record.questions} == {"void"}
    assert call_of(story, "a").state == "cancelled"


CANCELLED_ASKED = Scenario(
    "cancelled while a server waits for an answer before a call",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=FIRST),
    _cancel,
    _void,
)


async def _sleep_over(client: Client) -> None:
    await client.start("go")
    await client.restart("night")
    await client.until(e.ApprovalExpired.type)
    await client.rest()


def _nobody_came(story: Story) -> None:
    nothing_ran(story)
    assert theirs(story) == ["expired"]


EXPIRED_ASKED = Scenario(
    "a question before a call that expires while nobody is there",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=FIRST),
    _sleep_over,
    _nobody_came,
    approval=ApprovalConfig(expires_after=30.0),
)


# ------------------------------------------------------------- in the middle


AMID_ACCEPTED = Scenario(
    "a question in the middle of a call that may be repeated",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=AMID),
    _accept,
    ran,
)

AMID_APPROVED = Scenario(
    "a question in the middle of an approved call",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, demands=AMID),
    _approve_and_accept,
    approved_once,
)

AMID_DECLINED = Scenario(
    "a question in the middle of a call, declined",
    ONE,
    Outside({("go", "one"): [["read a"]]}, demands=AMID),
    _decline,
    _told_so,
)


async def _restart_amid(client: Client) -> None:
    await client.start("go")
    await client.restart("while the server asks")
    await client.reply("a")


def _cancelled_for_the_server(story: Story) -> None:
    nothing_ran(story)
    assert call_of(story, "a").is_error


RESTARTED_AMID = Scenario(
    "an orderly restart in the middle of a call whose server asks",
    ONE,
    Outside({("go", "one"): [["post a"]]}, demands=AMID),
    _restart_amid,
    _cancelled_for_the_server,
)

CANCELLED_AMID = Scenario(
    "cancelled in the middle of a call whose server asks",
    ONE,
    Outside({("go", "one"): [["post a"]]}, demands=AMID),
    _cancel,
    _cancelled_for_the_server,
    compared=False,  # a call that is lost ends the run perhaps before anybody cancels it
)


async def _let_it_expire(client: Client) -> None:
    await client.start("go")
    await client.until(e.ApprovalExpired.type)
    await client.rest()


def _nobody_answered(story: Story) -> None:
    nothing_ran(story)
    assert call_of(story, "a").is_error
    assert theirs(story) in (["expired"], [])


EXPIRED_AMID = Scenario(
    "a question in the middle of a call that nobody answers in time",
    ONE,
    Outside({("go", "one"): [["post a"]]}, demands=AMID),
    _let_it_expire,
    _nobody_answered,
    approval=ApprovalConfig(expires_after=300.0),
)


async def _be_late(client: Client) -> None:
    await client.start("go")
    await client.until(e.ToolFinished.type)
    await client.rest()


def _taken_back(story: Story) -> None:
    nothing_ran(story)
    assert call_of(story, "a").is_error
    assert {each.state for each in story.record.questions} == {"void"}
    reasons = {each.body["reason"] for each in story.record.events if each.type == e.ApprovalVoid.type}
    assert story.fired or reasons == {"the call it was asked in is over"}


IMPATIENT = Scenario(
    "a question in the middle of a call that its server does not wait for",
    ONE,
    Outside({("go", "one"): [["bump a"]]}, demands=Demands(amid=frozenset("a"), impatient=frozenset("a"))),
    _be_late,
    _taken_back,
)

QUESTIONS = (
    ACCEPTED,
    DECLINED,
    WAVED_OFF,
    APPROVED_ASKED,
    VISITED,
    NOT_VISITED,
    CANCELLED_ASKED,
    EXPIRED_ASKED,
    AMID_ACCEPTED,
    AMID_APPROVED,
    AMID_DECLINED,
    RESTARTED_AMID,
    CANCELLED_AMID,
    EXPIRED_AMID,
    IMPATIENT,
)
