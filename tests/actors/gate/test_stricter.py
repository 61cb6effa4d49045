"""What has become stricter between two attempts of a call, or since somebody was asked about it: the file was
edited, a server was upgraded or is gone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.log.fold.state import Conversation
from stopgo.actors.tools.tool import Hints
from tests.actors.nodes.test_refused_calls import GOOD, Guarded
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    IDEMPOTENT,
    READ_ONLY,
    World,
    answer,
    call,
    code_of,
    llm,
    never,
    parallel,
    say,
    use,
)
from tests.canary import TOKEN as STALE
from tests.runtime.journal.kept import intents_of

ASK = {"rules": [{"tool": "put", "then": "ask", "name": "new"}]}


@pytest.fixture
def guarded(tmp_path: Path) -> Guarded:
    """A world whose server demands the right token, and does nothing without."""
    world = Guarded(tmp_path)
    world.settings["mcp_servers"] = [{"name": "tools", "url": "http://127.0.0.1:1/mcp"}]
    world.plan("agent", use(call("put", name="a")), say("done"))
    return world


async def cut_off(world: World) -> str:
    """A conversation whose run ended with its process, in the middle of a call."""
    world.settings["shutdown_grace"] = 1
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(5)
    return turn.conversation.id


async def settled(agent: Agent, id: str) -> Conversation:
    await trio.sleep(5)
    return await agent.get(id)


def states(conversation: Conversation) -> list[str]:
    return [message.call.state for message in conversation.messages if message.call]


def pending(conversation: Conversation) -> Mapping[str, Any]:
    [id] = conversation.head.pending
    return conversation.approvals[id].body


# ------------------------------------------------------- attempts that may have happened


@pytest.mark.parametrize("before", [READ_ONLY, IDEMPOTENT])
@pytest.mark.parametrize(("today", "approval"), [(DESTRUCTIVE, {}), (None, ASK)])
async def test_call_that_would_ask_today_is_not_resent(
    world: World,
    autojump_clock: MockClock,
    before: Hints,
    today: Hints | None,
    approval: Mapping[str, Any],
) -> None:
    world.tool("put", before, never)
    world.plan("agent", use(call("put")), use(call("put")), say("done"))
    id = await cut_off(world)
    world.tool("put", today or before)
    world.settings["approval"] = approval
    async with world.agent() as agent:
        found = await settled(agent, id)
        assert world.called("put") == 1
        assert states(found) == ["unknown", "waiting"]  # what the model wants anew is asked about as ever
        told = world.requests[-1].messages[-1].content  # type: ignore[union-attr]
        assert told.startswith("The outcome is unknown: the process stopped")
        turn = await agent.decide(found.head.pending[0], {"approved": True})
        assert answer(turn).response == "done"
    assert world.called("put") == 2
    async with world.agent() as agent:
        assert states(await agent.get(id)) == ["unknown", "finished"]


async def test_weaker_hints_do_not_weaken_a_sent_call(world: World, autojump_clock: MockClock) -> None:
    """The tool is read-only today; a human is asked for the unknown outcome nevertheless."""
    world.settings["approval"] = {"on_weaker_hints": "trust"}
    world.tool("wipe", DESTRUCTIVE, never)
    world.plan("agent", use(call("wipe")), say("done"))
    world.settings["shutdown_grace"] = 1
    async with world.agent() as agent:
        asked = (await agent.start_conversation("go")).conversation
        await agent.post_decision(asked.head.pending[0], {"approved": True})
        await trio.sleep(5)
    world.tool("wipe", READ_ONLY)
    async with world.agent() as agent:
        found = await settled(agent, asked.id)
        assert pending(found)["kind"] == "outcome_unknown"
        assert states(found) == ["unknown"]
    assert world.called("wipe") == 1


async def test_call_that_is_once_today_is_not_resent(world: World, autojump_clock: MockClock) -> None:
    world.tool("put", READ_ONLY, never)
    world.plan("agent", use(call("put")), say("done"))
    id = await cut_off(world)
    world.tool("put", DESTRUCTIVE)
    world.settings["approval"] = {"rules": [{"tool": "put", "then": "run"}]}
    async with world.agent() as agent:
        assert states(await settled(agent, id)) == ["unknown"]
    assert world.called("put") == 1


async def test_sent_call_is_not_resent_to_another_server(world: World, autojump_clock: MockClock) -> None:
    world.tool("put", READ_ONLY, never)
    world.plan("agent", use(call("put")), say("done"))
    id = await cut_off(world)
    world.tool("put", READ_ONLY, server="other")
    async with world.agent() as agent:
        assert states(await settled(agent, id)) == ["unknown"]
    assert "The outcome is unknown" in world.requests[-1].messages[-1].content  # type: ignore[union-attr]
    assert world.called("put") == 1


@pytest.mark.parametrize("changed", [False, True])
async def test_retry_approves_the_shown_call(world: World, autojump_clock: MockClock, changed: bool) -> None:
    world.tool("put", DESTRUCTIVE, never)
    world.plan("agent", use(call("put")), say("done"))
    world.settings["shutdown_grace"] = 1
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        [first] = turn.conversation.head.pending
        await agent.post_decision(first, {"approved": True})
        await trio.sleep(5)
    world.tool("put", DESTRUCTIVE, description="as never before" if changed else "")
    world.settings["approval"] = ASK
    async with world.agent() as agent:
        found = await settled(agent, turn.conversation.id)
        turn = await agent.decide(found.head.pending[0], {"action": "retry"})
        if changed:
            assert world.called("put") == 1
            assert pending(turn.conversation)["replaces"] == first
            turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert answer(turn).response == "done"
        assert len(turn.conversation.approvals) == (3 if changed else 2)
    assert world.called("put") == 2


@pytest.mark.parametrize("changed", [False, True])
async def test_retry_covers_only_the_tool_that_was_called(
    world: World, autojump_clock: MockClock, changed: bool
) -> None:
    world.tool("put", DESTRUCTIVE, never)
    world.plan("agent", use(call("put")), say("done"))
    world.settings["approval"] = {"rules": [{"tool": "put", "then": "run"}]}
    id = await cut_off(world)
    world.tool("put", DESTRUCTIVE, description="as never before" if changed else "")
    async with world.agent() as agent:
        found = await settled(agent, id)
        turn = await agent.decide(found.head.pending[0], {"action": "retry"})
        if changed:
            assert world.called("put") == 1
            turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert answer(turn).response == "done"
    assert world.called("put") == 2


# ------------------------------------------------------------ attempts that did nothing


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("yes", [False, True])
async def test_refused_call_of_a_now_destructive_tool_asks(
    guarded: Guarded, autojump_clock: MockClock, restart: bool, yes: bool
) -> None:
    guarded.tool("put", READ_ONLY)
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        id = turn.conversation.id
        if not restart:
            guarded.tool("put", DESTRUCTIVE)
            guarded.relist("tools")
            await trio.testing.wait_all_tasks_blocked()
            turn = await agent.resume(id, token=GOOD)
    guarded.tool("put", DESTRUCTIVE)
    async with guarded.agent() as agent:
        if restart:
            turn = await agent.resume(id, token=GOOD)
        assert guarded.ledger == []
        asked = pending(turn.conversation)
        assert (asked["kind"], asked["tool_args"], asked["rule"]) == (
            "tool",
            {"name": "a"},
            "destructiveHint: true",
        )
        turn = await agent.decide(asked["id"], {"approved": yes}, token=GOOD)
        assert answer(turn).state == "finished"
    assert guarded.called("put") == yes
    if yes:
        last = (await intents_of(guarded.journal, id))[-1]
        assert (last.effect, last.body["asks"]) == ("once", True)


async def test_refused_call_keeps_its_stricter_class(guarded: Guarded, autojump_clock: MockClock) -> None:
    guarded.settings["approval"] = {"on_weaker_hints": "trust"}
    guarded.tool("put", HARMLESS)
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
    guarded.tool("put", READ_ONLY)
    async with guarded.agent() as agent:
        turn = await agent.resume(turn.conversation.id, token=GOOD)
    assert answer(turn).response == "done"
    assert [each.effect for each in await intents_of(guarded.journal, turn.conversation.id)] == ["once"] * 2


async def test_refused_approved_call_of_a_changed_tool_asks(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    guarded.tool("put", DESTRUCTIVE)
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        [first] = turn.conversation.head.pending
        edited = {"approved": True, "arguments": {"name": "b"}}
        turn = await agent.decide(first, edited)
        assert answer(turn).state == "auth_required"
        guarded.tool("put", DESTRUCTIVE, description="as never before")
        guarded.relist("tools")
        await trio.testing.wait_all_tasks_blocked()
        turn = await agent.resume(turn.conversation.id, token=GOOD)
        assert guarded.ledger == []
        asked = pending(turn.conversation)
        assert (asked["replaces"], asked["tool_args"]) == (first, {"name": "b"})
        turn = await agent.decide(asked["id"], {"approved": True}, token=GOOD)
        assert answer(turn).response == "done"
    assert guarded.ledger == [("put", {"name": "b"})]


async def test_refused_call_obeys_a_new_rule(guarded: Guarded, autojump_clock: MockClock) -> None:
    guarded.tool("put", HARMLESS)
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
    guarded.settings["approval"] = ASK
    async with guarded.agent() as agent:
        turn = await agent.resume(turn.conversation.id, token=GOOD)
        assert guarded.ledger == []
        assert '"new"' in pending(turn.conversation)["rule"]
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True}, token=GOOD)
        assert answer(turn).response == "done"
    assert guarded.called("put") == 1


# -------------------------------------------------------------- what was asked about


async def test_approval_is_voided_when_its_tool_is_gone(world: World, autojump_clock: MockClock) -> None:
    world.tool("put", DESTRUCTIVE)
    world.tool("drop", DESTRUCTIVE, server="other")
    world.settings["approval"] = {"in_parallel": "ask"}
    world.settings["agent"] = parallel("both", llm("a"), llm("b"))
    world.plan("a", use(call("put")), say("a done"))
    world.plan("b", use(call("drop")), use(call("drop")), say("b done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        asked = {each.body["tool_name"]: each.id for each in turn.conversation.approvals.values()}
    del world.tools["put"]
    async with world.agent() as agent:
        turn = await agent.decide(asked["drop"], {"approved": True})
        assert answer(turn).state == "waiting"
        assert pending(turn.conversation)["tool_name"] == "drop"
        assert await code_of(agent.decide(asked["put"], {"approved": True})) == "void"
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert answer(turn).response == "a done\nb done"
    assert [tool for tool, _ in world.ledger] == ["drop", "drop"]
