"""While the agent is halted, no call of class `once` leaves; all other work goes on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, TypeAlias

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from stopgo.actors.access.principal import Principal, all_grants
from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.common.errors import AgentError
from stopgo.actors.gate.halt import NOTE, RULE
from stopgo.actors.tools.tool import ToolOutcomeUnknown
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, Saved
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
    parallel,
    say,
    sequential,
    use,
    wall,
    working,
)
from tests.runtime.journal.kept import intents_of

YES, NO = {"approved": True}, {"approved": False}


async def only(agent: Agent) -> Approval:
    """The only pending approval."""
    [approval] = (await agent.approvals()).approvals
    return approval


CLASSES = {
    "harmless": (HARMLESS, {}, RULE),
    "destructive": (DESTRUCTIVE, {}, "destructiveHint: true"),
    "idempotent": (IDEMPOTENT, {}, None),
    "read": (READ_ONLY, {}, None),
    "run by a rule": (DESTRUCTIVE, {"rules": [{"tool": "act", "then": "run"}]}, RULE),
    "asked by a rule, and only reads": (READ_ONLY, {"rules": [{"tool": "act", "then": "ask"}]}, "goes"),
    "asked by a rule, and repeatable": (IDEMPOTENT, {"rules": [{"tool": "act", "then": "ask"}]}, "approval"),
    "denied": (HARMLESS, {"rules": [{"tool": "act", "then": "deny"}]}, None),
}


@pytest.mark.parametrize(("hints", "policy", "rule"), CLASSES.values(), ids=CLASSES)
async def test_new_call_while_halted(
    world: World, hints: Any, policy: dict[str, Any], rule: str | None, autojump_clock: MockClock
) -> None:
    world.tool("act", hints)
    world.settings["approval"] = policy
    world.plan("agent", use(call("act")), say("done"))
    async with world.agent() as agent:
        await agent.halt("drill")
        assert agent.halt_state().reason == "drill"
        result = answer(await agent.start_conversation("go"))
        if rule is None:
            assert (result.state, world.called("act")) == ("finished", policy == {})
            return
        asked = await only(agent)
        assert (asked.kind, result.state) == ("tool", "waiting")
        if rule == "goes":
            assert answer(await agent.decide(asked, YES)).state == "finished"
            return
        assert asked.body["rule"].startswith(rule)
        assert await code_of(agent.decide(asked, YES, key="k")) == "halted"
        assert not world.ledger
        await agent.unhalt()
        assert not agent.halt_state().halted
        assert answer(await agent.decide(asked, YES, key="k")).state == "finished"
        assert world.called("act") == 1


async def test_no_works_while_halted(world: World, autojump_clock: MockClock) -> None:
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("act")), say("done"))
    async with world.agent() as agent:
        await agent.halt()
        await agent.start_conversation("go")
        assert answer(await agent.decide(await only(agent), NO)).state == "finished"
    assert not world.ledger


async def test_nodes_that_run_unasked_ask_while_halted(world: World, autojump_clock: MockClock) -> None:
    """Below a parallel node and a loop, a destructive call does not ask otherwise."""
    world.tool("act", DESTRUCTIVE)
    world.settings["agent"] = sequential("root", parallel("fan", llm("a"), llm("b")))
    for node in "ab":
        world.plan(node, use(call("act", name=node)), say(node))
    async with world.agent() as agent:
        await agent.halt()
        assert answer(await agent.start_conversation("go")).state == "waiting"
        asked = (await agent.approvals()).approvals
        assert [each.body["rule"] for each in asked] == [RULE, RULE]
        await agent.unhalt()
        for each in asked:
            await agent.decide(each, YES)
    assert world.called("act") == 2


# ------------------------------------------------------------------ calls that were approved before

Act: TypeAlias = Callable[[World, Agent], Awaitable[None]]


async def _halt(world: World, agent: Agent) -> None:
    await agent.halt()


async def _halt_briefly(world: World, agent: Agent) -> None:
    await agent.halt()
    await agent.unhalt()


@pytest.mark.parametrize("halt", [_halt, _halt_briefly])
async def test_approved_call_that_waits_for_a_slot_asks_again(
    world: World, halt: Act, autojump_clock: MockClock
) -> None:
    world.settings |= {
        "mcp_servers": [{"name": "tools", "command": "none", "max_concurrency": 1}],
        "limits": {"max_tool_calls": 2},
    }
    world.tool("read", READ_ONLY, working(60))
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe"), call("read")), say("done"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.start_conversation, "go")
        await trio.sleep(1)
        first = await only(agent)
        turn = await agent.post_decision(first, YES)
        await trio.sleep(1)
        await halt(world, agent)
        await trio.sleep(100)
        second = await only(agent)
        assert (second.body["rule"], second.body["replaces"]) == (RULE, first.id)
        assert [each.key for each in await intents_of(world.journal, turn.conversation.id)] == ["1/:1.1"]
        await agent.unhalt()
        assert answer(await agent.decide(second, YES)).state == "finished"  # within `max_tool_calls`
    assert world.called("wipe") == 1


async def test_approved_call_that_waits_for_a_token_asks_again(
    world: World, autojump_clock: MockClock
) -> None:
    """Also if the halt ended before the token came: each halt is a new occasion."""
    world.settings["mcp_servers"] = [{"name": "tools", "url": "http://127.0.0.1:1/mcp"}]
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", token="tok")
        id = turn.conversation.id
    async with world.agent() as agent:  # the token is lost
        first = await only(agent)
        assert answer(await agent.decide(first, YES)).state == "auth_required"
        await _halt_briefly(world, agent)
        assert answer(await agent.resume(id, token="tok")).state == "waiting"
        second = await only(agent)
        assert second.body["replaces"] == first.id
        assert answer(await agent.decide(second, YES)).state == "finished"
    assert world.called("wipe") == 1


async def test_retry_lapses_with_a_halt(world: World, autojump_clock: MockClock) -> None:
    async def lose(_: Mapping[str, Any]) -> str:
        if world.called("wipe") == 1:
            raise ToolOutcomeUnknown("the connection was lost")
        return "wiped"

    world.tool("wipe", DESTRUCTIVE, lose)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(await only(agent), YES)
        outcome = await only(agent)
        await agent.halt()
        assert await code_of(agent.decide(outcome, {"action": "retry"})) == "halted"
        await agent.unhalt()
        # A retry after the halt covers the call; the approval before the halt need not be repeated.
        assert answer(await agent.decide(outcome, {"action": "retry"})).state == "finished"
        assert turn.conversation.id
    assert world.called("wipe") == 2


# ----------------------------------------------------------------------------- other kinds of approval


async def test_checkpoint_is_passed_while_halted(world: World, autojump_clock: MockClock) -> None:
    world.tool("act", HARMLESS)
    world.settings["agent"] = sequential(
        "root", {"type": "approval", "name": "gate", "message": "On?"}, llm("work")
    )
    world.plan("work", use(call("act")), say("done"))
    async with world.agent() as agent:
        await agent.halt()
        await agent.start_conversation("go")
        assert answer(await agent.decide(await only(agent), YES)).state == "waiting"
        assert (await only(agent)).body["rule"] == RULE
    assert not world.ledger


# -------------------------------------------------------------------------- a halt at every moment


class Paced(MemoryJournal):
    """Every operation has several checkpoints before and after the moment at which it is durable."""

    async def save(self, commit: Commit) -> Saved:
        await pause()
        try:
            return await super().save(commit)
        finally:
            await pause()

    async def write_notes(self, *args: Any, **options: Any) -> bool:
        await pause()
        try:
            return await super().write_notes(*args, **options)
        finally:
            await pause()


async def pause() -> None:
    with trio.CancelScope(shield=True):
        for _ in range(3):
            await trio.lowlevel.checkpoint()


async def test_halt_at_every_checkpoint_of_a_turn(world: World, autojump_clock: MockClock) -> None:
    """No intent is committed and no call is sent after a halt was acknowledged."""
    acknowledged = False
    wrongs: list[str] = []

    class Watched(Paced):
        async def save(self, commit: Commit) -> Saved:
            saved = await super().save(commit)
            if acknowledged and commit.intents:
                wrongs.append("an intent was committed")
            return saved

    async def act(_: Mapping[str, Any]) -> str:
        if acknowledged:
            wrongs.append("a call was sent")
        return "ok"

    world.tool("act", HARMLESS, act)
    world.tool("wipe", DESTRUCTIVE, act)
    world.plan("agent", use(call("wipe"), call("act")), use(call("act")), say("done"))
    finished = held = steps = 0
    while not finished:
        world.journal, acknowledged = Watched(wall), False
        ended = trio.Event()
        async with world.agent() as agent, trio.open_nursery() as nursery:

            async def person(agent: Agent = agent, ended: trio.Event = ended) -> None:
                turn = await agent.start_conversation("go")
                for asked in turn.conversation.pending_approvals:
                    with suppress(AgentError):
                        if answer(await agent.decide(asked, YES)).state == "finished":
                            ended.set()

            nursery.start_soon(person)
            for _ in range(steps):
                await trio.lowlevel.checkpoint()
                if ended.is_set():
                    break
            finished += ended.is_set()
            await agent.halt()
            acknowledged = True
            await trio.sleep(10)
            held += any(each.body["rule"] == RULE for each in (await agent.approvals()).approvals)
        assert not wrongs, steps
        steps += 1
    assert held > 20


async def test_halt_waits_for_a_commit_that_has_begun(world: World, autojump_clock: MockClock) -> None:
    class Slow(MemoryJournal):
        async def save(self, commit: Commit) -> Saved:
            if commit.intents:
                await trio.sleep(2)
            return await super().save(commit)

    world.journal = Slow(wall)
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("act")), say("done"))
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(1)
        await agent.halt()
        assert len(await intents_of(world.journal, turn.conversation.id)) == 1
        await trio.sleep(10)
    assert not world.ledger


async def test_committed_call_that_has_not_left_is_not_sent(world: World, autojump_clock: MockClock) -> None:
    """Its server is out of reach when the agent is halted."""
    world.out_of_reach = 10
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("act")), say("done"))
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(1)
        assert (await agent.halt()).in_flight == 0
        await trio.sleep(20)
        conversation = await agent.get(turn.conversation.id)
        [result] = [each.call.result for each in conversation.messages if each.call is not None]
        assert result == "The call was not sent: the agent was halted. Nothing was done."
    assert not world.ledger


async def test_call_in_flight_ends_and_is_counted(world: World, autojump_clock: MockClock) -> None:
    world.tool("act", HARMLESS, working(60))
    world.plan("agent", use(call("act")), say("done"))
    async with world.agent() as agent, trio.open_nursery() as nursery:
        nursery.start_soon(agent.start_conversation, "go")
        await trio.sleep(1)
        assert (await agent.halt()).in_flight == 1
        await trio.sleep(100)
        assert agent.halt_state().in_flight == 0
        assert not (await agent.approvals()).approvals


# --------------------------------------------------------------------------------- restarts and repeats


async def test_halt_survives_a_restart(world: World, autojump_clock: MockClock) -> None:
    """It holds before anything is resumed: a call that was approved before does not leave."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        first = await only(agent)
        await agent.halt("fire")
        # As if the process had stopped between the decision and its effect.
        row = {"approved": True}
        await agent._journal.decide(first.id, row, "k")
    async with world.agent() as agent:
        assert agent.halt_state().reason == "fire"
        await wait_all_tasks_blocked()
        second = await only(agent)
        assert second.body["replaces"] == first.id
        await agent.unhalt()
    async with world.agent() as agent:
        assert not agent.halt_state().halted
        assert answer(await agent.decide(second, YES)).state == "finished"
        assert turn.conversation.id == second.stream
    assert world.called("wipe") == 1


