"""The events of calls have the facts of the gate's verdicts, whatever these were."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.gate.gate import PolicyScope, judge
from stopgo.actors.gate.halt import RULE
from stopgo.actors.gate.policies import NOTE, stored_policies
from stopgo.actors.gate.policy import Policy
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.actors.tools.verdict_facts import VerdictFacts, facts_of_tool, hints_of
from stopgo.config.sections.approval import ApprovalConfig, Rule
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Json
from tests.actors.gate.test_halt import only
from tests.actors.several_members import LEASE, YES, Members
from tests.actors.world import DESTRUCTIVE, HARMLESS, World, answer, call, events, say, use, wall

RULES = [
    {"tool": "drop", "then": "deny"},
    {"tool": "send", "then": "run", "arguments": {"name": {"above": 5}}},
    {"tool": "send", "then": "ask", "arguments": {"name": "x"}},
]


async def facts(world: World, conversation: str) -> list[tuple[str, Any]]:
    """Of all events of calls, by type."""
    found = await events(world.journal, conversation)
    types = ("tool.started", "approval.requested", "step.finished")
    kept = (each for each in found if each.type in types and each.body.get("kind") in (None, "tool", "call"))
    return [(each.type, each.body.get("verdict")) for each in kept]


def policy_of(world: World) -> Policy:
    config = world.config()
    return Policy.of(config, config.agent, config.rule_secrets)


async def verdicts(
    world: World,
    *calls: Any,
    before: Callable[[Agent], Any] | None = None,
    rules: Sequence[Mapping[str, Any]] = (),
) -> list[Any]:
    """The facts in one turn with these calls, without the revision, which is the same in all."""
    world.tool("drop")
    world.tool("send", HARMLESS)
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = {"rules": [*rules, *RULES]}
    world.plan("agent", use(*calls), say("done"))
    async with world.agent() as agent:
        if before is not None:
            await before(agent)
        turn = await agent.start_conversation("go")
    found = await facts(world, turn.conversation.id)
    revision = policy_of(world).revision
    assert {each["policy"] for _, each in found} == {revision}
    started = (await events(world.journal, turn.conversation.id))[2]
    assert (started.type, started.body["policy"]) == ("run.started", revision)
    assert [each.revision for each in await stored_policies(world.journal)] == [revision]
    return [(type, {key: value for key, value in each.items() if key != "policy"}) for type, each in found]


async def test_call_that_runs(world: World, autojump_clock: MockClock) -> None:
    found = await verdicts(world, call("send", name="y"))
    first = policy_of(world).ids["approval.rules[1]"]
    asks = {"action": "ask", "rule": first, "undecided": True, "hints": "d"}
    assert found == [("approval.requested", asks)]
    assert await verdicts(World(world.folder), call("send")) == [
        ("tool.started", {"action": "run", "rule": "destructiveHint: false", "hints": "d"})
    ]


async def test_call_that_asks(world: World, autojump_clock: MockClock) -> None:
    [(type, found)] = await verdicts(world, call("wipe"))
    assert (type, found) == (
        "approval.requested",
        {"action": "ask", "rule": "destructiveHint: true", "hints": "D"},
    )


async def test_denied_call(world: World, autojump_clock: MockClock) -> None:
    [(type, found)] = await verdicts(world, call("drop", name=5))
    fingerprint = world.tools["drop"][0].fingerprint
    assert (type, found) == (
        "step.finished",
        {
            "action": "deny",
            "rule": policy_of(world).ids["approval.rules[0]"],
            "hints": "d",
            "tool_name": "drop",
            "server": "tools",
            "fingerprint": fingerprint,
            "arguments": {"name": "5"},  # the model's reply has the number
        },
    )
    [(_, found)] = await verdicts(World(world.folder), call("drop", name="5"))
    assert "arguments" not in found


async def test_shadow_rules_are_recorded_with_each_verdict(world: World, autojump_clock: MockClock) -> None:
    tried = [{"tool": "*", "then": then, "shadow": True} for then in ("deny", "run")]
    found = await verdicts(
        world, call("drop"), call("send", name="x"), call("wipe"), call("gone"), rules=tried
    )
    deny, run = (policy_of(world).ids[f"approval.rules[{index}]"] for index in (0, 1))
    both = {deny: "deny", run: "run"}
    assert {type: each.get("shadows") for type, each in found if each["action"] != "none"} == {
        "step.finished": both,
        "approval.requested": both,
    }
    assert [(each["action"], each.get("shadows")) for _, each in found].count(("ask", both)) == 2
    assert [each.get("shadows") for _, each in found if each["action"] == "none"] == [None]


async def test_calls_that_the_gate_does_not_see(world: World, autojump_clock: MockClock) -> None:
    world.settings["agent"] = {"type": "llm", "name": "agent", "prompt": "p", "tools": ["send"]}
    unreadable = attrs.evolve(call("send"), problem="no JSON")
    found = await verdicts(world, call("gone"), call("wipe"), call("send", name=[1]), unreadable)
    told = [{key: each[key] for key in ("action", "tool_name", "hints") if key in each} for _, each in found]
    assert [type for type, _ in found] == 4 * ["step.finished"]
    assert sorted(told, key=str) == sorted(
        [
            {"action": "none"},
            {"action": "none", "tool_name": "wipe", "hints": "D"},
            {"action": "none", "tool_name": "send", "hints": "d"},
            {"action": "none"},
        ],
        key=str,
    )


async def test_held_call(world: World, autojump_clock: MockClock) -> None:
    [(type, found)] = await verdicts(world, call("send"), before=lambda agent: agent.halt("drill"))
    assert (type, found["action"], found["rule"]) == ("approval.requested", "run", "destructiveHint: false")
    assert found["held"] is True
    asked = (await world.journal.questions()).questions[0]
    assert asked.body["rule"] == RULE


async def test_call_after_its_approval_has_its_own_facts(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(await only(agent), YES)
    first, second = await facts(world, turn.conversation.id)
    assert (first[0], second[0]) == ("approval.requested", "tool.started")
    assert first[1] == second[1]


async def test_each_member_records_its_own_policy(tmp_path: Path, autojump_clock: MockClock) -> None:
    members = Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))
    members.world("a").settings["approval"] = {"rules": [{"tool": "wipe", "then": "ask"}]}
    members.world("b")
    async with members.agents("a", "b") as (a, b):
        turn = await a.start_conversation("go")
        assert answer(await b.decide(await only(b), YES)).response == "done"
    own = {name: policy_of(each.world).revision for name, each in members.members.items()}
    found = await facts(members.members["a"].world, turn.conversation.id)
    assert [each["policy"] for _, each in found] == [own["a"], own["b"]]
    assert {each.revision for each in await stored_policies(members.store)} == set(own.values())


async def test_run_with_an_earlier_tree_stores_its_policy_first(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    tree = {"type": "llm", "name": "agent", "prompt": "p"}
    world.settings["agent"] = tree | {"approval": {"unannotated": "ask"}}
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    world.settings |= {"agent": tree, "approval": {"rules": [{"tool": "wipe", "then": "ask"}]}}
    async with world.agent() as agent:
        await agent.decide(await only(agent), YES)
    stored = {each.revision: each.content for each in await stored_policies(world.journal)}
    [(_, first), (_, second)] = await facts(world, turn.conversation.id)
    assert (len(stored), first["policy"] == second["policy"]) == (3, False)
    [node] = stored[second["policy"]]["nodes"]
    assert (node["unannotated"], len(node["rules"])) == ("ask", 1)


# ------------------------------------------------------------------ revisions in the journal


async def test_policy_is_stored_once_and_mended(world: World, autojump_clock: MockClock) -> None:
    rule = {"then": "deny", "arguments": {"name": {"one_of": [str(number) for number in range(2000)]}}}
    world.settings["approval"] = {"rules": [{"tool": "*", **rule}]}
    world.tool("send")
    for _ in range(2):
        async with world.agent():
            pass
        await trio.sleep(1)
    policy = policy_of(world)
    notes = dict(await world.journal.notes(NOTE))
    assert len(notes) > 3
    [stored] = await stored_policies(world.journal)
    assert (stored.revision, stored.content) == (policy.revision, policy.content)
    await world.journal.take_note(NOTE, f"{policy.revision}.1")
    assert await stored_policies(world.journal) == []
    async with world.agent():
        pass
    assert [each.revision for each in await stored_policies(world.journal)] == [policy.revision]


@pytest.mark.parametrize(
    "note", [None, {}, {"since": "x", "of": 1, "text": "{}"}, {"since": 1, "of": 1, "text": "{}"}]
)
async def test_damaged_revisions_are_left_out(note: Json | None, autojump_clock: MockClock) -> None:
    class Notes(MemoryJournal):
        async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
            return {"0f.0": note}

    assert await stored_policies(Notes(wall)) == []


# ------------------------------------------------------------------ judging again


HINTS = st.builds(Hints, *4 * [st.sampled_from([None, True, False])], contradiction_asks=st.booleans())
TOOLS = st.builds(
    Tool,
    st.sampled_from(["t", "mcp__s__t"]),
    st.just(""),
    st.just({}),
    st.sampled_from(["s", "a2a:s"]),
    hints=HINTS,
    listed_hints=HINTS,
    own_name=st.sampled_from(["t", "mcp__s__t", "u"]),
    facade=st.sampled_from([None, "mcp_s"]),
    misleading=st.booleans(),
)
PATTERNS = ["t", "u", "mcp__s__*", "mcp__s__u", "mcp_s", "x"]
POLICY_RULES = st.builds(
    Rule,
    then=st.sampled_from(["run", "ask", "deny"]),
    tool=st.sampled_from([None, *PATTERNS]),
    effect=st.sampled_from([None, "read", "idempotent", "once"]),
)


@given(tool=TOOLS, rules=st.lists(POLICY_RULES, max_size=3), parallel=st.booleans())
def test_gate_judges_recorded_facts_as_it_judged_the_tool(
    tool: Tool, rules: Sequence[Rule], parallel: bool
) -> None:
    scope = PolicyScope(node="n", in_parallel=parallel, policy=ApprovalConfig(rules=tuple(rules)))
    recorded = VerdictFacts(action="run", policy="0f", **facts_of_tool(tool))
    again = recorded.tool(tool.name, tool.server, contradiction_asks=tool.hints.contradiction_asks)
    assert judge(again, {}, scope) == judge(tool, {}, scope)


@pytest.mark.parametrize("letters", ["x", "rr", "dr", "Rr", "é"])
def test_damaged_hints_are_refused(letters: str) -> None:
    with pytest.raises(ValueError, match="letters"):
        hints_of(letters)
