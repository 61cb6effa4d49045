"""`GET /policy/report` and `stopgo policy report`: what the rules decided, and what people decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.replay import rule_report
from stopgo.actors.replay.recorded_call import Answer, RecordedCall
from stopgo.actors.replay.rule_report import DAY, KEPT, RuleReport
from stopgo.actors.tools.verdict_facts import VerdictFacts
from stopgo.gateway.cli.commands.policy_report import report_lines, reported
from stopgo.gateway.cli.main import main
from stopgo.gateway.rest.policy_report_view import report_view
from stopgo.runtime.journal.sqlite.sqlite_journal import FILE, open_sqlite
from stopgo.runtime.json_text import dump_wire
from tests.actors.calls.test_verdict_facts import policy_of
from tests.actors.several_members import YES
from tests.actors.world import DESTRUCTIVE, World, call, say, use, wall

NO = {"approved": False}
EDIT = {"approved": True, "arguments": {"name": "better"}}
RULES = [
    {
        "tool": "wipe",
        "then": "run",
        "arguments": {"name": "small"},
        "only_these_arguments": True,
        "shadow": True,
    },
    {"tool": "drop", "then": "deny"},
    {"tool": "wipe", "then": "ask"},
]


def figures(of: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(of[name] for name in ("hits_24h", "hits_7d", "hits_30d", "approved", "edited", "rejected"))


async def told(world: World, *decisions: Any) -> None:
    """One turn after the other with three calls of `wipe`, which are decided, and a few others."""
    for name in ("drop", "send"):
        world.tool(name)
    world.tool("wipe", DESTRUCTIVE)
    world.settings["approval"] = {"rules": RULES}
    calls = [call("wipe", name="small"), call("wipe", name="large"), call("wipe")]
    world.plan("agent", use(*calls, call("drop"), call("send"), call("gone")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
        for decision in decisions:
            await trio.sleep(10)
            await agent.decide((await agent.approvals()).approvals[0], decision)


async def test_report_has_what_rules_and_people_decided(
    serve: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = World(tmp_path)
    await told(world, YES, EDIT, NO)
    async with world.agent() as agent, serve(agent) as (_, client):
        found = (await client.get("/policy/report")).json()
        assert (found["calls"], found["unknown"], found["cut"], found["damaged_events"]) == (6, 0, False, 0)
        assert found["revision"] == agent.policy_revision
    tried, denies, asks = found["rules"]
    assert (tried["shadow"], tried["current"], tried["id"] in tried["text"]) == (True, True, False)
    assert figures(tried) == (1, 1, 1, 1, 0, 0)
    assert tried["shadow_verdicts"] == [{"action": "run", "was": "ask", "hits_30d": 1}]
    assert figures(denies) == (1, 1, 1, 0, 0, 0)
    assert (figures(asks), asks["median_wait_seconds"]) == ((3, 3, 3, 1, 1, 1), 20)
    [hint] = found["settings"]
    assert (hint["text"], figures(hint)) == ("destructiveHint: false", (1, 1, 1, 0, 0, 0))
    tools = {each["tool"]: (each["ran"], each["asked"], each["denied"]) for each in found["tools"]}
    assert tools == {"drop": (0, 0, 1), "send": (1, 0, 0), "wipe": (0, 3, 0)}
    lines = list(report_lines(found))
    assert lines[0].startswith(f"policy {found['revision']}: 6 calls from ")
    assert any(line.endswith("in shadow: run, was ask: 1") for line in lines)


async def test_journal_is_read_without_an_agent(tmp_path: Path, autojump_clock: MockClock) -> None:
    data = tmp_path / "kept"
    async with open_sqlite(data, wall=wall, inline=True) as journal:
        world = World(tmp_path, journal)
        await told(world, YES)
    before = (data / FILE).read_bytes()
    found = await reported(data, wall())
    assert (found["calls"], found["damaged_events"], found["revision"]) == (6, 0, policy_of(world).revision)
    assert figures(found["rules"][2]) == (3, 3, 3, 1, 0, 0)
    assert (data / FILE).read_bytes() == before


def test_journal_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "report", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"stopgo policy report: {tmp_path} has no journal\n"


async def test_rule_without_a_call_was_never_hit(
    serve: Any, tmp_path: Path, autojump_clock: MockClock
) -> None:
    world = World(tmp_path)
    await told(world, YES, YES, YES)
    world.settings["approval"] = {"rules": [{"tool": "send", "then": "ask"}]}
    async with world.agent() as agent, serve(agent) as (_, client):
        found = (await client.get("/policy/report")).json()
    assert [each["current"] for each in found["rules"]] == [True, False, False, False]
    assert (figures(found["rules"][0]), "last_hit" in found["rules"][0]) == ((0,) * 6, False)
    [line] = [line for line in report_lines(found) if line.endswith("(tool: send): ask")]
    assert "  never " in line
    assert sum(line.endswith(" (former)") for line in report_lines(found)) == 3


async def test_report_is_made_once_a_minute(serve: Any, tmp_path: Path, autojump_clock: MockClock) -> None:
    world = World(tmp_path)
    await told(world)
    async with world.agent() as agent:
        first = await agent.policy_report()
        await trio.sleep(KEPT)
        assert await agent.policy_report() is first
        await trio.sleep(1)
        assert (await agent.policy_report()).now > first.now


@pytest.mark.parametrize("named", [False, True])
def test_damaged_events_are_counted_and_named(named: bool) -> None:
    report = RuleReport(100.0)
    report.damage.add("c", "event 3: ValueError: no")
    view = json.loads(dump_wire(report_view(report, [], "0f", names_damage=named)))
    assert view["damaged_events"] == 1
    assert ("damaged" in view) is named
    lines = list(report_lines(view))
    assert lines[1] == "1 events cannot be read, and are left out"
    assert (lines[2] == "  c: event 3: ValueError: no") is named


FACTS = VerdictFacts(action="ask", policy="0f", rule="r", shadows={"s": "run", "r": "deny"})


def recorded(at: float, answer: Answer | None = None, **changes: Any) -> RecordedCall:
    found = RecordedCall("c", 1, at, "1/:1.0", "n", "t", "s", FACTS, {}, answer=answer, waited=2.0)
    return attrs.evolve(found, **changes)


def test_windows_and_answers() -> None:
    now = 100 * DAY
    report = RuleReport(now)
    calls = [
        recorded(now - 31 * DAY),
        recorded(now - 30 * DAY, "void"),
        recorded(now - 7 * DAY, "expired"),
        recorded(now - DAY, "edited"),
        recorded(now, "pending", facts=None),
        recorded(now, server="", facts=attrs.evolve(FACTS, action="none", rule="", shadows={})),
        recorded(now, "rejected", waited=4.0, facts=attrs.evolve(FACTS, action="run", held=True, shadows={})),
    ]
    assert all(map(report.take, calls))
    assert (report.calls, report.unknown, report.is_cut) == (6, 1, False)
    rule, tool = report.rules["r"], report.tools["s", "t"]["n"]
    assert (rule.hits, rule.last, rule.median_wait) == ([2, 3, 4], now, 3.0)
    assert rule.answers == {"void": 1, "expired": 1, "edited": 1, "rejected": 1}
    assert rule.shadow == {("deny", "ask"): 3}
    assert (tool.hits, tool.actions) == ([3, 4, 5], {"ask": 4})
    assert report.rules["s"].hits == [1, 2, 3]


async def test_report_of_many_calls_is_cut(
    tmp_path: Path, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_report, "MOST_CALLS", 2)
    world = World(tmp_path)
    await told(world)
    async with world.agent() as agent:
        report = await agent.policy_report()
    assert (report.calls, report.is_cut) == (2, True)
    assert "; older ones are left out" in next(
        report_lines(json.loads(dump_wire(report_view(report, [], "", names_damage=True))))
    )
