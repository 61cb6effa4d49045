"""A server that refuses a call for want of a token: the call waits for one, and goes on as what it is."""

from __future__ import annotations

from typing import Any

import pytest
from trio.testing import MockClock

from stopgo.actors.conversation.result import Turn
from stopgo.actors.tools.tool import CallTool, Hints, ToolAuthRequired, ToolOutcomeUnknown, ToolResult
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    World,
    answer,
    call,
    events,
    llm,
    parallel,
    say,
    sequential,
    types,
    use,
)
from tests.canary import TOKEN as STALE
from tests.runtime.journal.kept import intents_of

GOOD = f"{STALE}-good"
CHALLENGE = 'Bearer error="invalid_token", resource_metadata="http://as.test/.well-known"'


class Guarded(World):
    """Its HTTP server's tools want the good token; calls that are refused do nothing."""

    status = 401
    challenge: str | None = CHALLENGE

    async def _call(self, message: CallTool) -> ToolResult:
        if message.tool != "local" and message.bearer != GOOD:
            self.bearers.append(message.bearer)
            text = f"HTTP {self.status}"
            raise ToolAuthRequired(text, status=self.status, challenge=self.challenge)
        return await super()._call(message)


@pytest.fixture
def guarded(tmp_path: Any) -> Guarded:
    world = Guarded(tmp_path)
    world.settings["mcp_servers"] = [
        {"name": "tools", "url": "http://127.0.0.1:1/mcp", "max_concurrency": 1},
        {"name": "local", "command": "none"},
    ]
    world.tool("look", READ_ONLY)
    world.tool("wipe", DESTRUCTIVE)
    world.tool("put", HARMLESS)
    world.tool("local", HARMLESS, server="local")
    return world


def wanted(turn: Turn) -> dict[str, Any]:
    result = answer(turn)
    assert (result.state, result.code, result.auth_required) == ("auth_required", "auth_required", True)
    run = turn.conversation.head.run
    assert run is not None
    assert run.state == "auth_required"
    assert run.auth == result.auth
    assert result.auth is not None
    return dict(result.auth)


