"""The statistics of the calls of one reply: an event in the log, and one log line."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from stopgo.actors.log.fold.record import Tally
from stopgo.actors.log.fold.state import fold
from stopgo.actors.models.messages.messages import ModelReply, ModelRequest
from stopgo.actors.tools.tool import ToolOutcomeUnknown, ToolResult
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Commit, NewCommand, NewEvent
from tests.actors.world import DESTRUCTIVE, HARMLESS, READ_ONLY, World, answer, call, events, say, use, wall
from tests.runtime.journal.kept import claimed


async def sleep(arguments: Mapping[str, Any]) -> ToolResult:
    await trio.sleep(arguments["s"])
    return ToolResult("slept", is_error=arguments.get("fails", False))


def sleeps(*seconds: float, **more: Any) -> Any:
    return use(*(call("sleep", s=s, **more) for s in seconds), call("missing"))


async def batches(world: World, id: str) -> list[Mapping[str, Any]]:
    return [event.body for event in await events(world.journal, id) if event.type == "batch.finished"]


async def test_batch_event_has_the_statistics_of_its_calls(
    world: World, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "stopgo.tools")
    world.tool("sleep", work=sleep, schema={})
    world.settings["mcp_servers"] = [{"name": "tools", "command": "none", "max_concurrency": 2}]
    world.plan(
        "agent",
        use(call("sleep", s=3), call("sleep", s=3, fails=True), call("sleep", s=3), call("missing")),
        say("done"),
    )
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    [batch] = await batches(world, turn.conversation.id)
    assert batch == {
        "key": "1/:1",
        "node": "agent",
        "size": 4,
        "concurrency": 2,
        "duration": 6.0,
        "average_duration": 3.0,
        "succeeded": 2,
        "failed": 2,
    }
    [line] = [record.getMessage() for record in caplog.records if record.name == "stopgo.tools"]
    assert line == (
        'calls of node "agent" settled: size=4 concurrency=2 duration=6.0 average_duration=3.0 succeeded=2'
        " failed=2 rejected=0"
    )


async def test_calls_that_were_not_sent_have_no_duration(world: World, autojump_clock: MockClock) -> None:
    world.plan("agent", use(call("missing"), call("missing")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    [batch] = await batches(world, turn.conversation.id)
    figures = ("size", "concurrency", "duration", "average_duration", "succeeded", "failed")
    assert [batch[name] for name in figures] == [2, 0, 0.0, 0.0, 0, 2]


async def test_batch_duration_excludes_waits_for_decisions(world: World, autojump_clock: MockClock) -> None:
    world.tool("sleep", READ_ONLY, sleep, schema={})
    world.tool("wipe", DESTRUCTIVE, sleep, schema={})
    world.plan("agent", use(call("sleep", s=2), call("wipe", s=4)), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        assert await batches(world, turn.conversation.id) == []
        await trio.sleep(1000)
        await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    [batch] = await batches(world, turn.conversation.id)
    assert (batch["duration"], batch["average_duration"], batch["concurrency"]) == (6.0, 3.0, 1)


async def test_a_call_that_a_person_rejects_has_not_failed(world: World, autojump_clock: MockClock) -> None:
    world.tool("sleep", READ_ONLY, sleep, schema={})
    world.tool("wipe", DESTRUCTIVE, sleep, schema={})
    world.plan("agent", use(call("sleep", s=2), call("wipe", s=4), call("missing")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        await agent.decide(turn.conversation.head.pending[0], {"approved": False})
    [batch] = await batches(world, turn.conversation.id)
    assert [batch[name] for name in ("size", "succeeded", "failed", "rejected")] == [3, 1, 1, 1]
    assert (batch["concurrency"], batch["average_duration"]) == (1, 2.0)


async def test_average_duration_counts_every_attempt(world: World, autojump_clock: MockClock) -> None:
    async def lost(_: Mapping[str, Any]) -> str:
        await trio.sleep(1 if world.called("read") > 1 else 3)
        if world.called("read") == 1:
            raise ToolOutcomeUnknown("connection lost")
        return "ok"

    world.tool("read", READ_ONLY, lost)
    world.plan("agent", use(call("read")), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    [batch] = await batches(world, turn.conversation.id)
    assert (batch["duration"], batch["average_duration"], batch["succeeded"]) == (4.0, 2.0, 1)


async def test_batch_event_is_written_after_restart(world: World, autojump_clock: MockClock) -> None:
    world.tool("sleep", work=sleep, schema={})
    world.plan("agent", sleeps(2), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    whole = await events(world.journal, turn.conversation.id)
    cut = whole[: 1 + [event.type for event in whole].index("tool.finished")]
    world.journal = MemoryJournal(wall)
    body = {"message": None, "session_id": None, "token": False}
    await world.journal.deliver(NewCommand(turn.conversation.id, "k", "create", body, new=True))
    await world.journal.save(
        Commit(
            await claimed(world.journal, turn.conversation.id),
            0,
            [NewEvent(event.type, event.body, event.at) for event in cut],
            ack=["k"],
            summary=fold(turn.conversation.id, cut).head.summary(),
        )
    )
    await trio.sleep(1000)
    async with world.agent():
        await trio.testing.wait_all_tasks_blocked()
    [batch] = await batches(world, turn.conversation.id)
    assert (batch["size"], batch["concurrency"], batch["duration"]) == (2, 1, 2.0)
    assert world.called("sleep") == 1


async def test_calls_of_two_servers_run_concurrently(world: World, autojump_clock: MockClock) -> None:
    for server in ("mail", "calendar", "broken"):
        world.tool(f"ask_{server}", READ_ONLY, sleep, schema={}, server=server)

    async def tell(request: ModelRequest) -> ModelReply:
        return say("; ".join(f"{m.name}: {m.content}" for m in request.results))

    asked = (call("ask_mail", s=3), call("ask_calendar", s=2), call("ask_broken", s=1, fails=True))
    world.plan("agent", use(*asked), tell)
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
        log = await events(world.journal, turn.conversation.id)
    assert answer(turn).response == "ask_mail: slept; ask_calendar: slept; ask_broken: slept"
    # Each call is recorded under the key of its batch, and all started before the first one finished.
    recorded = [
        (event.type, event.body["key"]) for event in log if event.type.startswith(("tool.", "batch."))
    ]
    began = {("tool.started", f"1/:1.{n}") for n in range(3)}
    assert set(recorded[:3]) == began
    assert recorded[3:] == [*(("tool.finished", f"1/:1.{n}") for n in (2, 1, 0)), ("batch.finished", "1/:1")]
    calls_made = [m.call for m in turn.conversation.messages if m.call is not None]
    assert [(each.server, each.is_error) for each in calls_made] == [
        ("mail", False),
        ("calendar", False),
        ("broken", True),
    ]


async def test_64_calls_with_every_kind_of_failure(world: World, autojump_clock: MockClock) -> None:
    async def odd(arguments: Mapping[str, Any]) -> ToolResult:
        n = arguments["n"]
        await trio.sleep(n % 7)
        if n % 5 == 0:
            raise ToolOutcomeUnknown("connection lost")
        return ToolResult(f"result {n}", is_error=n % 3 == 0)

    names = ["one", "two", "three"]
    world.settings["mcp_servers"] = [
        {"name": name, "command": "none", "max_concurrency": 1} for name in names
    ]
    for name in names:
        world.tool(name, work=odd, schema={"properties": {"n": {"type": "integer"}}}, server=name)
    calls = [call("nobody" if n % 11 == 0 else names[n % 3], n="x" if n % 13 == 0 else n) for n in range(64)]
    world.plan("agent", use(*calls), say("done"))
    async with world.agent() as agent:
        turn = await agent.start_conversation("go")
    assert answer(turn).response == "done"
    calls_made = [m.call for m in turn.conversation.messages if m.call is not None]
    for n, each in enumerate(calls_made):
        assert each.result is not None
        if n % 11 == 0:
            assert each.result.startswith("tool not found")
        elif n % 13 == 0:
            assert each.result.startswith("Invalid arguments: n: 'x'")
        elif n % 5 == 0:
            assert "unknown" in each.result
        else:
            assert (each.result, each.server) == (f"result {n}", names[n % 3])
    [batch] = await batches(world, turn.conversation.id)
    assert batch["size"] == 64
    assert batch["failed"] == sum(bool(each.is_error) for each in calls_made)
    assert batch["concurrency"] == 3


async def test_cancelled_batch_sends_nothing_and_frees_its_slots(
    world: World, autojump_clock: MockClock
) -> None:
    world.tool("read", READ_ONLY, sleep, schema={})
    world.tool("write", HARMLESS, sleep, schema={}, server="others")
    world.settings["tools"] = {"max_parallel": 3}
    world.settings["mcp_servers"] = [
        {"name": "tools", "command": "none", "max_concurrency": 2},
        {"name": "others", "command": "none", "max_concurrency": 1},
    ]
    calls = [call(("read", "write")[n % 2], s=3 if n < 9 else 60) for n in range(64)]
    world.plan("agent", use(*calls), say("done"), turn=1)
    world.plan("agent", use(call("read", s=1), call("read", s=1), call("write", s=1)), say("fine"), turn=2)
    async with world.agent() as agent:
        turn = await agent.post_conversation("go")
        await trio.sleep(8)
        cancelled = (await agent.cancel(turn.conversation.id)).conversation
        sent = len(world.ledger)
        await trio.sleep(1000)
        assert len(world.ledger) == sent
        assert world.concurrent[""] == 3
        began = trio.current_time()
        again = await agent.send(turn.conversation.id, "again")
        assert (answer(again).response, trio.current_time() - began) == ("fine", 1)
    states = [m.call.state for m in cancelled.messages if m.call is not None]
    assert len(states) == 64
    assert set(states) <= {"finished", "started", "unknown", "cancelled"}
    assert states.count("cancelled") == 64 - sent


@given(st.lists(st.tuples(st.floats(-5, 100), st.floats(-5, 50)), max_size=20))
def test_tally_of_arbitrary_calls_matches_oracle(spans: list[tuple[float, float]]) -> None:
    moments = sorted(
        (at, kind, n) for n, (a, d) in enumerate(spans) for kind, at in ((0, a), (1, a + abs(d)))
    )
    tally = Tally()
    for at, kind, n in moments:
        if kind == 0:
            tally.start(at)
        else:
            tally.finish(spans[n][0], at)
    batch = tally.finished("1/:1", "n", ["succeeded"] * len(spans))
    assert tally.in_flight == 0
    assert 0 <= batch.concurrency <= len(spans)
    total = sum(abs(d) for _, d in spans)
    assert batch.duration <= total + 0.01
    assert total <= batch.duration * max(1, batch.concurrency) + 0.01


def test_clock_set_back_gives_zero_durations() -> None:
    tally = Tally()
    tally.start(100.0)
    tally.finish(100.0, 40.0)
    assert (tally.busy, tally.worked) == (0.0, 0.0)
