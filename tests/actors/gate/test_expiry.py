"""Approvals that expire, with the conversation in memory or not."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.conversation.conversation import IDLE
from tests.actors.world import DESTRUCTIVE, World, call, code_of, llm, say, sequential, use

CHECKPOINT = {"type": "approval", "name": "ok", "message": "Go on?"}


@attrs.frozen
class Ended:
    state: str
    code: str | None
    response: str


async def outcome(world: World, seconds: float, *, restart: bool) -> Ended:
    """The end of a run whose approval expires after this many seconds."""
    world.settings["approval"] = {**world.settings.get("approval", {}), "expires_after": seconds}
    async with world.agent() as agent:
        turn = await agent.start_conversation("go", key="k")
        [question] = turn.conversation.head.pending
        if not restart:
            await trio.sleep(seconds + 1)
    if restart:
        await trio.sleep(seconds + 1)
    async with world.agent() as agent:
        await trio.sleep(1)
        assert await code_of(agent.decide(question, {"approved": True})) == "expired"
        run = (await agent.get(turn.conversation.id)).head.run
        assert run is not None
        last = (await agent.get(turn.conversation.id)).messages[-1].content
        return Ended(run.state, run.code, last)


# In memory still, out of memory, and while there was no process.
LIVES = pytest.mark.parametrize(
    ("seconds", "restart"), [(IDLE / 2, False), (IDLE * 100, False), (IDLE * 100, True)]
)


@LIVES
async def test_expired_approval_fails_the_run_with_on_expiry_fail(
    world: World, autojump_clock: MockClock, seconds: float, restart: bool
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("went on"))
    world.settings["approval"] = {"on_expiry": "fail"}
    found = await outcome(world, seconds, restart=restart)
    assert (found.state, found.code) == ("failed", "approval_expired")
    assert found.response == 'the call of "wipe" was not approved in time'
    assert (world.ledger, len(world.requests)) == ([], 1)


@LIVES
async def test_expired_approval_rejects_the_call_by_default(
    world: World, autojump_clock: MockClock, seconds: float, restart: bool
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("went on"))
    found = await outcome(world, seconds, restart=restart)
    assert (found.state, found.response) == ("finished", "went on")
    result = world.requests[-1].messages[-1]
    assert result.content == "Nobody approved the operation in time. Nothing was done."  # type: ignore[union-attr]
    assert world.ledger == []


@LIVES
@pytest.mark.parametrize(
    ("on_expiry", "ends"), [("fail", ("failed", "approval_expired")), ("reject", ("finished", None))]
)
async def test_expired_checkpoint(
    world: World, autojump_clock: MockClock, seconds: float, restart: bool, on_expiry: str, ends: Any
) -> None:
    world.settings["agent"] = sequential("both", CHECKPOINT, llm("next"))
    world.settings["approval"] = {"on_expiry": on_expiry}
    found = await outcome(world, seconds, restart=restart)
    assert (found.state, found.code) == ends
    assert world.requests == []


@LIVES
@pytest.mark.parametrize("asker", [llm("first"), CHECKPOINT], ids=["call", "checkpoint"])
async def test_on_expiry_fail_ignores_on_error(
    world: World, autojump_clock: MockClock, seconds: float, restart: bool, asker: dict[str, Any]
) -> None:
    world.tool("wipe", DESTRUCTIVE)
    world.plan("first", use(call("wipe")), say("went on"))
    careful = {**asker, "retries": 1, "on_error": "continue", "approval": {"on_expiry": "fail"}}
    world.settings["agent"] = sequential("both", careful, llm("next"))
    found = await outcome(world, seconds, restart=restart)
    assert (found.state, found.code) == ("failed", "approval_expired")
    assert len(world.requests) == (asker is not CHECKPOINT)
