"""Who is outside an agent's block when that is left: nobody waits for an agent that is not there any more."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals import tool_approval
from stopgo.actors.common.errors import AgentError
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.world import DESTRUCTIVE, PATIENCE, World, after, call, code_of, say, types, use, wall


async def leave_by(how: str, scope: trio.CancelScope) -> None:
    match how:
        case "error":
            raise ZeroDivisionError
        case "cancellation":
            scope.cancel()
            await trio.sleep_forever()


async def read(agent: Agent, id: str, into: list[str], pace: float = 0.0) -> None:
    async with aclosing(agent.events(id)) as stream:
        async for event in stream:
            into.append(event.type)
            await trio.sleep(pace)


@pytest.mark.parametrize("how", ["its end", "error", "cancellation"])
async def test_waiting_caller_outside_the_block_gets_an_error(
    world: World, autojump_clock: MockClock, how: str
) -> None:
    world.settings["shutdown_grace"] = 5
    world.plan("agent", say("hello"), turn=1)
    world.plan("agent", after(100, say("late")), turn=2)
    was_accepted: list[bool] = []
    seen: list[str] = []

    async def wait(command: Callable[..., Awaitable[object]], *arguments: Any) -> None:
        with pytest.raises(AgentError) as caught:
            await command(*arguments)
        assert caught.value.code == "shutting_down"
        was_accepted.append(caught.value.details["accepted"])

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as outside:
            with trio.CancelScope() as scope, suppress(ZeroDivisionError):
                async with world.agent() as agent:
                    id = (await agent.start_conversation("hi")).conversation.id
                    outside.start_soon(read, agent, id, seen)
                    outside.start_soon(wait, agent.send, id, "and now?")
                    outside.start_soon(wait, agent.send, id, "and then?")
                    await trio.sleep(1)
                    await leave_by(how, scope)
    assert was_accepted == [True, True]
    assert seen == await types(world.journal, id)
    await wait(agent.send, id, "still there?")
    assert was_accepted == [True, True, False]


async def test_a_reader_that_comes_late_to_the_end_has_an_end_too(
    world: World, autojump_clock: MockClock
) -> None:
    """What it has missed it would read again, but the journal is closed."""
    seen: list[str] = []
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as outside:
            async with open_sqlite(world.folder, wall=wall, inline=True) as world.journal:
                async with world.agent() as agent:
                    id = (await agent.start_conversation("hi")).conversation.id
                    outside.start_soon(read, agent, id, seen, 10)
                    for _ in range(100):
                        await agent.send(id, "hi")
    assert 1 < len(seen) < 400


async def test_a_decision_on_an_agent_that_has_stopped_is_refused_like_any_command(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    async with open_sqlite(world.folder, wall=wall, inline=True) as world.journal, world.agent() as agent:
        [question] = (await agent.start_conversation("go")).conversation.head.pending
    with pytest.raises(AgentError) as caught:
        await agent.decide(question, {"approved": True})
    assert (caught.value.code, caught.value.details["accepted"]) == ("shutting_down", False)


async def test_an_edit_that_is_still_checked_when_the_agent_stops_is_refused_too(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    stopped = trio.Event()

    async def check(*_: Any) -> None:
        await stopped.wait()

    monkeypatch.setattr(tool_approval, "check_edit", check)
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as outside:
            async with world.agent() as agent:
                [question] = (await agent.start_conversation("go")).conversation.head.pending
                edit = agent.decide(question, {"approved": True, "arguments": {"name": "x"}})

                @outside.start_soon
                async def decide() -> None:
                    assert await code_of(edit) == "shutting_down"

                await trio.testing.wait_all_tasks_blocked()
            stopped.set()


async def test_an_edit_that_is_still_checked_when_its_conversation_is_deleted_decides_nothing(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")))
    deleted = trio.Event()

    async def check(*_: Any) -> None:
        await deleted.wait()

    monkeypatch.setattr(tool_approval, "check_edit", check)
    with trio.fail_after(PATIENCE):
        async with world.agent() as agent, trio.open_nursery() as outside:
            conversation = (await agent.start_conversation("go")).conversation
            [question] = conversation.head.pending
            edit = agent.decide(question, {"approved": True, "arguments": {"name": "x"}})

            @outside.start_soon
            async def decide() -> None:
                assert await code_of(edit) == "approval_not_found"

            await trio.testing.wait_all_tasks_blocked()
            await agent.delete(conversation.id)
            deleted.set()
    assert world.ledger == []
