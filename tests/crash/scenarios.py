"""What happens in the crash tests: small conversations that between them pass every write there is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from stopgo.actors.tools import Hints
from stopgo.config.model import ApprovalConfig

from .client import Client
from .story import Scenario, Story
from .world import Outside

YES = {"approved": True}
NO = {"approved": False, "reason": "not today"}


def llm(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "llm", "name": name, "prompt": f"You are {name}.", "model": "test:model", **more}


def group(kind: str, name: str, *agents: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": kind, "name": name, "agents": list(agents)}


ONE = llm("one")


def call_of(story: Story, label: str) -> Any:
    (call,) = [
        message.call
        for message in story.record.conversation.messages
        if message.call is not None and message.call.arguments["name"] == label
    ]
    return call


async def _just_start(client: Client) -> None:
    await client.start("go")


# ------------------------------------------------------------------- approvals


async def _approve(client: Client) -> None:
    await client.start("go")
    await client.decide("a", YES, "yes")


def _ran_once(story: Story) -> None:
    assert story.world.times("a") == 1
    assert call_of(story, "a").state == "finished"


APPROVED = Scenario(
    "one destructive call, approved",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _approve,
    _ran_once,
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


def _nothing_ran(story: Story) -> None:
    assert story.world.ledger == []


REJECTED = Scenario(
    "a rejection that the model is told of",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _reject,
    _nothing_ran,
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
    _nothing_ran(story)
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


TWO_HUMANS = Scenario(
    "two humans who disagree at the same moment",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _disagree,
    _one_of_them_counts,
    compared=False,
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


# ------------------------------------------------------------------ ways to end


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
    _just_start,
    _stopped_in_time,
    compared=False,
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
    "deleted while it waits", ONE, Outside({("go", "one"): [["wipe a"]]}), _delete_waiting, _nothing_ran
)


async def _complete(client: Client) -> None:
    await client.start("go")
    await client.complete("too early")
    await client.decide("a", YES, "yes")
    await client.rest()
    await client.complete("complete")
    await client.send("more", "too late")


def _completed(story: Story) -> None:
    _ran_once(story)
    assert story.client.answers["too early"] == {"error": "run_in_progress"}
    assert story.client.answers["too late"] == {"error": "conversation_completed"}
    assert story.record.conversation.head.status == "completed"


COMPLETED = Scenario("completed", ONE, Outside({("go", "one"): [["wipe a"]]}), _complete, _completed)


# ---------------------------------------------------------------- in any order


async def _queue(client: Client) -> None:
    async with trio.open_nursery() as nursery:
        await client.start("go", wait=False)
        nursery.start_soon(client.send, "next", "next")
    await client.decide("a", YES, "yes")


def _both_turns(story: Story) -> None:
    _ran_once(story)
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
    compared=False,
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
    _ran_once,
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
        _approve,
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
LOST_DONE = _lost("done", lambda times: "done" if times else "retry", _ran_once)
LOST_FAILED = _lost("failed", _failed, _given_up)


def _never_repeated(story: Story) -> None:
    assert story.world.times("a") <= 1
    assert not [each for each in story.record.questions if each.kind == "outcome_unknown"]


UNASKED = Scenario(
    "a call nobody was asked about, by a tool that calls itself harmless later",
    ONE,
    Outside({("go", "one"): [["post a"]]}, later={"post": Hints(read_only=True)}),
    _just_start,
    _never_repeated,
)

SCENARIOS: Sequence[Scenario] = (
    APPROVED,
    EDITED,
    REJECTED,
    REJECTED_IN_SEQUENCE,
    EXPIRED,
    TWO_HUMANS,
    BATCH,
    PARALLEL,
    PARALLEL_REJECTED,
    CANCELLED_WAITING,
    CANCELLED_IN_FLIGHT,
    CANCELLED_TOO_SLOW,
    FAILED_FAST,
    DELETED,
    COMPLETED,
    QUEUED,
    RESTARTED,
    RESTARTED_IN_FLIGHT,
    LOST_RETRIED,
    LOST_DONE,
    LOST_FAILED,
    UNASKED,
)

MAIN: Sequence[Scenario] = (APPROVED, PARALLEL, EDITED, REJECTED, CANCELLED_WAITING)
"""The turns that everything else is a variation of."""

VARIATIONS: Sequence[Scenario] = (PARALLEL_REJECTED, LOST_DONE, LOST_FAILED)
"""Those that differ from another one only in what a human says."""