async def test_unreadable_note_is_a_halt(world: World, autojump_clock: MockClock) -> None:
    world.tool("act", HARMLESS)
    world.plan("agent", use(call("act")), say("done"))
    await world.journal.write_notes(NOTE, {NOTE: {"number": "1"}})
    async with world.agent() as agent:
        assert agent.halt_state().halted
        assert answer(await agent.start_conversation("go")).state == "waiting"
        await agent.unhalt()
        assert answer(await agent.decide(await only(agent), YES)).state == "finished"


async def test_repeats(world: World, autojump_clock: MockClock) -> None:
    """A repeated key changes nothing, also after a restart; the same key for something else is refused."""
    async with world.agent() as agent:
        await agent.halt("a", key="1")
        await agent.halt("b")
        assert agent.halt_state().reason == "a"
        await agent.unhalt(key="1")  # keys of the two commands do not collide
        await agent.halt("a", key="1")
        assert not agent.halt_state().halted
        await agent.halt("c", key="2")
    async with world.agent() as agent:
        await agent.unhalt(key="1")
        assert agent.halt_state().reason == "c"
        assert await code_of(agent.halt("d", key="2")) == "idempotency_key_reused"
        assert await code_of(agent.halt("x" * 501)) == "invalid_request"


async def test_admins_halt_and_are_named(world: World, autojump_clock: MockClock) -> None:
    roles = all_grants({})
    async with world.agent() as agent:
        viewer = agent.acting_as(Principal(id="vic", grants=(roles["viewer"],)))
        assert await code_of(viewer.halt()) == "role_required"
        await agent.acting_as(Principal(id="ann", grants=(roles["admin"],))).halt()
        assert viewer.halt_state().by == "ann"
        assert await code_of(viewer.unhalt()) == "role_required"
    async with world.agent() as agent:
        assert agent.halt_state().by == "ann"


async def test_decision_is_repeated_across_a_halt(world: World, autojump_clock: MockClock) -> None:
    """The number of halts in a decision is no part of the request."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with world.agent() as agent:
        await agent.start_conversation("go")
        asked = await only(agent)
        first = answer(await agent.decide(asked, YES, key="k"))
        await agent.halt()
        assert answer(await agent.decide(asked, YES, key="k")) == first
        assert await code_of(agent.decide(asked, YES)) == "already_decided"
