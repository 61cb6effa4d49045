"""Which hints of a tool count when its server says other than it said before."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.gate.gate import Action, PolicyScope, by_hints, effect_class
from stopgo.actors.tools import known
from stopgo.actors.tools.known import STRICTEST, KnownTools, stricter_hints
from stopgo.actors.tools.names import hashed, prefixed_name
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.approval import ApprovalConfig
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    IDEMPOTENT,
    READ_ONLY,
    World,
    answer,
    call,
    code_of,
    say,
    use,
)

SAYS = (None, True, False)
ALL = tuple(
    Hints(*said, contradiction_asks=asks)
    for asks in (False, True)
    for said in itertools.product(SAYS, SAYS, SAYS)
)
LISTED = READ_ONLY.to_json()
UNANNOTATED = Hints()


def tool(hints: Hints, name: str = "drop_all", **more: Any) -> Tool:
    return Tool(name, "", {}, "tools", hints=hints, **more)


# ------------------------------------------------------------------- which is stricter

PLACES = [
    PolicyScope(in_parallel=parallel, policy=ApprovalConfig(unannotated=unannotated, in_parallel=in_parallel))
    for parallel in (False, True)
    for unannotated in ("run", "ask")
    for in_parallel in ("run", "ask")
]
ORDER: tuple[Action, ...] = ("run", "ask", "deny")
CLASSES = ("read", "idempotent", "once")


@pytest.mark.parametrize("place", PLACES)
def test_stricter_hints_are_the_least_upper_bound(place: PolicyScope) -> None:
    def asks(hints: Hints) -> int:
        return ORDER.index(by_hints(tool(hints), place).action)

    def sent(hints: Hints, *, approved: bool) -> int:
        return CLASSES.index(effect_class(tool(hints), approved=approved))

    for one, other in itertools.product(ALL, ALL):
        both = stricter_hints(one, other)
        assert asks(both) == max(asks(one), asks(other)), (one, other)
        for approved in (False, True):
            of_each = sent(one, approved=approved), sent(other, approved=approved)
            assert sent(both, approved=approved) == max(of_each), (one, other)


listings = st.lists(st.sampled_from(ALL) | st.none(), max_size=12)


@given(listings, st.booleans())
def test_strictest_hints_of_the_whole_history_count(history: list[Hints | None], asks: bool) -> None:
    """The stricter_hints of all there ever was counts, over restarts and times in which the tool is away."""

    async def live() -> None:
        journal, worst = MemoryJournal(), (0, 0)
        for hints in history:
            tools = KnownTools(journal, contradiction_asks=asks)
            await tools.load(["tools"])
            offered = () if hints is None else (tool(attrs.evolve(hints, contradiction_asks=asks)),)
            await tools.take("tools", offered)
            for each in tools.counting(offered):
                worst = cast(tuple[int, int], tuple(map(max, worst, each.listed_hints.strictness)))
                assert each.hints.strictness == worst

    trio.run(live)


# ---------------------------------------------------------------------- in an agent


def held(agent: Agent) -> dict[str, Any]:
    return {each.own_name: each.listed_hints.to_json() for tool in agent.tools() for each in tool.held}


def hash_of(agent: Agent, name: str = "drop_all") -> str:
    [found] = [each.hash for tool in agent.tools() for each in tool.held if each.own_name == name]
    return found


@pytest.fixture
def dropping(world: World) -> World:
    world.tool("drop_all", DESTRUCTIVE)
    world.plan("agent", use(call("drop_all")), say("done"))
    return world


async def change(world: World, hints: Hints, **more: Any) -> None:
    world.tool("drop_all", hints, **more)
    world.relist("tools")
    await trio.sleep(1)


async def waits(agent: Agent) -> bool:
    return answer(await agent.start_conversation("go")).state == "waiting"


@pytest.mark.parametrize("weaker", [READ_ONLY, HARMLESS, IDEMPOTENT, UNANNOTATED])
async def test_weaker_hints_ask_until_a_person_accepts_them(
    dropping: World, autojump_clock: MockClock, weaker: Hints, caplog: pytest.LogCaptureFixture
) -> None:
    async with dropping.agent() as agent:
        assert await waits(agent)
        await change(dropping, weaker)
        assert await waits(agent)
        [listed] = agent.tools()
        assert (listed.policy, listed.tool.hints, held(agent)) == (
            "ask",
            DESTRUCTIVE,
            {"drop_all": weaker.to_json()},
        )
        health = agent.health()
        assert health.ready
        [said] = health.servers[0].held
        assert said.startswith("drop_all: ")
        assert "destructiveHint true -> " in said
        dropping.relist("tools")
        await trio.sleep(1)
        [warning] = [each.message for each in caplog.records if "weaker" in each.message]
        assert "drop_all (" in warning
    async with dropping.agent() as agent:  # what is listed at the start is looked at like a change
        assert await waits(agent)
        accepted = await agent.accept_tool("drop_all", hash_of(agent))
        assert (accepted.policy, accepted.tool.held, held(agent)) == ("run", False, {})
        assert not await waits(agent)
    async with dropping.agent() as agent:
        assert not await waits(agent)
        assert agent.health().servers[0].held == ()


async def test_its_effect_class_is_the_stricter_one_too(dropping: World, autojump_clock: MockClock) -> None:
    dropping.settings["approval"] = {"rules": [{"effect": "once", "then": "deny"}]}
    async with dropping.agent() as agent:
        await change(dropping, IDEMPOTENT)
        assert [each.policy for each in agent.tools()] == ["deny"]
        await agent.accept_tool("drop_all", hash_of(agent))
        assert [each.policy for each in agent.tools()] == ["run"]


async def test_a_stricter_definition_counts_at_once_and_stays(
    dropping: World, autojump_clock: MockClock
) -> None:
    dropping.tool("drop_all", READ_ONLY)
    async with dropping.agent() as agent:
        assert not await waits(agent)
        await change(dropping, DESTRUCTIVE)
        assert await waits(agent)
        assert held(agent) == {}
        await change(dropping, READ_ONLY)  # what counted first is forgotten
        assert await waits(agent)
        assert held(agent) == {"drop_all": LISTED}


async def test_hints_that_get_stricter_are_not_held(dropping: World, autojump_clock: MockClock) -> None:
    dropping.tool("drop_all", READ_ONLY)
    async with dropping.agent() as agent:
        await change(dropping, IDEMPOTENT)
        assert held(agent) == {}
        assert [each.tool.hints for each in agent.tools()] == [IDEMPOTENT]


async def test_a_tool_that_comes_back_is_known(dropping: World, autojump_clock: MockClock) -> None:
    dropping.tool("other")
    async with dropping.agent() as agent:
        del dropping.tools["drop_all"]
        dropping.relist("tools")
        await trio.sleep(1)
        assert [each.tool.name for each in agent.tools()] == ["other"]
    async with dropping.agent() as agent:
        await change(dropping, READ_ONLY)
        assert await waits(agent)


async def test_a_name_that_looks_the_same_makes_no_new_tool(
    dropping: World, autojump_clock: MockClock
) -> None:
    """Models and rules see `drop_all`, whichever of the two it is."""
    async with dropping.agent() as agent:
        dropping.lists("tools", tool(DESTRUCTIVE), tool(READ_ONLY, "drop.all"))
        await trio.sleep(1)
        assert held(agent) == {}
        dropping.lists("tools", tool(READ_ONLY, "drop.all"))
        await trio.sleep(1)
        assert [(each.tool.name, each.policy) for each in agent.tools()] == [("drop_all", "ask")]
        accepted = await agent.accept_tool("drop_all", hash_of(agent, "drop.all"))
        assert accepted.policy == "run"
        assert held(agent) == {}


LONG = "drop_" + "x" * 70


@pytest.mark.parametrize(
    ("settings", "before", "now", "seen"),
    [
        # Its twin is left out: it is no reason to see the other as a new tool.
        ({}, ["drop_all", "drop all"], ["drop.all", "drop all"], "drop_all"),
        ({"tool_names": "prefixed"}, ["drop_all"], ["drop.all"], "mcp__tools__drop_all"),
        (
            {"tool_names": "prefixed"},
            [LONG],
            [prefixed_name("tools", LONG).removeprefix("mcp__tools__")],
            prefixed_name("tools", LONG),
        ),
        (
            {},
            ["drop.all", "drop all"],
            [hashed("drop_all", "tools", "drop.all")],
            hashed("drop_all", "tools", "drop.all"),
        ),
    ],
)
async def test_a_name_that_models_see_does_not_become_weaker(
    world: World,
    autojump_clock: MockClock,
    settings: dict[str, Any],
    before: list[str],
    now: list[str],
    seen: str,
) -> None:
    left_out = {"tools": {"exclude": ["drop all"]}} if "drop_all" in before else {}
    world.settings |= {"mcp_servers": [{"name": "tools", "command": "none", **left_out}], **settings}
    for name in before:
        world.tool(name, DESTRUCTIVE)
    async with world.agent():
        world.tools.clear()
    for name in now:
        world.tool(name, READ_ONLY)
    world.plan("agent", use(call(seen)), say("done"))
    async with world.agent() as agent:
        assert await waits(agent)
        assert world.ledger == []


async def test_list_of_another_server_can_change_a_known_name(
    world: World, autojump_clock: MockClock
) -> None:
    """Tools of a server are known by what they are called, whichever server has changed its list."""
    world.settings["on_duplicate"] = "prefix"
    world.tool("drop.all", DESTRUCTIVE, server="a")
    world.tool("other", READ_ONLY, server="b")
    async with world.agent() as agent:
        world.lists("b", Tool("drop_all", "", {}, "b", hints=READ_ONLY))
        await trio.sleep(1)
        world.lists("a", Tool("drop all", "", {}, "a", hints=READ_ONLY))
        await trio.sleep(1)
        assert {each.tool.name: each.policy for each in agent.tools()} == {
            "mcp__a__drop_all": "ask",
            "mcp__b__drop_all": "run",
        }


async def test_tools_of_a_server_that_is_one_tool_are_accepted_one_by_one(
    world: World, autojump_clock: MockClock
) -> None:
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "expose": "server"}]
    world.tool("drop_all", DESTRUCTIVE)
    async with world.agent() as agent:
        world.lists("tools", tool(READ_ONLY, "drop.all"))
        await trio.sleep(1)
        [listed] = agent.tools()
        assert (listed.policy, held(agent)) == ("run", {})
        await agent.accept_tool("drop.all", tool(READ_ONLY, "drop.all").hash)
        world.lists("tools", tool(READ_ONLY, "drop_all"))
        await trio.sleep(1)
        assert held(agent) == {"drop_all": LISTED}


async def test_another_description_alone_holds_nothing(dropping: World, autojump_clock: MockClock) -> None:
    async with dropping.agent() as agent:
        await change(dropping, DESTRUCTIVE, description="Harmless, really", schema={"type": "object"})
        assert held(agent) == {}


async def test_only_the_reviewed_definition_is_accepted(dropping: World, autojump_clock: MockClock) -> None:
    async with dropping.agent() as agent:
        await change(dropping, HARMLESS)
        shown = hash_of(agent)
        for more in ({"hints": READ_ONLY}, {"hints": HARMLESS, "description": "Harmless, really"}):
            await change(dropping, **more)
            assert await code_of(agent.accept_tool("drop_all", shown)) == "tool_changed"
            assert held(agent)
        await change(dropping, HARMLESS)
        assert await code_of(agent.accept_tool("drop", shown)) == "tool_not_found"
        await agent.accept_tool("drop_all", shown)
        await agent.accept_tool("drop_all", shown)
        assert not await waits(agent)
        await change(dropping, READ_ONLY)  # accepting one change accepts no other
        assert [each.tool.hints for each in agent.tools()] == [HARMLESS]
        await change(dropping, DESTRUCTIVE)
        await change(dropping, HARMLESS)
        assert await waits(agent)


async def test_trust_lets_weaker_hints_count_at_once_and_says_so(
    dropping: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    dropping.settings["approval"] = {"on_weaker_hints": "trust"}
    async with dropping.agent() as agent:
        await change(dropping, READ_ONLY)
        assert not await waits(agent)
        assert held(agent) == {}
        assert "trust): drop_all (" in caplog.text
    del dropping.settings["approval"]
    async with dropping.agent() as agent:
        assert not await waits(agent)


async def test_setting_for_contradictory_hints_applies_at_once(
    world: World, autojump_clock: MockClock
) -> None:
    """mcp-go sets `destructiveHint` on every tool (mcp/tools.go, `NewTool`)."""
    world.tool("list", Hints(read_only=True, destructive=True))
    world.plan("agent", use(call("list")), say("done"))
    ask, read_only, strict = (
        {"contradictory_hints": "ask"},
        {"contradictory_hints": "read_only"},
        {"defaults": "strict"},
    )
    for settings, asks in (
        ({}, False),
        (ask, True),
        (read_only, False),
        (strict, True),
        ({**strict, **read_only}, False),
        (ask, True),
    ):
        world.settings["approval"] = settings
        async with world.agent() as agent:
            assert (await waits(agent), held(agent)) == (asks, {}), settings


@pytest.mark.parametrize(("setting", "still"), [("read_only", True), ("ask", False)])
async def test_destructive_tool_that_begins_to_contradict_itself_still_asks(
    dropping: World, autojump_clock: MockClock, setting: str, still: bool
) -> None:
    dropping.settings["approval"] = {"contradictory_hints": setting}
    async with dropping.agent() as agent:
        before = agent.tools()[0].tool.hash
        await change(dropping, Hints(read_only=True, destructive=True))
        assert await waits(agent)
        assert bool(held(agent)) is still
        assert agent.tools()[0].tool.hash != before


async def test_a_question_about_the_earlier_definition_is_asked_anew(
    dropping: World, autojump_clock: MockClock
) -> None:
    async with dropping.agent() as agent:
        asked = (await agent.start_conversation("go")).conversation
        await change(dropping, READ_ONLY)
        turn = await agent.decide(asked.head.pending[0], {"approved": True})
        assert dropping.ledger == []
        [again] = turn.conversation.head.pending
        turn = await agent.decide(again, {"approved": True})
        assert answer(turn).response == "done"
        assert dropping.called("drop_all") == 1


async def test_facade_shows_tools_with_weaker_hints(dropping: World, autojump_clock: MockClock) -> None:
    dropping.settings["mcp_servers"] = [{"name": "tools", "command": "none", "expose": "server"}]
    dropping.tool("list", READ_ONLY)
    async with dropping.agent() as agent:
        await change(dropping, READ_ONLY)
        [listed] = agent.tools()
        assert (listed.tool.name, listed.policy, list(held(agent))) == ("mcp_tools", "ask", ["drop_all"])
        accepted = await agent.accept_tool("mcp_tools", hash_of(agent))
        assert accepted.tool.own_name == "drop_all"
        assert [each.policy for each in agent.tools()] == ["run"]


async def test_stricter_hints_count_in_a_change_that_is_refused(
    dropping: World, autojump_clock: MockClock
) -> None:
    dropping.tool("drop_all", READ_ONLY)
    dropping.tool("other", server="others")
    async with dropping.agent() as agent:
        dropping.lists("tools", tool(DESTRUCTIVE), tool(HARMLESS, "other"))
        await trio.sleep(1)
        assert {each.tool.name: each.policy for each in agent.tools()} == {"drop_all": "ask", "other": "run"}


# ------------------------------------------------------------------- what is kept of it


class Slow(MemoryJournal):
    async def write_notes(self, *args: Any, **options: Any) -> bool:
        await trio.sleep(60)
        return await super().write_notes(*args, **options)


async def test_a_definition_counts_when_it_is_on_disk(dropping: World, autojump_clock: MockClock) -> None:
    """So no crash makes a tool new again after it was called."""
    dropping.journal = Slow()
    async with dropping.agent() as agent:
        dropping.tool("later", READ_ONLY)
        dropping.relist("tools")
        await trio.sleep(59)
        assert [each.tool.name for each in agent.tools()] == ["drop_all"]
        await trio.sleep(2)
        assert [each.tool.name for each in agent.tools()] == ["drop_all", "later"]


async def test_of_two_tools_that_are_known_by_one_name_the_stricter_counts() -> None:
    for listed in itertools.permutations([tool(DESTRUCTIVE, "x"), tool(READ_ONLY, "x", own_name="y")]):
        tools = KnownTools(MemoryJournal())
        await tools.take("tools", listed)
        assert [each.hints for each in tools.counting(listed)] == [DESTRUCTIVE, DESTRUCTIVE]


async def test_a_server_cannot_have_its_tools_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known, "MOST_KNOWN", 3)
    tools, journal = KnownTools(MemoryJournal()), MemoryJournal()
    tools = KnownTools(journal)
    await tools.take("tools", [tool(DESTRUCTIVE)])
    for number in range(9):
        await tools.take("tools", [tool(READ_ONLY, f"new_{number}")])
    assert len(await journal.notes("tools of tools")) == 3
    [dropped, second, third] = tools.counting(
        [tool(READ_ONLY, name) for name in ("drop_all", "new_1", "new_2")]
    )
    assert (dropped.hints, second.hints, third.hints) == (DESTRUCTIVE, READ_ONLY, STRICTEST)
    await tools.accept(third)
    assert [each.held for each in tools.counting([tool(READ_ONLY, "new_2")])] == [False]


@pytest.mark.parametrize("name", ["x" * 100_000, "\ud800", "", "x" * known.LONGEST_NAME])
async def test_any_name_is_remembered_in_a_note_of_its_own(name: str, tmp_path: Path) -> None:
    for _ in range(2):
        async with open_sqlite(tmp_path, inline=True) as journal:
            tools = KnownTools(journal)
            await tools.load(["tools"])
            listed = [tool(READ_ONLY, f"{name}y"), tool(DESTRUCTIVE, name)]
            await tools.take("tools", listed)
            assert [each.hints for each in tools.counting(listed)] == [READ_ONLY, DESTRUCTIVE]
            [weaker] = tools.counting([tool(HARMLESS, name)])
            assert weaker.hints == DESTRUCTIVE


@pytest.mark.parametrize("note", [{"destructive": False}, {"readOnlyHint": "true"}, {"readOnlyHint": None}])
async def test_a_note_that_makes_no_sense_is_the_stricter_hints(note: Any) -> None:
    journal = MemoryJournal()
    await journal.write_notes("tools of tools", {"drop_all": note})
    tools = KnownTools(journal)
    await tools.load(["tools"])
    await tools.take("tools", [tool(READ_ONLY)])
    assert [each.hints for each in tools.counting([tool(READ_ONLY)])] == [STRICTEST]


async def test_a_line_of_the_log_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    tools = KnownTools(MemoryJournal(), trust=True)
    names = [f"{number}" * 500 for number in range(100)]
    await tools.take("tools", [tool(DESTRUCTIVE, name) for name in names])
    await tools.take("tools", [tool(READ_ONLY, name) for name in names])
    assert caplog.text.count("\n") == 1
    assert "; 90 more" in caplog.text
    assert len(caplog.text) < 5000


def test_the_hash_is_that_of_all_that_is_shown() -> None:
    plain = tool(READ_ONLY)
    assert attrs.evolve(plain, hints=DESTRUCTIVE).hash == plain.hash  # what counts is no part of it
    for other in (
        tool(HARMLESS),
        tool(READ_ONLY, title="x"),
        attrs.evolve(plain, description="x"),
        attrs.evolve(plain, input_schema={"x": 1}),
        attrs.evolve(plain, server="x"),
        attrs.evolve(plain, own_name="x"),
    ):
        assert other.hash != plain.hash
