"""Approvals that need certain approvers, or several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.access.principal import Principal, all_grants, granted
from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals.asked import Occasion
from stopgo.actors.approvals.decided import Decided
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.approvals.requirement import Requirement
from stopgo.actors.approvals.tool_approval import ToolQuestion
from stopgo.actors.approvals.voting import agreed_edit, vote_of
from stopgo.actors.approvals.yes_or_no import Approved
from stopgo.actors.common.errors import AgentError
from stopgo.actors.common.stored_json import from_json, to_json
from stopgo.actors.tools.tool import Tool, ToolOutcomeUnknown
from stopgo.config.sections.auth import ScopeConfig
from stopgo.gateway.rest.views import approval_view
from stopgo.runtime.journal.question import Won
from stopgo.runtime.journal.vote import Outdated, Voted, outcome
from tests.actors.world import DESTRUCTIVE, World, answer, call, code_of, events, say, types, use

ASKS: dict[str, Any] = {"tool": "wipe", "then": "ask"}


def person(name: str, *grants: str, key: str = "", is_person: bool = True) -> Principal:
    found = granted(grants or ("approver",), all_grants({"dba": ScopeConfig(tools=("wipe",))}))
    return Principal(id=name, grants=found, credential=key or f"key-{name}", is_person=is_person)


ANN, BOB, CAT = person("ann"), person("bob"), person("cat", "dba")
REQUESTER = person("rita", "operator", "approver")


def world_with(world: World, **rule: Any) -> World:
    world.tool("wipe", DESTRUCTIVE)
    world.settings |= {
        "auth": {"api_keys": True, "roles": {"dba": {"tools": ["wipe"]}}},
        "approval": {"rules": [ASKS | rule]},
    }
    world.plan("agent", use(call("wipe", name="x")), say("done"))
    return world


@pytest.fixture
def quorum(world: World) -> World:
    return world_with(world, quorum=2)


async def ask(agent: Agent) -> Approval:
    turn = await agent.acting_as(REQUESTER).start_conversation("go")
    (approval,) = answer(turn).approvals
    return approval


async def decide(agent: Agent, who: Principal | None, id: str, /, **words: Any) -> Any:
    """Decide as a person who has just read the approval, if no hash is given."""
    shown = approval_view(await agent.approval(id)).hash
    words = {"approved": True, "hash": shown, **words}
    key = words.pop("key", None)
    given = {name: value for name, value in words.items() if value is not None}
    return answer(await agent.acting_as(who).decide(id, given, key=key))


# ------------------------------------------------------------------------------- quorum


async def test_the_call_is_sent_when_enough_persons_have_approved(
    quorum: World, autojump_clock: MockClock
) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        first = await decide(agent, ANN, asked.id, reason="looks right")
        assert (first.waiting_approval, first.code, first.state) == (True, "vote_recorded", "waiting")
        assert first.response == "The vote is recorded. 1 of 2 approvals have been given."
        assert first.approval_ids == (asked.id,)
        shown = approval_view(await agent.approval(asked.id))
        assert shown.requires is not None
        assert (shown.requires.approvers, shown.requires.quorum) == ([], 2)
        assert [(each.by, each.reason) for each in shown.votes or ()] == [("ann", "looks right")]
        assert (await agent.get(asked.stream)).approvals[asked.id].votes[0].voter == "ann"
        assert quorum.called("wipe") == 0
        last = await decide(agent, BOB, asked.id)
        assert (last.state, quorum.ledger) == ("finished", [("wipe", {"name": "x"})])
        voted, resolved = [
            each.body
            for each in await events(quorum.journal, asked.stream)
            if each.type in ("approval.voted", "approval.resolved")
        ]
        assert (voted["by"], voted["voters"], voted["needed"]) == ("ann", ["ann"], 2)
        assert voted["subject"] == resolved["subject"] == shown.hash
        assert (resolved["voters"], resolved["decision"]["principal"]) == (["ann", "bob"], "bob")
        decided = (await agent.get(asked.stream)).approvals[asked.id]
        stored = await agent.approval(asked.id)
        assert [(each.voter, each.at) for each in decided.votes] == [
            (each.voter, each.at) for each in stored.votes
        ]


@pytest.mark.parametrize(
    ("voters", "calls"),
    [
        ([ANN, ANN], 0),
        ([ANN, attrs.evolve(ANN, credential="second key")], 0),
        ([ANN, BOB], 1),
        ([ANN, ANN, CAT], 1),
        ([ANN, person("Ann")], 0),
        ([person("rené"), person("rene\u0301")], 0),
    ],
)
async def test_a_person_has_one_vote(
    quorum: World, autojump_clock: MockClock, voters: list[Principal], calls: int
) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        for each in voters:
            await decide(agent, each, asked.id)
        assert quorum.called("wipe") == calls


async def test_one_no_is_final(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
        result = await decide(agent, BOB, asked.id, approved=False, hash=None)
        assert (result.state, quorum.called("wipe")) == ("finished", 0)
        assert await code_of(decide(agent, CAT, asked.id)) == "already_decided"


async def test_an_edit_starts_the_count_again(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
        first = approval_view(await agent.approval(asked.id)).hash
        await decide(agent, BOB, asked.id, arguments={"name": "y"})
        shown = approval_view(await agent.approval(asked.id))
        assert (shown.tool_args, [each.by for each in shown.votes or ()]) == ({"name": "y"}, ["bob"])
        assert '"y"' in shown.description
        assert shown.hash != first
        conversation = await agent.get(asked.stream)
        assert approval_view(conversation.approvals[asked.id]).hash == shown.hash
        assert await code_of(decide(agent, ANN, asked.id, hash=first)) == "subject_changed"
        assert await code_of(decide(agent, ANN, asked.id, hash=None)) == "subject_changed"
        assert quorum.called("wipe") == 0
        await decide(agent, ANN, asked.id)  # agrees with the edit
        assert quorum.ledger == [("wipe", {"name": "y"})]
        stored = await agent.approval(asked.id)
        assert stored.decision is not None
        assert stored.decision["arguments"] == {"name": "y"}


async def test_a_repeated_vote_is_the_same_vote(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        hash = asked.asked.hash
        votes = [await decide(agent, ANN, asked.id, hash=hash, key="k") for _ in range(2)]
        await decide(agent, BOB, asked.id, arguments={"name": "y"})
        votes.append(await decide(agent, ANN, asked.id, hash=hash, key="k"))  # its hash is outdated by now
        assert len({each.response for each in votes}) == 1
        agreed = approval_view(await agent.approval(asked.id)).hash
        result = await decide(agent, ANN, asked.id, hash=agreed, key="k2")
        assert result == await decide(agent, ANN, asked.id, hash=agreed, key="k2")
        assert await code_of(decide(agent, ANN, asked.id, hash=agreed, key="k")) == "idempotency_key_reused"
        assert (await types(quorum.journal, asked.stream)).count("approval.voted") == 2


async def test_the_vote_of_a_revoked_credential_lapses(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        revoked: set[str] = set()
        agent.credential_is_live = lambda id: id not in revoked
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
        revoked.add(ANN.credential)
        assert await code_of(decide(agent, ANN, asked.id)) == "may_not_approve"
        await decide(agent, BOB, asked.id)
        assert quorum.called("wipe") == 0
        await decide(agent, CAT, asked.id)
        assert quorum.called("wipe") == 1


async def test_votes_from_before_a_halt_lapse(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
        await agent.halt("check")
        await agent.unhalt()
        await decide(agent, BOB, asked.id)
        assert quorum.called("wipe") == 0
        await decide(agent, ANN, asked.id)
        assert quorum.called("wipe") == 1


async def test_a_decision_is_repeated_after_a_halt(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        first = await decide(agent, ANN, asked.id, approved=False, hash=None, key="k")
        await agent.halt("check")
        assert await decide(agent, ANN, asked.id, approved=False, hash=None, key="k") == first


async def test_votes_survive_a_restart(quorum: World, autojump_clock: MockClock) -> None:
    async with quorum.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
    async with quorum.agent() as agent:
        await decide(agent, BOB, asked.id)
        assert quorum.called("wipe") == 1


# ---------------------------------------------------------------------------- approvers


@pytest.mark.parametrize(
    ("rule", "who", "code"),
    [
        ({"approvers": ["dba"]}, ANN, "role_required"),
        ({"approvers": ["dba"]}, person("root", "admin"), "role_required"),
        ({"approvers": ["dba"]}, CAT, None),
        ({"approvers": ["dba", "subject:ann"]}, ANN, None),
        ({"approvers": ["subject:an"]}, ANN, "role_required"),
        ({"approvers": ["admin"]}, person("root", "admin"), None),
        ({"approvers": ["dba"]}, person("key:ci", "dba", is_person=False), None),
        ({"approvers": ["dba"]}, None, "may_not_approve"),
        ({"requester_may_approve": False}, REQUESTER, "may_not_approve"),
        ({"requester_may_approve": False}, attrs.evolve(REQUESTER, id="RITA"), "may_not_approve"),
        ({"requester_may_approve": False}, ANN, None),
        ({"requester_may_approve": False}, person("key:ci", is_person=False), "may_not_approve"),
        ({"requester_may_approve": False}, None, "may_not_approve"),
        ({"quorum": 2}, REQUESTER, "vote"),
        ({"quorum": 2}, person("key:ci", is_person=False), "may_not_approve"),
        ({"quorum": 2}, person("hop", "approver", "relay"), "may_not_approve"),
        ({"quorum": 2}, None, "may_not_approve"),
        ({}, None, None),
        ({}, person("key:ci", is_person=False), None),
    ],
)
async def test_only_the_approvers_of_a_rule_may_approve(
    world: World, autojump_clock: MockClock, rule: Mapping[str, Any], who: Principal | None, code: str | None
) -> None:
    world_with(world, **rule)
    async with world.agent() as agent:
        asked = await ask(agent)
        if code in ("role_required", "may_not_approve"):
            assert await code_of(decide(agent, who, asked.id)) == code
            assert (await agent.approval(asked.id)).state == "pending"
        else:
            result = await decide(agent, who, asked.id)
            assert result.code == (None if code is None else "vote_recorded")
        assert world.called("wipe") == (code is None)


async def test_who_may_not_approve_may_reject(world: World, autojump_clock: MockClock) -> None:
    world_with(world, requester_may_approve=False, quorum=2)
    async with world.agent() as agent:
        asked = await ask(agent)
        await decide(agent, REQUESTER, asked.id, approved=False)
        assert world.called("wipe") == 0


async def test_unlisted_approvers_decide_nothing(world: World, autojump_clock: MockClock) -> None:
    world_with(world, approvers=["dba"])
    async with world.agent() as agent:
        asked = await ask(agent)
        assert await code_of(decide(agent, ANN, asked.id, approved=False)) == "role_required"


async def test_nobody_approves_a_run_of_an_unknown_requester(world: World, autojump_clock: MockClock) -> None:
    world_with(world, requester_may_approve=False)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        (asked,) = answer(turn).approvals
        assert await code_of(decide(agent, person("root", "admin"), asked.id)) == "may_not_approve"


NO_PERSONS = {
    "shared key": person("key:website", "operator", is_person=False),
    "program with a subject": person("ci", "operator", is_person=False),
    "relay": person("desk", "relay"),
    "person who relays": person("rob", "relay", "operator"),
}


@pytest.mark.parametrize("name", NO_PERSONS)
async def test_nobody_is_another_person_than_who_uses_a_program(
    name: str, world: World, autojump_clock: MockClock
) -> None:
    """Whoever approves may have sent the message through it."""
    world_with(world, requester_may_approve=False)
    async with world.agent() as agent:
        turn = await agent.acting_as(NO_PERSONS[name]).start_conversation()
        turn = await agent.acting_as(NO_PERSONS[name]).send(turn.conversation.id, "go")
        (asked,) = answer(turn).approvals
    async with world.agent() as agent:  # also after a restart
        for each in (ANN, person("root", "admin")):
            assert await code_of(decide(agent, each, asked.id)) == "may_not_approve"
        await decide(agent, ANN, asked.id, approved=False)
        assert world.called("wipe") == 0


async def test_hash_of_something_else_is_refused_without_a_quorum_too(
    world: World, autojump_clock: MockClock
) -> None:
    world_with(world)
    async with world.agent() as agent:
        asked = await ask(agent)
        assert "hash" not in approval_view(asked).to_json()
        for approved in (True, False):
            assert (
                await code_of(decide(agent, ANN, asked.id, approved=approved, hash="x")) == "subject_changed"
            )
        await decide(agent, ANN, asked.id, hash=asked.asked.hash)
        assert world.called("wipe") == 1


# -------------------------------------------------------------------- rules that change


@pytest.mark.parametrize(
    ("before", "after", "asks_again"),
    [
        ({"quorum": 2}, {}, False),
        ({"quorum": 2}, {"quorum": 2}, False),
        ({}, {"quorum": 2}, True),
        ({"approvers": ["dba", "approver"]}, {"approvers": ["dba"]}, True),
        ({"approvers": ["dba"]}, {"approvers": ["dba", "approver"]}, False),
        ({"quorum": 2}, {"requester_may_approve": False}, True),
        ({"quorum": 3, "requester_may_approve": False}, {"quorum": 2}, False),
    ],
)
async def test_the_stricter_of_the_rules_then_and_now_holds(
    world: World,
    autojump_clock: MockClock,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    asks_again: bool,
) -> None:
    world_with(world, **before)
    async with world.agent() as agent:
        asked = await ask(agent)
    world_with(world, **after)
    async with world.agent() as agent:
        needed = before.get("quorum", 1)
        for number, who in enumerate((CAT, ANN, BOB)[:needed], 1):
            result = await decide(agent, who, asked.id)
            assert (result.code == "vote_recorded") == (number < needed)
        assert world.called("wipe") == (not asks_again)
        if not asks_again:
            return
        (again,) = (await agent.approvals()).approvals
        assert (again.replaces, again.asked.requires) == (asked.id, again.asked.requires)
        while (await agent.approval(again.id)).state == "pending":
            voters = [each.voter for each in (await agent.approval(again.id)).votes]
            await decide(agent, next(each for each in (CAT, ANN, BOB) if each.id not in voters), again.id)
        assert world.called("wipe") == 1


async def test_arguments_that_one_person_edits_later_need_the_quorum_again(
    world: World, autojump_clock: MockClock
) -> None:
    world_with(world)
    matched = {"name": {"equals": "y"}}
    world.settings["approval"] = {
        "rules": [ASKS | {"arguments": matched, "name": "one"}, ASKS | {"quorum": 2, "name": "two"}]
    }
    async with world.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id, arguments={"name": "y"})
        await decide(agent, BOB, asked.id)
        (second,) = (await agent.approvals()).approvals
        assert second.rule.count('"one"') == 1
        assert second.asked.requires == Requirement(quorum=2), "that of the approval before"
        await decide(agent, ANN, second.id, arguments={"name": "z"})
        assert world.called("wipe") == 0
        await decide(agent, BOB, second.id)
        assert world.ledger == [("wipe", {"name": "z"})]


# ------------------------------------------------------------------------- other kinds


async def test_a_checkpoint_can_need_several_persons(world: World, autojump_clock: MockClock) -> None:
    world.settings |= {
        "auth": {"api_keys": True},
        "agent": {"type": "approval", "name": "gate", "message": "Go on?", "quorum": 2},
    }
    async with world.agent() as agent:
        asked = await ask(agent)
        assert (await decide(agent, ANN, asked.id)).code == "vote_recorded"
        assert (await decide(agent, BOB, asked.id)).response == "Approved."


async def test_a_retry_needs_the_approvers_of_the_call(quorum: World, autojump_clock: MockClock) -> None:
    async def lose(_: Mapping[str, Any]) -> str:
        if quorum.called("wipe") == 1:
            raise ToolOutcomeUnknown("the connection was lost")
        return "wiped"

    quorum.tool("wipe", DESTRUCTIVE, lose)
    async with quorum.agent() as agent:
        asked = await ask(agent)
        await decide(agent, ANN, asked.id)
        await decide(agent, BOB, asked.id)
        (unknown,) = (await agent.approvals()).approvals
        assert unknown.kind == "outcome_unknown"
        retry = {"approved": None, "action": "retry"}
        assert (await decide(agent, ANN, unknown.id, **retry)).code == "vote_recorded"
        assert quorum.called("wipe") == 1
        await decide(agent, BOB, unknown.id, **retry)
        assert quorum.called("wipe") == 2


@pytest.mark.parametrize(
    "damage",
    [
        {"quorum": 0},
        {"quorum": True},
        {"quorum": "2"},
        {"approvers": "x"},
        {"approvers": [1]},
        {"requester_may_approve": 1},
    ],
)
def test_damaged_requirement_is_no_weaker_one(damage: Mapping[str, Any]) -> None:
    whole = to_json(Requirement(("dba",), 2, requester_may_approve=False))
    assert from_json(whole, Requirement) == Requirement(("dba",), 2, requester_may_approve=False)
    with pytest.raises((TypeError, ValueError)):
        from_json({**whole, **damage}, Requirement)
    for name in whole:
        with pytest.raises(LookupError):
            from_json({key: value for key, value in whole.items() if key != name}, Requirement)


# ---------------------------------------------------------------------------- property

TOOL = Tool("wipe", "", {"type": "object"}, "tools", hints=DESTRUCTIVE)
PEOPLE = {name: person(name) for name in "abcd"}
PEOPLE["k"] = person("k", is_person=False)
PEOPLE["r"] = person("r", "approver", "relay")


def question(quorum: int) -> Approval:
    occasion = Occasion(id="q", question="1~0", key="1", node="n", requester="a")
    asked = ToolQuestion.about(
        occasion,
        tool=TOOL,
        facade=None,
        arguments={"n": 0},
        rule="",
        replaces=None,
        expires=None,
        on_expiry="",
        requires=Requirement(quorum=quorum, requester_may_approve=False),
    )
    body = asked.to_json()
    return Approval("q", "s", "tool", "pending", body, None, 0.0, None, None, asked=asked)


steps = st.tuples(
    st.sampled_from(sorted(PEOPLE)),
    st.sampled_from(["", "2"]),  # one of two credentials
    st.none() | st.integers(0, 2),  # edited arguments
    st.booleans(),  # whether the voter has read the present state
) | st.sampled_from([f"key-{name}" for name in "abcd"])


@settings(max_examples=500)
@given(st.lists(steps, max_size=25), st.integers(2, 3))
def test_fewer_live_persons_than_the_quorum_never_approve_one_subject(todo: list[Any], quorum: int) -> None:
    approval = question(quorum)
    seen = approval.shown.hash
    revoked: set[str] = set()
    agreed: dict[str, tuple[int, str]] = {}  # by person: arguments and credential of the latest vote
    for step in todo:
        if isinstance(step, str):
            revoked.add(step)
            continue
        name, second, edited, reads = step
        seen = approval.shown.hash if reads else seen
        who = attrs.evolve(PEOPLE[name], credential=f"key-{name}{second}")
        decision: Decided = Approved(arguments=None if edited is None else {"n": edited}, hash=seen)
        try:
            vote = vote_of(approval, decision, who, lambda id: id not in revoked)
        except AgentError:
            continue
        assert vote is not None
        assert name in "bcd"  # no requester, no program, no relay
        stored = {**decision.to_json(), **agreed_edit(approval, decision)}
        result = outcome(approval, stored, vote, 0.0)
        if isinstance(result, Outdated):
            continue
        present = approval.shown.tool_args["n"] if edited is None else edited
        agreed[name] = present, who.credential
        for_this = [each for each, (n, key) in agreed.items() if n == present and key not in revoked]
        if isinstance(result, Won):
            assert len(for_this) >= quorum
            decided = result.question.decision
            assert decided is not None
            assert decided.get("arguments", {"n": 0}) == {"n": present}
            return
        assert isinstance(result, Voted)
        approval = attrs.evolve(approval, votes=result.question.votes)
        assert approval.shown.tool_args == {"n": present}