@pytest.mark.parametrize("first", [None, STALE])
@pytest.mark.parametrize("restart", [False, True])
async def test_the_paused_call_goes_on_with_the_next_token(
    guarded: Guarded, autojump_clock: MockClock, first: str | None, restart: bool
) -> None:
    guarded.plan("agent", use(call("wipe", name="a"), call("local")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=first)
        id, [question] = turn.conversation.id, turn.conversation.head.pending
        turn = await agent.decide(question, {"approved": True, "arguments": {"name": "b"}})
        assert wanted(turn) == {"server": "tools", "status": 401, "challenge": CHALLENGE}
        assert "401" in answer(turn).response
        assert turn.conversation.head.status == "active"
        assert guarded.ledger == [("local", {})]  # the other call went on
        [paused] = [m.call for m in turn.conversation.messages if m.call and m.call.name == "wipe"]
        assert (paused.state, paused.result) == ("waiting", None)
        if not restart:
            turn = await agent.resume(id, token=GOOD)
    if restart:
        async with guarded.agent() as agent:
            turn = await agent.resume(id, token=GOOD)
    assert answer(turn).response == "done"
    assert len(guarded.requests) == 2  # the message did not run again, the call did
    assert guarded.ledger[-1] == ("wipe", {"name": "b"})
    assert guarded.bearers.count(first) >= 1
    log = await events(guarded.journal, id)
    assert [e.body["kind"] for e in log if e.type == "approval.requested"] == ["tool"]
    wipes = [e for e in log if e.type.startswith("tool.") and e.body["key"] == "1/:1.0"]
    assert [(e.type, e.body["attempt"]) for e in wipes] == [
        ("tool.started", 1),
        ("tool.finished", 1),
        ("tool.started", 2),
        ("tool.finished", 2),
    ]
    assert wipes[1].body["need"]["challenge"] == CHALLENGE
    assert wipes[2].body["effect"] == "once"
    assert [(i.attempt, i.state) for i in await intents_of(guarded.journal, id) if i.key == "1/:1.0"] == [
        (1, "finished"),
        (2, "finished"),
    ]
    for token in (STALE, GOOD):
        assert token not in repr(log)


async def test_a_token_that_is_refused_again_is_asked_for_again(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    guarded.status, guarded.challenge = 403, None
    guarded.plan("agent", use(call("put")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        assert wanted(turn) == {"server": "tools", "status": 403}
        turn = await agent.resume(turn.conversation.id, token="tok-as-bad")
        assert wanted(turn) == {"server": "tools", "status": 403}
        turn = await agent.resume(turn.conversation.id, token=GOOD)
        assert answer(turn).response == "done"
    assert guarded.bearers == [STALE, "tok-as-bad", GOOD]


async def test_tokens_of_queued_messages_are_tried_once_each(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    for turn_number in (1, 2, 3):
        guarded.plan("agent", use(call("put")), say("done"), turn=turn_number)
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        id = turn.conversation.id
        for text in ("next", "more"):
            queued = answer(await agent.send(id, text, token="tok-as-bad"))
            assert (queued.state, queued.code) == ("queued", "auth_required")
        assert guarded.bearers == [STALE, "tok-as-bad", "tok-as-bad"]
        turn = await agent.resume(id, token=GOOD)
        assert answer(turn).response == "done"


async def test_resume_without_the_lost_token_makes_no_call(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    """After a restart a decision that brings no token moves nothing that needs one."""
    guarded.plan("agent", use(call("put"), call("wipe")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        assert wanted(turn)["status"] == 401
    before = list(guarded.bearers)
    async with guarded.agent() as agent:
        [question] = turn.conversation.head.pending
        turn = await agent.decide(question, {"approved": True})
        assert wanted(turn) == {"server": "tools", "status": 401, "challenge": CHALLENGE}
        assert guarded.bearers == before


async def test_long_challenge_is_cut(guarded: Guarded, autojump_clock: MockClock) -> None:
    guarded.challenge = f'Bearer realm="{"x" * 9000}"'
    guarded.plan("agent", use(call("put")))
    async with guarded.agent() as agent:
        challenge = wanted(await agent.start_conversation("go", token=STALE))["challenge"]
        assert challenge == guarded.challenge[:2000]


async def test_a_server_that_no_token_reaches_answers_the_model(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    async def refuse(_: Any) -> str:
        raise ToolAuthRequired("HTTP 401 Unauthorized", status=401)

    guarded.tool("local", HARMLESS, refuse, server="local")
    guarded.plan("agent", use(call("local")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
    assert answer(turn).response == "done"
    [refused] = [m.call for m in turn.conversation.messages if m.call]
    assert (refused.state, refused.is_error, refused.result) == ("finished", True, "HTTP 401 Unauthorized")


async def test_other_branches_go_on_and_one_token_moves_all_that_wait(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    guarded.settings["agent"] = sequential(
        "root",
        parallel("fan", llm("a"), llm("b"), llm("c")),
        {"type": "loop", "name": "again", "max_iterations": 2, "agents": [llm("d")]},
    )
    guarded.plan("a", use(call("put", n=1)), say("A"))
    guarded.plan("b", use(call("put", n=2), call("local")), say("B"))
    guarded.plan("c", use(call("local")), say("C"))
    guarded.plan("d", use(call("put", n=3)), say("D"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        assert wanted(turn)["status"] == 401
        assert guarded.called("local") == 2
        assert "C" in [m.content for m in turn.conversation.messages]
        turn = await agent.resume(turn.conversation.id, token=GOOD)
        assert answer(turn).state == "finished"
    assert guarded.called("put") == 4  # two in the fan, and one in each iteration
    assert (await types(guarded.journal, turn.conversation.id)).count("run.auth_required") == 1


@pytest.mark.parametrize("end", ["cancel", "delete"])
async def test_a_run_that_waits_for_a_token_can_be_ended(
    guarded: Guarded, autojump_clock: MockClock, end: str
) -> None:
    guarded.plan("agent", use(call("put")), turn=1)
    async with guarded.agent() as agent:
        turn: Turn = await agent.start_conversation("go", token=STALE)
        id = turn.conversation.id
        if end == "delete":
            await agent.delete(id)
            return
        turn = await agent.cancel(id)
        assert answer(turn).state == "cancelled"
        [paused] = [m.call for m in turn.conversation.messages if m.call]
        assert paused.state == "cancelled"
        assert answer(await agent.send(id, "next")).state == "finished"
        assert guarded.ledger == []


async def test_stricter_policy_applies_after_the_wait_for_a_token(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    guarded.plan("agent", use(call("put")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
    guarded.settings["approval"] = {"rules": [{"tool": "put", "then": "deny"}]}
    async with guarded.agent() as agent:
        turn = await agent.resume(turn.conversation.id, token=GOOD)
    assert answer(turn).response == "done"
    assert guarded.ledger == []
    [denied] = [m.call for m in turn.conversation.messages if m.call]
    assert denied.state == "denied"


async def test_a_call_whose_outcome_is_unknown_after_a_refusal_is_not_repeated(
    guarded: Guarded, autojump_clock: MockClock
) -> None:
    guarded.tool("post", Hints(), ToolOutcomeUnknown("lost"))
    guarded.plan("agent", use(call("post")), say("done"))
    async with guarded.agent() as agent:
        turn = await agent.start_conversation("go", token=STALE)
        turn = await agent.resume(turn.conversation.id, token=GOOD)
    assert answer(turn).response == "done"
    assert guarded.called("post") == 1
    [unknown] = [m.call for m in turn.conversation.messages if m.call]
    assert unknown.state == "unknown"
