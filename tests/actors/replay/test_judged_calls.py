"""Recorded calls under other rules: the verdict, how sure it is, and what people had decided."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.replay.judged_call import JudgedCall
from stopgo.actors.replay.replay_report import CallFilter, group_of
from stopgo.actors.tools.tool import Hints
from stopgo.runtime.journal import passage as passages
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.passage import Passage, PassagePlace, StoredEvent, WantedEvents
from tests.actors.gate.test_halt import only
from tests.actors.nodes.test_refused_calls import GOOD, Guarded
from tests.actors.replay.judging import replay_of
from tests.actors.several_members import LEASE, YES, Members
from tests.actors.world import (
    DESTRUCTIVE,
    EPOCH,
    READ_ONLY,
    World,
    call,
    llm,
    parallel,
    say,
    sequential,
    use,
    wall,
)
from tests.canary import TOKEN as STALE

NO = {"approved": False, "reason": "not now"}
RUN = {"rules": [{"tool": "wipe", "then": "run"}]}
DENY = {"rules": [{"tool": "wipe", "then": "deny"}]}
ASK = {"rules": [{"tool": "*", "then": "ask"}]}


def seen(found: Sequence[JudgedCall]) -> list[tuple[Any, ...]]:
    return [(each.call.tool, each.was, each.now, each.sure) for each in found]


async def lived(world: World, *calls: Any, decisions: Sequence[Mapping[str, Any]] = ()) -> str:
    """A conversation with a reply for each call, and decisions about the approvals, one after the other."""
    world.tool("send")
    world.tool("wipe", DESTRUCTIVE)
    replies = [use(*each) if isinstance(each, tuple) else use(each) for each in calls]
    world.plan("agent", *replies, say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        for decision in decisions:
            await agent.decide(await only(agent), decision)
    return turn.conversation.id


async def test_same_rules_give_the_same_verdicts(world: World, autojump_clock: MockClock) -> None:
    await lived(world, call("send"), call("wipe"), call("gone"), call("send", name=[1]), decisions=[YES])
    found, report = await replay_of(world)
    assert seen(found) == [
        ("send", "run", "run", "exact"),
        ("wipe", "ask", "ask", "exact"),
        ("gone", "none", "none", "exact"),
        ("send", "none", "none", "exact"),
    ]
    assert (report.groups, report.is_incomplete) == ({}, False)


@pytest.mark.parametrize(
    ("settings", "decision", "now", "change", "after"),
    [
        ({}, YES, "ask", "same", "exact"),
        ({}, NO, "ask", "same", "exact"),
        (RUN, YES, "run", "loosened", "exact"),
        (RUN, NO, "run", "loosened", "bounded"),
        (RUN, {"approved": True, "arguments": {"name": "x"}}, "run", "loosened", "bounded"),
        ({}, {"approved": True, "arguments": {"name": "x"}}, "ask", "same", "exact"),
        (
            {"rules": [{"tool": "wipe", "arguments": {"name": "x"}, "then": "deny"}]},
            {"approved": True, "arguments": {"name": "x"}},
            "ask",
            "same",
            "bounded",
        ),
        (DENY, YES, "deny", "tightened", "bounded"),
        ({"expires_after": 60}, YES, "ask", "same", "exact"),
    ],
)
async def test_later_calls_are_exact_if_the_earlier_would_have_gone_the_same_way(
    world: World,
    autojump_clock: MockClock,
    settings: Any,
    decision: Any,
    now: str,
    change: str,
    after: str,
) -> None:
    await lived(world, call("wipe"), call("send"), decisions=[decision])
    (first, second), report = await replay_of(world, approval=settings)
    assert (first.was, first.now, first.sure, first.change) == ("ask", now, "exact", change)
    assert (second.now, second.sure, second.change) == ("run", after, "same")
    refused = decision != YES and settings == RUN
    assert (group_of(first) == "refused", report.groups["refused"]) == (refused, int(refused))


@pytest.mark.parametrize(
    ("arguments", "now"), [({}, ["run", "ask"]), ({"name": {"matches": "x"}}, ["ask", "run"])]
)
async def test_closed_rules_are_replayed(
    world: World, autojump_clock: MockClock, arguments: Any, now: Sequence[str]
) -> None:
    await lived(world, call("wipe"), call("wipe", name="x"), decisions=[YES, YES])
    rule = {"tool": "wipe", "then": "run", "only_these_arguments": True}
    rule |= {"arguments": arguments} if arguments else {}
    found, _ = await replay_of(world, approval={"rules": [rule]})
    assert [(each.now, each.sure) for each in found] == [(each, "exact") for each in now]


async def test_call_that_a_halt_would_hold_goes_another_way(world: World, autojump_clock: MockClock) -> None:
    world.tool("both", Hints(read_only=True, destructive=True))
    world.plan("agent", use(call("both")), use(call("both")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    rules = {"rules": [{"tool": "both", "then": "run"}]}
    for hints, sure in (("read_only", "exact"), ("ask", "bounded")):
        found, _ = await replay_of(world, approval={**rules, "contradictory_hints": hints})
        assert [(each.now, each.sure) for each in found] == [("run", "exact"), ("run", sure)]


async def test_decision_that_would_have_come_too_late(world: World, autojump_clock: MockClock) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), use(call("wipe")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
        await trio.sleep(100)
        await agent.decide(await only(agent), YES)
    found, _ = await replay_of(world, approval={"expires_after": 50})
    assert [each.sure for each in found] == ["exact", "bounded"]
    found, _ = await replay_of(world, approval={"expires_after": 200})
    assert [each.sure for each in found] == ["exact", "exact"]


async def test_history_of_a_conversation_has_its_earlier_turns(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.tool("send")
    world.plan("agent", use(call("send")), say("done"))
    async with world.agent() as agent:
        for _ in range(2):
            id = (await agent.start_conversation("go")).conversation.id
            await agent.send(id, "again")
    found, _ = await replay_of(world, approval=ASK)
    assert [(each.now, each.sure) for each in found] == 2 * [("ask", "exact"), ("ask", "bounded")]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"agent": llm("other")}, (None, "unknown")),
        ({"agent": sequential("all", llm("before"), llm("agent"))}, ("ask", "bounded")),
        ({"agent": llm("agent", tools=["send"])}, ("none", "bounded")),
        ({"agent": llm("agent", tools=["wipe"])}, ("ask", "bounded")),
        ({"agent": llm("agent", mcp_servers=["tools"])}, ("ask", "bounded")),
        ({"mcp_servers": []}, ("none", "bounded")),
        (
            {"mcp_servers": [{"name": "tools", "command": "none", "tools": {"exclude": ["wipe"]}}]},
            ("none", "bounded"),
        ),
        ({"tool_names": "prefixed"}, ("ask", "bounded")),
        ({"agent": parallel("all", llm("agent"))}, ("run", "bounded")),
    ],
)
async def test_other_nodes_and_servers(
    world: World, autojump_clock: MockClock, change: Any, expected: tuple[str | None, str]
) -> None:
    await lived(world, call("wipe"), decisions=[YES])
    world.settings["agent"] = llm("agent")
    [found], report = await replay_of(world, **change)
    assert (found.now, found.sure) == expected
    assert report.is_incomplete == (expected[0] is None)


async def test_call_of_a_tool_that_its_node_could_not_use_is_unknown_if_it_can_now(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["agent"] = llm("agent", tools=["send"])
    await lived(world, call("wipe"), call("gone"))
    found, report = await replay_of(world, agent=llm("agent"))
    assert seen(found) == [("wipe", "none", None, "unknown"), ("gone", "none", "none", "bounded")]
    assert report.reasons == {"its arguments were not checked": 1}


async def test_each_call_is_compared_with_the_policy_of_its_own_process(
    tmp_path: Path, autojump_clock: MockClock
) -> None:
    """Process a has a filter that b and the new file lack: only the call of b is exact."""
    members = Members(tmp_path, MemoryJournal(wall, lease=LEASE, member="a"))
    world, other = members.world("a"), members.world("b")
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "tools": {"exclude": ["x"]}}]
    async with members.agents("a", "b") as agents:
        for agent in agents:
            await agent.start_conversation("go")
    found, _ = await replay_of(other, journal=members.store)
    assert [(each.was, each.now, each.sure) for each in found] == [
        ("ask", "ask", "exact"),
        ("ask", "ask", "bounded"),
    ]


async def test_call_that_a_halt_holds_is_not_loosened(world: World, autojump_clock: MockClock) -> None:
    world.tool("send")
    world.plan("agent", use(call("send")), say("done"))
    async with world.agent() as agent:
        await agent.halt("drill")
        await agent.start_conversation("go")
        await agent.decide(await only(agent), NO)
    [found], report = await replay_of(world)
    assert (found.was, found.now, found.change, report.groups) == ("run", "run", "same", {})


async def test_calls_without_facts_or_policy_are_unknown(world: World, autojump_clock: MockClock) -> None:
    await lived(world, call("send"))
    found, _ = await replay_of(world, journal=Edited(world.journal, lambda each: _without_facts(each)))
    assert (seen(found), found[0].rule) == ([("send", None, None, "unknown")], "no facts on record")
    for key in await world.journal.notes("policy"):
        await world.journal.take_note("policy", key)
    found, report = await replay_of(world)
    assert seen(found) == [("send", "run", None, "unknown")]
    assert report.reasons == {"its policy is not in the journal": 1}


async def test_weaker_quorum_is_a_loosening(tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path)
    world.settings |= {"auth": {"api_keys": True}, "approval": {"rules": [{**ASK["rules"][0], "quorum": 2}]}}
    await lived(world, call("send"))
    for quorum, change in ((1, "loosened"), (2, "same"), (3, "tightened")):
        [found], _ = await replay_of(world, approval={"rules": [{**ASK["rules"][0], "quorum": quorum}]})
        assert (found.now, found.change) == ("ask", change)


@pytest.mark.parametrize(
    ("wanted", "tools"),
    [
        (CallFilter(tool="w*"), ["wipe"]),
        (CallFilter(tool="tools"), []),
        (CallFilter(server="tools"), ["send", "wipe"]),
        (CallFilter(node="x"), []),
        (CallFilter(limit=1), ["send"]),
        (CallFilter(since=EPOCH), ["send", "wipe"]),
        (CallFilter(until=EPOCH), []),
    ],
)
async def test_calls_that_count(
    world: World, autojump_clock: MockClock, wanted: CallFilter, tools: list[str]
) -> None:
    await lived(world, call("send"), call("wipe"))
    found, report = await replay_of(world, wanted)
    assert [each.call.tool for each in found] == tools
    assert report.calls == len(tools)


async def test_history_has_the_calls_that_do_not_count(world: World, autojump_clock: MockClock) -> None:
    await lived(world, call("wipe"), call("send"), decisions=[YES])
    [found], _ = await replay_of(world, CallFilter(tool="send"), approval=DENY)
    assert found.sure == "bounded"


async def test_answered_call_is_one_that_a_person_did_not_want(
    world: World, autojump_clock: MockClock
) -> None:
    await lived(world, call("wipe"), decisions=[{"action": "respond", "result": "use b"}])
    [found], _ = await replay_of(world, approval={"rules": [{"tool": "wipe", "then": "run"}]})
    assert (found.call.answer, found.lets_refused_run) == ("answered", True)


async def test_report(world: World, autojump_clock: MockClock) -> None:
    await lived(world, call("wipe", name="a"), call("wipe", name="b"), call("send"), decisions=[YES, NO])
    rules = {"rules": [{"tool": "x", "then": "deny"}, {"tool": "wipe", "then": "run"}]}
    found, report = await replay_of(world, approval=rules)
    never, hit, hint = report.rules.values()
    assert (never.hits, never.text) == (0, "approval.rules[0] (tool: x): deny")
    assert (hit.hits, hit.changes, hit.answers) == (2, 2, {"approved": 1, "rejected": 1})
    assert (hint.hits, hint.changes, hint.text) == (1, 0, "destructiveHint: false")
    assert report.verdicts == {("ask", "run"): 2, ("run", "run"): 1}
    [refused] = report.listed["refused"]
    assert (refused["arguments"], refused["answer"]) == ({"name": "b"}, "rejected")
    assert refused["was"] == {"verdict": "ask", "rule": "destructiveHint: true"}
    assert refused["now"] == {"verdict": "run", "rule": "approval.rules[1] (tool: wipe): run"}
    both = attrs.evolve(report)
    both.merge((await replay_of(world, approval=rules))[1])
    assert (both.calls, both.groups["refused"], both.rules[found[0].rule].hits) == (6, 2, 4)


async def test_secrets_in_arguments_are_masked(world: World, autojump_clock: MockClock) -> None:
    hidden = {"password": "hunter22", "name": "postgres://u:hunter22@db", "in": [{"api_key": "x1"}]}
    schema = {"type": "object"}
    world.tool("wipe", DESTRUCTIVE, schema=schema)
    world.plan("agent", use(call("wipe", **hidden)), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
    _, report = await replay_of(world, approval=RUN)
    [listed] = report.listed["loosened"]
    assert listed["arguments"] == {"password": "***", "name": "postgres://***@db", "in": [{"api_key": "***"}]}


# ------------------------------------------------------------------ damage


@attrs.frozen
class Edited:
    """A journal whose events are not what was written."""

    journal: Any
    change: Callable[[StoredEvent], StoredEvent]

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        found = await self.journal.passage(wanted, at)
        events = [self.change(each) for each in found.events]
        return Passage(events, found.next)

    async def notes(self, kind: str, *, after: int = 0) -> Any:
        return await self.journal.notes(kind, after=after)


def _without_facts(event: StoredEvent) -> StoredEvent:
    head, mark, _ = event.body.partition(',"verdict":')
    return event._replace(body=f"{head}}}") if mark else event


def damaging(type: str, /, **values: Any) -> Callable[[StoredEvent], StoredEvent]:
    return lambda event: event._replace(**values) if event.type == type else event


@pytest.mark.parametrize(
    ("type", "values", "why"),
    [
        ("approval.resolved", {"body": '{"id":'}, "JSONDecodeError"),
        ("approval.resolved", {"body": "[]"}, "expected a JSON object"),
        ("approval.resolved", {"body": '{"id":"x","decision":{"approved":false}}'}, "no question has the id"),
        ("approval.resolved", {"body": b"\xff"}, "expected text"),
        ("approval.resolved", {"at": "soon"}, "'soon' is no time"),
        ("approval.resolved", {"at": float("inf")}, "'inf' is no time"),
        ("approval.resolved", {"at": 1e15}, "is no time"),
        ("approval.resolved", {"type": "approval.resolvee"}, "is no type of an event"),
        ("approval.resolved", {"type": b"\xff"}, "is no type of an event"),
        ("approval.resolved", {"type": None}, "is no type of an event"),
    ],
)
async def test_damaged_decision_is_no_approval(
    world: World, autojump_clock: MockClock, type: str, values: Any, why: str
) -> None:
    await lived(world, call("wipe"), call("send"), decisions=[NO])
    journal = Edited(world.journal, damaging(type, **values))
    found, report = await replay_of(world, journal=journal, approval=RUN)
    assert [(each.call.answer, each.sure) for each in found] == [("unknown", "exact"), (None, "bounded")]
    assert (report.answers_unknown, report.damage.events, report.is_incomplete) == (1, 1, True)
    [reason] = report.damage.named.values()
    assert why in reason


async def test_edited_call_stays_edited_when_the_edit_is_approved(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["approval"] = {"rules": [{"tool": "wipe", "arguments": {"name": "x"}, "then": "ask"}]}
    edit = {"approved": True, "arguments": {"name": "x"}}
    await lived(world, call("wipe"), call("send"), decisions=[edit, YES])
    (first, second), report = await replay_of(world, approval=RUN)
    assert (first.call.asked, first.call.answer, group_of(first)) == (2, "edited", "refused")
    assert (second.sure, report.groups["refused"]) == ("bounded", 1)


async def test_damaged_second_decision_is_no_approval(world: World, autojump_clock: MockClock) -> None:
    world.settings["approval"] = {"rules": [{"tool": "wipe", "arguments": {"name": "x"}, "then": "ask"}]}
    edit = {"approved": True, "arguments": {"name": "x"}}
    await lived(world, call("wipe"), decisions=[edit, NO])
    journal = Edited(
        world.journal,
        lambda event: event._replace(body="{}") if '"approved":false' in str(event.body) else event,
    )
    [found], report = await replay_of(world, journal=journal, approval=RUN)
    assert (found.call.answer, group_of(found)) == ("unknown", "refused")
    assert report.answers_unknown == 1


async def test_damaged_second_question_is_a_question(world: World, autojump_clock: MockClock) -> None:
    world.settings["approval"] = {"rules": [{"tool": "wipe", "arguments": {"name": "x"}, "then": "ask"}]}
    await lived(world, call("wipe"), decisions=[{"approved": True, "arguments": {"name": "x"}}, NO])

    def change(event: StoredEvent) -> StoredEvent:
        if event.type == "approval.requested" and '"x"' in str(event.body):
            return event._replace(body=json.dumps({**json.loads(event.body), "verdict": 5}))
        return event._replace(body="{}") if '"approved":false' in str(event.body) else event

    [found], report = await replay_of(world, journal=Edited(world.journal, change), approval=RUN)
    assert (found.call.asked, found.call.answer, report.damage.events) == (2, "unknown", 2)


@pytest.mark.parametrize("decision", ["yes", {"approved": 1}, {}, None])
async def test_decision_that_is_neither_yes_nor_no(
    world: World, autojump_clock: MockClock, decision: Any
) -> None:
    await lived(world, call("wipe"), decisions=[NO])

    def change(event: StoredEvent) -> StoredEvent:
        if event.type != "approval.resolved":
            return event
        return event._replace(body=json.dumps({**json.loads(event.body), "decision": decision}))

    [found], report = await replay_of(world, journal=Edited(world.journal, change), approval=RUN)
    assert (found.call.answer, report.damage.events) == ("unknown", 1)


async def test_decision_that_is_not_there_at_all(world: World, autojump_clock: MockClock) -> None:
    """Its event is another decision, about another question."""
    await lived(world, call("wipe"), decisions=[YES])
    question = json.dumps({"id": "q", "key": "1/~0", "kind": "checkpoint"})
    change = damaging("approval.resolved", type="approval.requested", body=question)
    [found], report = await replay_of(world, journal=Edited(world.journal, change), approval=RUN)
    assert (found.call.answer, report.is_incomplete) == ("unknown", True)


async def test_damaged_events_are_counted_and_the_rest_is_judged(
    world: World, autojump_clock: MockClock
) -> None:
    await lived(world, call("wipe"), decisions=[NO])
    sound = await lived(world, call("send"))
    journal = Edited(
        world.journal,
        lambda event: event if event.stream == sound else damaging("approval.requested", body="{}")(event),
    )
    found, report = await replay_of(world, journal=journal)
    assert [(each.call.stream, each.sure) for each in found] == [(sound, "exact")]
    assert report.damage.events == 2  # the question, and the decision about it
    assert sound not in report.damage.named


async def test_passages_of_a_few_bytes_give_the_same(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        await lived(world, call("wipe"), (call("send"), call("wipe")), decisions=[YES, NO])
    whole = seen((await replay_of(world, approval=RUN))[0])
    for size in (1, 300, 2000):
        monkeypatch.setattr(passages, "MOST_BYTES", size)
        assert seen((await replay_of(world, approval=RUN))[0]) == whole
    assert len(whole) == 9


# ------------------------------------------------------------------ judged on other facts later

PUT = {"rules": [{"tool": "put", "then": "run"}]}


@pytest.mark.parametrize(
    ("decision", "settings", "now", "change", "is_refused"),
    [
        (NO, {}, "run", "same", False),
        (NO, PUT, "run", "loosened", True),
        (YES, PUT, "run", "loosened", False),
        (NO, ASK, "ask", "tightened", False),
    ],
)
async def test_rejection_of_a_call_whose_tool_became_destructive_counts(
    tmp_path: Path,
    autojump_clock: MockClock,
    decision: Any,
    settings: Any,
    now: str,
    change: str,
    is_refused: bool,
) -> None:
    """The gate let the call run, its server demanded another token, and by then the call had to ask."""
    world = Guarded(tmp_path)
    world.settings["mcp_servers"] = [{"name": "tools", "url": "http://127.0.0.1:1/mcp"}]
    world.plan("agent", use(call("put", name="a")), say("done"))
    world.tool("put", READ_ONLY)
    async with world.agent() as agent:
        id = (await agent.start_conversation("go", token=STALE)).conversation.id
    world.tool("put", DESTRUCTIVE)
    async with world.agent() as agent:
        await agent.resume(id, token=GOOD)
        await agent.decide(await only(agent), decision, token=GOOD)
    [found], report = await replay_of(world, approval=settings)
    assert (found.was, found.now, found.change) == ("run", now, change)
    assert (group_of(found) == "refused", report.groups["refused"]) == (is_refused, int(is_refused))
