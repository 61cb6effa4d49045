"""Scenarios about what humans decide, for one call and for several."""

from __future__ import annotations

import trio

from stopgo.actors.access.principal import Grant, Principal
from stopgo.actors.log.words import events as e
from stopgo.config.sections.approval import ApprovalConfig, Rule

from .client import Client
from .scenario_parts import NO, ONE, YES, approve, group, llm, nothing_ran, ran_once
from .story import Scenario, Story
from .world import Outside

APPROVED = Scenario(
    "one destructive call, approved",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    approve,
    ran_once,
)


async def _edit(client: Client) -> None:
    await client.start("go")
    await client.decide("a", {"approved": True, "arguments": {"name": "b"}}, "edit")


def _only_the_edit_ran(story: Story) -> None:
    assert (story.world.times("a"), story.world.times("b")) == (0, 1)


EDITED = Scenario(
    "an edited approval", ONE, Outside({("go", "one"): [["wipe a"]]}), _edit, _only_the_edit_ran
)


async def _reject(client: Client) -> None:
    await client.start("go")
    await client.decide("a", NO, "no")


REJECTED = Scenario(
    "a rejection that the model is told of",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _reject,
    nothing_ran,
)


def _chain_stopped(story: Story) -> None:
    assert story.world.times("a") == 0
    assert story.world.times("b") >= 1
    assert not [request for request in story.world.requests if request[1] == "last"]


REJECTED_IN_SEQUENCE = Scenario(
    "a rejection that ends a sequence",
    group("sequential", "chain", llm("one"), llm("last")),
    Outside({("go", "one"): [["wipe a", "bump b"]]}),
    _reject,
    _chain_stopped,
)


async def _respond(client: Client) -> None:
    await client.start("go")
    await client.decide("a", {"action": "respond", "result": "use b"}, "respond")


def _chain_went_on(story: Story) -> None:
    assert story.world.times("a") == 0
    assert [request for request in story.world.requests if request[1] == "last"]


ANSWERED = Scenario(
    "an answer in place of a call lets a sequence go on",
    group("sequential", "chain", llm("one"), llm("last")),
    Outside({("go", "one"): [["wipe a"]]}),
    _respond,
    _chain_went_on,
)


async def _disagree(client: Client) -> None:
    await client.start("go")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.decide, "a", YES, "yes")
        nursery.start_soon(client.decide, "a", NO, "no")


def _one_of_them_counts(story: Story) -> None:
    (question,) = [each for each in story.record.questions if each.kind == "tool"]
    assert question.decision is not None
    winner, loser = ("yes", "no") if question.decision["approved"] else ("no", "yes")
    assert story.client.answers[loser] == {"error": "already_decided"}
    answer = story.client.answers[winner]
    assert answer is not None
    assert "error" not in answer
    assert story.world.times("a") == (winner == "yes")


async def _let_it_expire(client: Client) -> None:
    await client.start("go")
    await client.until("approval.expired")
    await client.rest()
    await client.decide("a", YES, "too late")


def _expired(story: Story) -> None:
    nothing_ran(story)
    assert {each.state for each in story.record.questions} == {"expired"}
    assert story.client.answers["too late"] == {"error": "expired"}


EXPIRED = Scenario(
    "an approval that nobody decides in time",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _let_it_expire,
    _expired,
    approval=ApprovalConfig(expires_after=300.0),
)


