"""Scenarios of another agent's questions: each is asked here once, and the answer is delivered."""

from __future__ import annotations

import attrs
import trio

from stopgo.actors.log.words import events as e

from .client import Client
from .remote_agent import ELSEWHERE_SECONDS, Job
from .remote_parts import (
    ASKS,
    CAREFUL,
    DELEGATES,
    approved,
    delegated,
    done,
    proxies,
    rejected,
    say_no,
    say_yes,
    work_of,
)
from .scenario_parts import NO, YES, group, llm
from .story import Story

# ---------------------------------------------------------------------- one question


async def _edit(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", {"approved": True, "arguments": {"name": "a.other"}}, "edit")


def _edited(story: Story) -> None:
    done(story, "a.other")
    assert proxies(story) == {"a.q": ["decided"]}


def _ended_there(story: Story) -> None:
    rejected(story)
    assert not [request for request in story.world.requests if request[1] == "last"]


APPROVED = delegated("its question, approved", ASKS, say_yes, approved)
REJECTED = delegated("its question, rejected", ASKS, say_no, rejected)
EDITED = delegated("its question, edited", ASKS, _edit, _edited)
UNNAMED = delegated("a question without a name, approved", Job([["q"]], named=False), say_yes, approved)
BY_NODE_APPROVED = delegated("the question of a node, approved", ASKS, say_yes, approved, tree=DELEGATES)
BY_NODE_REJECTED = delegated(
    "the question of a node in a sequence, rejected",
    ASKS,
    say_no,
    _ended_there,
    tree=group("sequential", "chain", DELEGATES, llm("last")),
)
MODEL_REJECTED = delegated(
    "its question in a sequence, rejected",
    ASKS,
    say_no,
    _ended_there,
    tree=group("sequential", "chain", llm("one"), llm("last")),
)
UNTOLD_REJECTED = delegated(
    "its question in a sequence, rejected, of which its end says nothing",
    Job([["q"]], says_rejected=False),
    say_no,
    _ended_there,
    tree=group("sequential", "chain", llm("one"), llm("last")),
)
AT_ONCE_ASKED = delegated("a question that comes with the task", Job([["q"]], seconds=0.0), say_yes, approved)


async def _yes_twice(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "first yes")
    await client.tell("a.q", YES, "yes")


TWICE_APPROVED = delegated(
    "a delegation that people agree to, and its question", ASKS, _yes_twice, approved, agents=(CAREFUL,)
)


async def _edit_then_yes(client: Client) -> None:
    await _edit(client)
    await client.tell("a.q", YES, "yes")


def _asked_again(story: Story) -> None:
    done(story, "a.q")
    assert proxies(story) == {"a.q": ["decided", "decided"]}
    first, second = [each for each in story.record.questions if each.kind == "proxy"]
    assert second.body["replaces"] == first.id
    assert "not like that" in second.body["description"]


EDIT_REFUSED = delegated(
    "an edit that the agent refuses", Job([["q"]], refuses_edits=True), _edit_then_yes, _asked_again
)


# ------------------------------------------------------------------ several questions

PAIR = Job([["p", "q"]])


async def _p_then_q(client: Client) -> None:
    await client.start("go")
    await client.tell("a.p", YES, "yes p")
    await client.tell("a.q", YES, "yes q")


async def _q_then_p(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", YES, "yes q")
    await client.tell("a.p", YES, "yes p")


async def _at_once(client: Client) -> None:
    await client.start("go")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.tell, "a.p", YES, "yes p")
        nursery.start_soon(client.tell, "a.q", NO, "no q")


def _both(story: Story) -> None:
    assert sorted(entry.label for entry in story.world.ledger if entry.tool == "wipe") == ["a.p", "a.q"]
    assert proxies(story) == {"a.p": ["decided"], "a.q": ["decided"]}
    assert work_of(story).state == "completed"


def _one_of_both(story: Story) -> None:
    done(story, "a.p")
    assert proxies(story) == {"a.p": ["decided"], "a.q": ["decided"]}


FIRST_FIRST = delegated("two questions, answered in their order", PAIR, _p_then_q, _both)
LAST_FIRST = delegated("two questions, the last answered first", PAIR, _q_then_p, _both)
AT_ONCE = delegated(
    "two questions, answered at the same time",
    PAIR,
    _at_once,
    _one_of_both,
    compared=False,  # chance says whose answer comes to what
)
ONE_BY_ONE = delegated("two questions, one after the other", Job([["p"], ["q"]]), _p_then_q, _both)


# ------------------------------------------------------------------- decided elsewhere

ELSEWHERE = Job([["q"]], elsewhere={"q": True})


async def _wait_for_others(client: Client) -> None:
    await client.start("go")
    await client.until(e.ApprovalVoid.type)
    await client.tell("a.q", YES, "too late")


def _void(story: Story) -> None:
    done(story, "a.q")
    assert proxies(story) == {"a.q": ["void"]}
    assert story.client.answers["too late"] == {"error": "void"}
    [question] = [each for each in story.record.questions if each.kind == "proxy"]
    assert question.body["void_reason"]


async def _wait_until_decided(client: Client) -> None:
    await client.start("go")
    await client.rest()
    tasks = client.world.remote.tasks.values()
    since = max(max(task.open.values(), default=0.0) for task in tasks)
    await trio.sleep(max(0.0, since + ELSEWHERE_SECONDS + 1 - client.world.wall()))


async def _decide_too_late(client: Client) -> None:
    await _wait_until_decided(client)
    await client.tell("a.q", NO, "late")


def _not_ours(story: Story) -> None:
    """Whatever becomes of our answer: the agent had another one before."""
    done(story, "a.q")
    assert not work_of(story).rejected


DECIDED_ELSEWHERE = delegated(
    "a question that is decided elsewhere", ELSEWHERE, _wait_for_others, _void, compared=False
)
DECIDED_FIRST = delegated(
    "a decision that comes after one elsewhere", ELSEWHERE, _decide_too_late, _not_ours, compared=False
)
DECIDED_UNTOLD = delegated(
    "a decision that comes after one elsewhere, of which the agent says nothing",
    attrs.evolve(ELSEWHERE, tells=False),
    _decide_too_late,
    _not_ours,
    compared=False,
)


async def _just_wait(client: Client) -> None:
    await client.start("go")
    await client.until(e.RunFinished.type)


def _rejected_there(story: Story) -> None:
    done(story)
    assert proxies(story) == {"a.q": ["void"]}
    assert not [request for request in story.world.requests if request[1] == "last"]


REJECTED_ELSEWHERE = delegated(
    "a question in a sequence that is rejected elsewhere",
    attrs.evolve(ELSEWHERE, elsewhere={"q": False}),
    _just_wait,
    _rejected_there,
    tree=group("sequential", "chain", llm("one"), llm("last")),
    compared=False,
)


async def _others_then_p(client: Client) -> None:
    await client.start("go")
    await client.until(e.ApprovalVoid.type)
    await client.tell("a.p", YES, "yes p")


def _ours_and_theirs(story: Story) -> None:
    assert sorted(entry.label for entry in story.world.ledger if entry.tool == "wipe") == ["a.p", "a.q"]
    assert proxies(story) == {"a.p": ["decided"], "a.q": ["void"]}
    assert work_of(story).state == "completed"


ONE_ELSEWHERE = delegated(
    "two questions, one of them decided elsewhere",
    attrs.evolve(PAIR, elsewhere={"q": True}),
    _others_then_p,
    _ours_and_theirs,
    compared=False,
)


async def _wait_then_no(client: Client) -> None:
    await client.start("go")
    await client.until(e.ApprovalVoid.type)
    await client.tell("a.q", NO, "no")


def _asked_after_all(story: Story) -> None:
    done(story)
    assert proxies(story) == {"a.q": ["void", "decided"]}


WANTED_AFTER_ALL = delegated(
    "a question that the agent says it does not ask, and asks",
    Job([["q"]], errs=True),
    _wait_then_no,
    _asked_after_all,
)


async def _sleep_then_p_and_r(client: Client) -> None:
    await _wait_until_decided(client)
    await client.tell("a.p", YES, "yes p")
    await client.tell("a.q", NO, "too late")
    await client.tell("a.r", YES, "yes r")


def _two_of_three(story: Story) -> None:
    wiped = sorted(entry.label for entry in story.world.ledger if entry.tool == "wipe")
    assert wiped == ["a.p", "a.q", "a.r"]
    assert proxies(story) == {"a.p": ["decided"], "a.q": ["void"], "a.r": ["decided"]}
    assert story.client.answers["too late"] == {"error": "void"}


ONE_OF_THREE = delegated(
    "three questions, one of them decided elsewhere, of which the agent says nothing",
    Job([["p", "q", "r"]], elsewhere={"q": True}, tells=False),
    _sleep_then_p_and_r,
    _two_of_three,
    compared=False,
)

ASKED = (
    APPROVED,
    REJECTED,
    EDITED,
    UNNAMED,
    BY_NODE_APPROVED,
    BY_NODE_REJECTED,
    MODEL_REJECTED,
    UNTOLD_REJECTED,
    AT_ONCE_ASKED,
    TWICE_APPROVED,
    EDIT_REFUSED,
    FIRST_FIRST,
    LAST_FIRST,
    AT_ONCE,
    ONE_BY_ONE,
    DECIDED_ELSEWHERE,
    DECIDED_FIRST,
    DECIDED_UNTOLD,
    REJECTED_ELSEWHERE,
    ONE_ELSEWHERE,
    ONE_OF_THREE,
    WANTED_AFTER_ALL,
)
