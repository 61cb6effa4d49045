"""Scenarios of delegated work: the task outlives this process, and ends with the run."""

from __future__ import annotations

from typing import Any

import attrs

from stopgo.actors.log.words import events as e
from stopgo.config.sections.approval import ApprovalConfig, Rule

from .client import Client, Script
from .demands import GOOD, WEAK
from .remote_agent import TOOL, Finds, Job
from .remote_parts import (
    ASKS,
    CAREFUL,
    DELEGATES,
    PEER,
    PRIVATE,
    Check,
    approved,
    delegated,
    done,
    proxies,
    say_yes,
    work_of,
)
from .scenario_parts import NO, YES, call_of, group, just_start, llm
from .story import Scenario, Story
from .world import Outside

# ------------------------------------------------------------------ without questions


def _worked(story: Story) -> None:
    done(story)
    assert proxies(story) == {}


PLAIN = delegated("delegated by a model", Job(), just_start, _worked)
BY_NODE = delegated("delegated by a node", Job(), just_start, _worked, tree=DELEGATES)


async def _approve(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")


ASKED_FIRST = delegated(
    "a delegation that people have to agree to", Job(), _approve, _worked, agents=(CAREFUL,)
)


async def _restart_at_work(client: Client) -> None:
    await client.start("go", wait=False)
    await client.until(e.ToolAccepted.type)
    await client.restart("at work")


RESTARTED = delegated(
    "an orderly restart while the agent works", Job(seconds=50.0), _restart_at_work, _worked
)


async def _restart_waiting(client: Client) -> None:
    await client.start("go")
    await client.restart("waiting")
    await client.tell("a.q", YES, "yes")


RESTARTED_WAITING = delegated("an orderly restart while it waits", ASKS, _restart_waiting, approved)


# ---------------------------------------------------------------------------- lost tasks


def _lost(scenario: Scenario, finds: Finds, check: Check, **more: Any) -> Scenario:
    """The same with an agent that finds tasks otherwise, or not."""
    outside = attrs.evolve(scenario.outside, finds=finds)
    name = f"{scenario.name}, and tasks are found: {finds}"
    return attrs.evolve(scenario, name=name, outside=outside, check=check, **more)


def _worked_or_unknown(story: Story) -> None:
    """Where no task can be found, the model is told so, and nothing is sent again."""
    assert story.world.times("a") == 1 or (story.fired and call_of(story, "a").state == "unknown")
    assert not [each for each in story.record.questions if each.kind == "outcome_unknown"]


def _worked_in_the_end(story: Story) -> None:
    """Where no task can be found, people are asked, who look."""
    assert story.world.times("a") == 1


FOUND_BY_LIST = _lost(PLAIN, "by list", _worked_or_unknown)
FOUND_NOT = _lost(PLAIN, "not", _worked_or_unknown)
CAREFUL_BY_LIST = _lost(ASKED_FIRST, "by list", _worked_in_the_end)
CAREFUL_NOT = _lost(ASKED_FIRST, "not", _worked_in_the_end)


def _worked_twice(story: Story) -> None:
    assert story.world.times("a") == 2
    assert call_of(story, "a").state == "finished"


FORGOTTEN = delegated(
    "an agent that forgets its task, and people who have it do it again",
    Job(forgotten=True),
    _approve,
    _worked_twice,
    agents=(CAREFUL,),
    policy=lambda times: "retry" if times < 2 else "done",
    compared=False,
)


def _denied_later(story: Story) -> None:
    """What had not left before the policy forbade it does not leave."""
    assert not story.world.remote.late, "it was sent against the policy of the day"


DENIED_LATER = delegated(
    "a policy that forbids the delegation from the next life on",
    Job(),
    just_start,
    _denied_later,
    later_approval=ApprovalConfig(rules=(Rule(server="a2a:peer", then="deny"),)),
    compared=False,
)


# ------------------------------------------------------------------------------ tokens

GUARDED = Job([["q"]], token=GOOD)


async def _bring_token(client: Client) -> None:
    await client.start("go", token=WEAK)
    await client.resume(GOOD)
    await client.tell("a.q", YES, "yes")
    await client.resume(GOOD)


def _authorized(story: Story) -> None:
    done(story, "a.q")
    assert proxies(story) == {"a.q": ["decided"]}


WANTS_TOKEN = delegated(
    "an agent that wants another token, and then asks", GUARDED, _bring_token, _authorized, compared=False
)


async def _with_token(client: Client) -> None:
    await client.start("go", token=GOOD)
    await client.tell("a.q", YES, "yes")


NO_TOKEN_PASSED = delegated(
    "an agent that is passed no token", ASKS, _with_token, approved, agents=(PRIVATE,)
)


# ------------------------------------------------------------------- parallel branches

FAN = group("parallel", "fan", llm("left"), {**DELEGATES, "name": "right", "prompt": "b"})


def _in_branches(name: str, script: Script, check: Check) -> Scenario:
    outside = Outside({("go", "left"): [[f"{TOOL} a"]]}, jobs={"a": ASKS, "b": ASKS})
    return Scenario(name, FAN, outside, script, check, agents=(PEER,))


async def _left_then_right(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", YES, "yes a")
    await client.tell("b.q", YES, "yes b")


async def _left_then_no(client: Client) -> None:
    await client.start("go")
    await client.tell("a.q", YES, "yes a")
    await client.tell("b.q", NO, "no b")


async def _right_then_left(client: Client) -> None:
    await client.start("go")
    await client.tell("b.q", NO, "no b")
    await client.tell("a.q", YES, "yes a")


def _branches(story: Story, *wiped: str) -> None:
    assert sorted(entry.label for entry in story.world.ledger if entry.tool == "wipe") == list(wiped)
    assert proxies(story) == {"a.q": ["decided"], "b.q": ["decided"]}
    assert {work_of(story, text).state for text in "ab"} == {"completed"}


LEFT_FIRST = _in_branches(
    "questions in two branches", _left_then_right, lambda story: _branches(story, "a.q", "b.q")
)
RIGHT_FIRST = _in_branches(
    "questions in two branches, the last rejected first",
    _right_then_left,
    lambda story: _branches(story, "a.q"),
)
ONE_BRANCH = Scenario(
    "a question in one of two branches",
    group("parallel", "fan", llm("left"), llm("right")),
    Outside({("go", "left"): [[f"{TOOL} a"]], ("go", "right"): [["bump b"], ["read c"]]}, jobs={"a": ASKS}),
    say_yes,
    approved,
    agents=(PEER,),
)


def _each_round(story: Story) -> None:
    assert proxies(story) == {"a.q": ["decided"], "b.q": ["decided"]}
    assert [entry.label for entry in story.world.ledger if entry.tool == "wipe"] == ["a.q"]


IN_LOOP = Scenario(
    "questions in two rounds of a loop",
    {**group("loop", "rounds", llm("one", can_exit_loop=True)), "max_iterations": 2},
    Outside(
        {("go", "one@1"): [[f"{TOOL} a"]], ("go", "one@2"): [[f"{TOOL} b"]]}, jobs={"a": ASKS, "b": ASKS}
    ),
    _left_then_no,
    _each_round,
    agents=(PEER,),
)


# ------------------------------------------------------------------------------- ends


async def _cancel(client: Client) -> None:
    await client.start("go")
    await client.cancel("cancel")
    await client.tell("a.q", YES, "too late")


def _cancelled(story: Story) -> None:
    assert work_of(story).state == "canceled"
    assert story.world.times("a.q") == 0
    assert proxies(story) == {"a.q": ["void"]}
    assert story.client.answers["too late"] == {"error": "void"}


CANCELLED = delegated("cancelled while it waits for the answer", ASKS, _cancel, _cancelled)


async def _cancel_with_token(client: Client) -> None:
    await client.start("go", token=GOOD)
    await client.cancel("cancel")
    await client.tell("a.q", YES, "too late")


CANCELLED_PRIVATE = delegated(
    "cancelled while it waits, at an agent that is passed no token",
    ASKS,
    _cancel_with_token,
    _cancelled,
    agents=(PRIVATE,),
)


async def _cancel_at_work(client: Client) -> None:
    await client.start("go", wait=False)
    await client.until(e.ToolAccepted.type)
    await client.cancel("cancel")


def _stopped(story: Story) -> None:
    """What is known of is cancelled; a task that was not told to us by then may go on."""
    if not story.fired:
        assert work_of(story).state == "canceled"
        assert call_of(story, "a").state == "finished"
    assert story.world.times("a") <= 1


CANCELLED_AT_WORK = delegated(
    "cancelled while the agent works", Job(seconds=50.0), _cancel_at_work, _stopped, compared=False
)


async def _delete_waiting(client: Client) -> None:
    if "start" not in client.answers:
        await client.start("go")
    await client.delete()


def _deleted(story: Story) -> None:
    assert work_of(story).state == "canceled"
    assert story.world.times("a.q") == 0


DELETED = delegated("deleted while it waits for the answer", ASKS, _delete_waiting, _deleted)


def _left_behind(story: Story) -> None:
    assert work_of(story).state == "canceled"
    assert proxies(story) in ({}, {"a.q": ["void"]})
    run = story.record.conversation.head.run
    assert run is not None
    assert run.state == "failed"


BRANCH_FAILED = Scenario(
    "a branch that fails while the question of another one waits",
    group("parallel", "fan", llm("left"), llm("right")),
    Outside(
        {("go", "right"): [[f"{TOOL} a"]]},
        seconds={"left": 1.0},
        failing=frozenset({"left"}),
        jobs={"a": ASKS},
    ),
    just_start,
    _left_behind,
    agents=(PEER,),
    compared=False,  # begun again, the other branch may come further before this one fails
)


async def _expire(client: Client) -> None:
    await client.start("go")
    await client.until(e.ApprovalExpired.type)
    await client.tell("a.q", YES, "too late")


def _expired(story: Story) -> None:
    done(story)
    assert work_of(story).rejected
    assert proxies(story) == {"a.q": ["expired"]}
    assert story.client.answers["too late"] == {"error": "expired"}


def _failed(story: Story) -> None:
    assert work_of(story).state == "canceled"
    assert proxies(story) == {"a.q": ["expired"]}
    assert story.world.times("a.q") == 0
    run = story.record.conversation.head.run
    assert run is not None
    assert run.state == "failed"


EXPIRED = delegated(
    "a question that nobody answers in time",
    ASKS,
    _expire,
    _expired,
    approval=ApprovalConfig(expires_after=300.0),
)
EXPIRED_FAILS = delegated(
    "a question that nobody answers in time, which fails the run",
    ASKS,
    _expire,
    _failed,
    approval=ApprovalConfig(expires_after=300.0, on_expiry="fail"),
)

WORK = (
    PLAIN,
    BY_NODE,
    ASKED_FIRST,
    RESTARTED,
    RESTARTED_WAITING,
    FOUND_BY_LIST,
    FOUND_NOT,
    CAREFUL_BY_LIST,
    CAREFUL_NOT,
    FORGOTTEN,
    DENIED_LATER,
    WANTS_TOKEN,
    NO_TOKEN_PASSED,
    LEFT_FIRST,
    RIGHT_FIRST,
    ONE_BRANCH,
    IN_LOOP,
    CANCELLED,
    CANCELLED_PRIVATE,
    CANCELLED_AT_WORK,
    DELETED,
    BRANCH_FAILED,
    EXPIRED,
    EXPIRED_FAILS,
)