async def _halt_after_the_yes(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes", wait=False)
    await client.halt()
    await client.rest()
    await client.unhalt()
    await client.say(YES)


def _nothing_left_while_halted(story: Story) -> None:
    for entry in story.world.ledger:
        assert "halt" not in entry.acknowledged or "unhalt" in entry.acknowledged, entry
    for label in "ab":
        assert story.world.times(label) <= 1


HALTED = Scenario(
    "halted when one call has been approved and another is about to come",
    ONE,
    Outside({("go", "one"): [["wipe a"], ["post b"]]}),
    _halt_after_the_yes,
    _nothing_left_while_halted,
    policy=lambda times: "done" if times else "failed",  # a retry is refused while the agent is halted
    compared=False,  # chance says how far the run gets before the halt
)


ANN, BEN = (Principal(id=name, grants=(Grant("approver", "approver"),)) for name in ("ann", "ben"))


async def _vote(client: Client) -> None:
    await client.start("go")
    for person in (ANN, BEN):
        hash = next(each.shown.hash for each in await client.approvals() if each.kind == "tool")
        await client.decide("a", {"approved": True, "hash": hash}, person.id, by=person)


def _both_votes_are_on_record(story: Story) -> None:
    assert story.world.times("a") <= 1
    (question,) = [each for each in story.record.questions if each.kind == "tool"]
    assert [each.voter for each in question.votes] == ["ann", "ben"]
    assert [event.type for event in story.record.events].count(e.ApprovalVoted.type) == 1


VOTED = Scenario(
    "a call that two persons have to approve",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _vote,
    _both_votes_are_on_record,
    policy=lambda times: "done" if times else "failed",  # a retry needs two persons, too
    approval=ApprovalConfig(rules=(Rule(then="ask", tool="wipe", quorum=2),)),
    compared=False,
)


TWO_HUMANS = Scenario(
    "two humans who disagree at the same moment",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _disagree,
    _one_of_them_counts,
    compared=False,  # chance says which of them is faster
)


# -------------------------------------------------------------- several calls


async def _approve_batch(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")
    await client.send("thanks", "thanks")


def _each_ran(story: Story) -> None:
    assert story.world.times("a") == 1
    for label in "bc":
        assert story.world.times(label) >= 1


BATCH = Scenario(
    "a reply with calls of every class, and a second turn",
    ONE,
    Outside(
        {("go", "one"): [["wipe a", "read b", "bump c", "post d"], ["read e"]]}, seconds={"c": 0.3, "d": 0.2}
    ),
    _approve_batch,
    _each_ran,
)


async def _approve_three(client: Client) -> None:
    await client.start("go")
    for label in "cab":
        await client.decide(label, YES, f"yes {label}", wait=False)


def _asked_in_order(story: Story) -> None:
    for label in "abc":
        assert story.world.times(label) == 1
    asked: dict[str, list[str]] = {"tool": [], "outcome_unknown": []}
    lost: dict[str, int] = {}
    """How many questions about outcomes were put before the outcome of a call was lost, by call."""
    for event in story.record.events:
        if event.type == e.ToolUnknown.type:
            lost[event.body["key"]] = len(asked["outcome_unknown"])
        elif event.type == e.ApprovalRequested.type:
            kind, key = event.body["kind"], event.body["key"]
            since = lost[key] if kind == "outcome_unknown" else 0
            assert all(earlier < key for earlier in asked[kind][since:])
            asked[kind].append(key)


ASKED_IN_ORDER = Scenario(
    "a reply with three calls that ask",
    ONE,
    Outside(
        {("go", "one"): [["wipe a", "read x", "wipe b", "wipe c"]]}, seconds={"a": 3.0, "b": 4.0, "c": 5.0}
    ),
    _approve_three,
    _asked_in_order,
)


async def _approve_both(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes a")
    await client.decide("b", YES, "yes b")


def _both_ran(story: Story) -> None:
    assert (story.world.times("a"), story.world.times("b")) == (1, 1)
    assert [request for request in story.world.requests if request[1] == "sum"]


FAN = group(
    "sequential",
    "chain",
    group("parallel", "fan", llm("left", output_key="l"), llm("right", output_key="r"), llm("slow")),
    llm("sum") | {"prompt": "Left said {l}, right said {r}."},
)

PARALLEL = Scenario(
    "a parallel of three with two approvals inside a sequential",
    FAN,
    Outside(
        {("go", "left"): [["wipe a", "read x"]], ("go", "right"): [["wipe b"]], ("go", "slow"): [["bump y"]]},
        seconds={"slow": 2.0, "right": 0.5},
    ),
    _approve_both,
    _both_ran,
    approval=ApprovalConfig(in_parallel="ask"),
)


async def _approve_one(client: Client) -> None:
    await client.start("go")
    await client.decide("a", NO, "no a")
    await client.decide("b", YES, "yes b")


def _the_other_ran(story: Story) -> None:
    assert (story.world.times("a"), story.world.times("b")) == (0, 1)
    assert not [request for request in story.world.requests if request[1] == "sum"]


PARALLEL_REJECTED = Scenario(
    "a rejection in one branch lets the others settle",
    FAN,
    PARALLEL.outside,
    _approve_one,
    _the_other_ran,
    approval=ApprovalConfig(in_parallel="ask"),
)
