"""Scenarios of the tree language and the policy: nested, repeated, routed, and changed while parked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from stopgo.actors.log.words import events as e
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from tests.nesting import KINDS, executed, nested

from .client import Client
from .scenario_parts import NO, ONE, YES, approve, call_of, group, just_start, llm, nothing_ran, ran_once
from .story import Scenario, Story
from .world import Outside


def asked(story: Story, node: str) -> list[int]:
    """The iterations in which a node asked its model."""
    return sorted({request.iteration for request in story.world.requests.values() if request.node == node})


# --------------------------------------------------------------------- nesting


def _each_round_ran(story: Story) -> None:
    assert story.world.times("w2") == 1
    for label in ("a1", "a2"):  # nobody is asked about these, so one that may have left is never sent again
        assert story.world.times(label) == 1 or (story.fired and not story.world.times(label))
    assert asked(story, "second") == asked(story, "side") == [1, 2]


NESTED = Scenario(
    "a sequential in a parallel in a loop",
    {
        **group(
            "loop",
            "rounds",
            group(
                "parallel",
                "fan",
                group("sequential", "chain", llm("first", output_key="f"), llm("second")),
                llm("side"),
            ),
        ),
        "max_iterations": 2,
    },
    Outside(
        {
            ("go", "first@1"): [["post a1"]],
            ("go", "first@2"): [["post a2", "read b2"]],
            ("go", "second@1"): [["bump c1"]],
            ("go", "side@2"): [["wipe w2"]],
        },
        seconds={"a1": 0.3, "side": 0.2},
    ),
    just_start,
    _each_round_ran,
)


def _exited(story: Story) -> None:
    ran_once(story)
    assert asked(story, "one") == [1, 2]
    assert asked(story, "after") == [1]


LOOP_APPROVED = Scenario(
    "a loop with an approval in its second iteration, which is its last",
    {
        **group("loop", "rounds", llm("one", can_exit_loop=True), llm("after")),
        "max_iterations": 5,
    },
    Outside({("go", "one@1"): [["read x"]], ("go", "one@2"): [["wipe a", "exit_loop leave"]]}),
    approve,
    _exited,
    approval=ApprovalConfig(in_loop="ask"),
)


def _went_right(story: Story) -> None:
    ran_once(story)
    assert asked(story, "left") == []


ROUTED = Scenario(
    "a router whose model picks the one that asks",
    group(
        "sequential",
        "chain",
        {**group("router", "pick", llm("left"), llm("right", output_key="r")), "model": "test:model"},
        {**llm("last"), "prompt": "It was {r}."},
    ),
    Outside({("go", "right"): [["wipe a"]]}, says={"pick": "right"}),
    approve,
    _went_right,
)

RETRIED = Scenario(
    "a node whose first attempt fails",
    llm("one", retries=2),
    Outside({("go", "one"): [["bump b"], ["wipe a"]]}, failing_first=frozenset({"one"})),
    approve,
    ran_once,
    compared=False,  # a failure that a kill came before is not there at the next attempt
)


# ------------------------------------------------------------------ rejections


async def _reject_all(client: Client) -> None:
    await client.start("go")
    await client.say(NO)


def _rejected(*kinds: str) -> Scenario:
    def nothing_further_began(story: Story) -> None:
        nothing_ran(story)
        times, _ = executed(kinds)
        assert {request.node for request in story.world.requests.values()} == times.keys()

    return Scenario(
        f"a rejection in: {' in '.join(reversed(kinds))}",
        nested(kinds, llm("leaf"), model="test:model"),
        Outside({("go", "leaf"): [["wipe a"]]}),
        _reject_all,
        nothing_further_began,
        approval=ApprovalConfig(in_parallel="ask", in_loop="ask"),
    )


REJECTED: Sequence[Scenario] = (
    _rejected("sequential", "sequential"),
    _rejected("sequential", "loop"),
    _rejected("sequential", "sequential on_reject"),
    _rejected("sequential", "loop on_reject"),
    _rejected("loop", "sequential"),
    _rejected("loop", "router"),
    _rejected("loop on_reject", "router", "sequential"),
    _rejected("sequential", "parallel", "sequential"),
    _rejected("loop", "parallel", "sequential on_reject"),
)
REJECTED_EVERYWHERE: Sequence[Scenario] = tuple(_rejected(*kinds) for kinds in product(KINDS, repeat=2))
"""In every kind of node in every other."""


# -------------------------------------------------------------------- approvals


async def _edit(client: Client) -> None:
    await client.start("go")
    await client.decide("a", {"approved": True, "arguments": {"name": "b"}}, "edit")
    await client.decide("b", YES, "yes")


def _asked_again(story: Story) -> None:
    assert (story.world.times("a"), story.world.times("b")) == (0, 1)
    assert [each.state for each in story.record.questions if each.kind == "tool"] == ["decided"] * 2


EDIT_ASKED_AGAIN = Scenario(
    "an edit that a rule asks about again",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _edit,
    _asked_again,
    approval=ApprovalConfig(
        rules=(Rule(then="ask", tool="wipe", arguments={"name": Condition(matches="^b")}),)
    ),
)


async def _sleep_over(client: Client) -> None:
    await client.start("go")
    await client.restart("night")
    await client.until(e.ApprovalExpired.type)
    await client.rest()
    await client.decide("a", YES, "too late")


def _nobody_came(story: Story) -> None:
    nothing_ran(story)
    assert {each.state for each in story.record.questions} == {"expired"}
    assert story.client.answers["too late"] == {"error": "expired"}
    assert call_of(story, "a").state == "expired"


EXPIRED_OVERNIGHT = Scenario(
    "an approval that falls due while nobody is there",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}),
    _sleep_over,
    _nobody_came,
    approval=ApprovalConfig(expires_after=45.0),
)


async def _be_late(client: Client) -> None:
    await client.start("go")
    await client.rest()
    await client.decide("a", YES, "too late")


def _only_the_other_ran(story: Story) -> None:
    assert story.world.times("a") == 0
    assert story.world.times("b") >= 1
    assert call_of(story, "a").state == "expired"


EXPIRED_BESIDE_A_CALL = Scenario(
    "an approval that expires while another call is in flight",
    ONE,
    Outside({("go", "one"): [["wipe a", "bump b"]]}, seconds={"b": 3.0}),
    _be_late,
    _only_the_other_ran,
    approval=ApprovalConfig(expires_after=1.0),
)


async def _pass(client: Client) -> None:
    await client.start("go")
    await client.say(YES)


def _passed(story: Story) -> None:
    ran_once(story)
    assert [each.kind for each in story.record.questions][:1] == ["checkpoint"]
    assert asked(story, "first") == asked(story, "last") == [1]


CHECKPOINT = Scenario(
    "a checkpoint, then a call that asks",
    group(
        "sequential",
        "chain",
        llm("first", output_key="f"),
        {"type": "approval", "name": "look", "message": "Go on with {f}?"},
        llm("last"),
    ),
    Outside({("go", "last"): [["wipe a"]]}),
    _pass,
    _passed,
)


# --------------------------------------------------------- changed while parked


async def _come_back(client: Client) -> None:
    await client.start("go")
    await client.restart("change")
    await client.say(YES)


def _shown_as_it_is(story: Story) -> None:
    ran_once(story)
    last = [each for each in story.record.questions if each.kind == "tool"][-1]
    (tool,) = [tool for tool in story.world._tools("tools") if tool.name == "wipe"]
    assert last.state == "decided"
    shown = last.body["tool_fingerprint"] == tool.fingerprint
    # It may have been sent in an earlier life, as it was then.
    assert shown or story.fired


TOOL_CHANGED = Scenario(
    "a tool that changes while the run is parked",
    ONE,
    Outside({("go", "one"): [["wipe a"]]}, renewed=frozenset({"wipe"})),
    _come_back,
    _shown_as_it_is,
    compared=False,  # a tool that changes before the question is put is asked about once
)


async def _upgrade(client: Client) -> None:
    await _come_back(client)
    await client.send("more", "more")


def _each_run_as_it_began(story: Story) -> None:
    ran_once(story)
    requests = story.world.requests.values()
    assert len({request.prompt for request in requests if request.turn == 1}) == 1
    assert {request.prompt for request in requests if request.turn == 2} == {"You are new."}


UPGRADED = Scenario(
    "an agent file that changes while the run is parked",
    ONE,
    Outside({("go", "one"): [["read x"], ["wipe a"]]}),
    _upgrade,
    _each_run_as_it_began,
    upgrade={**ONE, "prompt": "You are new."},
)

TREES = (
    NESTED,
    LOOP_APPROVED,
    ROUTED,
    RETRIED,
    EDIT_ASKED_AGAIN,
    EXPIRED_OVERNIGHT,
    EXPIRED_BESIDE_A_CALL,
    CHECKPOINT,
    TOOL_CHANGED,
    UPGRADED,
)
