"""Bearer tokens: kept in memory only, and never replaced by a command without one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.access.principal import Grant, Principal
from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.config.sections.auth import Role
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.protocol import Journal
from tests.actors.world import (
    DESTRUCTIVE,
    HARMLESS,
    READ_ONLY,
    World,
    after,
    answer,
    call,
    code_of,
    events,
    llm,
    parallel,
    say,
    sequential,
    use,
)
from tests.canary import TOKEN as SECRET

OTHER = f"{SECRET}-another"
ROLES: tuple[tuple[str, Role], ...] = (("ann", "operator"), ("root", "admin"))


@pytest.fixture
def http(world: World) -> World:
    """A server that is reached by HTTP: calls of it forward the bearer."""
    world.settings["mcp_servers"] = [
        {"name": "tools", "url": "http://127.0.0.1:1/mcp", "max_concurrency": 4},
        {"name": "local", "command": "none"},
    ]
    world.tool("look", READ_ONLY)
    world.tool("wipe", DESTRUCTIVE)
    world.tool("put", HARMLESS)
    world.tool("local", HARMLESS, server="local")
    return world


def at_rest(journal: Journal) -> str:
    assert isinstance(journal, MemoryJournal)
    return repr(journal._streams)


async def test_a_call_forwards_the_token_of_its_message(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("look"), call("local")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        id = turn.conversation.id
        await agent.send(id, "again", token=OTHER)
        await agent.send(id, "and anonymously")
        log = await events(http.journal, id)
    sent = [(name, bearer) for (name, _), bearer in zip(http.ledger, http.bearers, strict=True)]
    assert [bearer for name, bearer in sent if name == "look"] == [SECRET, OTHER, None]
    assert [bearer for name, bearer in sent if name == "local"] == [None] * 3  # not over stdio
    assert SECRET not in at_rest(http.journal)
    assert [e.body["token"] for e in log if e.type == "run.started"] == [True, True, False]


async def test_token_that_is_a_credential_goes_to_the_named_servers_only(
    http: World, autojump_clock: MockClock
) -> None:
    """`auth.forward_credential`. The other servers are called without a token."""
    http.settings["mcp_servers"].append({"name": "other", "url": "http://127.0.0.1:2/mcp"})
    http.tool("peek", READ_ONLY, server="other")
    http.plan("agent", use(call("look")), use(call("peek")), say("done"))
    ann = Principal(id="ann", grants=(Grant("operator", "operator"),), token_servers=frozenset({"tools"}))
    async with http.agent() as agent:
        turn = await agent.acting_as(ann).start_conversation("go", token=SECRET)
        assert answer(turn).state == "finished"
    assert http.bearers == [SECRET, None]


async def test_a_decision_brings_its_own_token(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("wipe")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        await agent.decide(turn.conversation.head.pending[0], {"approved": True}, token=OTHER)
        assert http.bearers == [OTHER]
        turn = await agent.send(turn.conversation.id, "go", token=SECRET)
        await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert http.bearers == [OTHER, SECRET]  # without one, the message's
    assert SECRET not in at_rest(http.journal)
    assert OTHER not in at_rest(http.journal)


async def test_run_that_lost_its_token_never_calls_without(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("wipe"), call("local")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        [question] = turn.conversation.head.pending
    async with http.agent() as agent:
        turn = await agent.decide(question, {"approved": True})
        result = answer(turn)
        assert (result.state, result.auth_required, result.code) == ("auth_required", True, "auth_required")
        assert "tools" in result.response
        assert turn.conversation.head.status == "active"
        assert http.called("wipe") == 0
        assert http.called("local") == 1  # what needs no token went on
        await trio.sleep(60)
        assert not agent._cast.conversations.active
        turn = await agent.resume(turn.conversation.id, token=OTHER)
        assert answer(turn).response == "done"
    assert http.ledger[-1] == ("wipe", {})
    assert http.bearers[-1] == OTHER
    assert OTHER not in at_rest(http.journal)


async def test_a_run_without_a_token_needs_none_after_a_restart(
    http: World, autojump_clock: MockClock
) -> None:
    http.plan("agent", use(call("wipe")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go")
    async with http.agent() as agent:
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
    assert answer(turn).response == "done"
    assert http.bearers == [None]


async def test_a_message_with_a_token_resumes_first(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("wipe")), say("first"), turn=1)
    http.plan("agent", use(call("look")), say("second"), turn=2)
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        id = turn.conversation.id
    async with http.agent() as agent:
        turn = await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        assert answer(turn).state == "auth_required"
        turn = await agent.send(id, "next", token=OTHER)
        assert answer(turn).response == "second"
        replies = [m.content for m in turn.conversation.messages if m.role == "assistant"]
        assert replies == ["first", "second"]
    assert http.bearers == [OTHER, OTHER]


async def test_message_of_another_principal_lends_no_token(http: World, autojump_clock: MockClock) -> None:
    ann, root = (Principal(id=id, grants=(Grant(role, role),)) for id, role in ROLES)
    http.plan("agent", use(call("look")), say("first"), turn=1)
    http.plan("agent", use(call("look")), say("second"), turn=2)
    async with http.agent() as agent:
        with trio.move_on_after(5):
            http.out_of_reach = 100
            turn = await agent.acting_as(ann).start_conversation("go", token=SECRET, key="k")
    http.out_of_reach = 0
    async with http.agent() as agent:
        await trio.sleep(5)
        [item] = (await agent.conversations()).conversations
        turn = await agent.acting_as(root).send(item.id, "next", token=OTHER)
        assert (answer(turn).state, answer(turn).auth_required) == ("queued", True)
        turn = await agent.acting_as(ann).resume(item.id, token=SECRET)
        assert answer(turn).response == "first"
        await trio.sleep(5)
    assert http.bearers == [SECRET, OTHER]


async def test_a_message_without_a_token_waits_for_one_that_resumes(
    http: World, autojump_clock: MockClock
) -> None:
    http.plan("agent", use(call("wipe")), say("first"), turn=1)
    http.plan("agent", say("second"), turn=2)
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        id = turn.conversation.id
    async with http.agent() as agent:
        await agent.decide(turn.conversation.head.pending[0], {"approved": True})
        queued = answer(await agent.send(id, "next"))
        assert (queued.state, queued.code, queued.auth_required) == ("queued", "auth_required", True)
        assert not queued.waiting_approval
        assert http.bearers == []
        await agent.resume(id, token=OTHER)
        await trio.sleep(10)
        assert (await agent.get(id)).messages[-1].content == "second"


async def test_a_queued_message_keeps_its_own_token(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", after(5, use(call("look"))), after(5, say("done")))
    async with http.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            for n in range(4):
                nursery.start_soon(
                    lambda n=n: agent.send(id, f"m{n}", token=f"token {n}")  # type: ignore[misc]
                )
                await trio.sleep(1)
        turn = await agent.send(id, "last")
        order = [m.content for m in turn.conversation.messages if m.role == "user"]
    assert http.bearers == [f"token {text[1]}" if text != "last" else None for text in order]


async def test_repeated_key_does_not_replace_the_first_token(http: World, autojump_clock: MockClock) -> None:
    """Neither a repeated nor a refused request replaces the token of the run."""
    http.plan("agent", after(5, use(call("look"))), say("done"))
    async with http.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: agent.send(id, "go", key="k", token=SECRET))
            await trio.sleep(1)
            with pytest.raises(AgentError, match="idempotency key"):
                await agent.send(id, "something else", key="k", token=OTHER)
            nursery.start_soon(lambda: agent.send(id, "go", key="k", token=OTHER))
    assert http.bearers == [SECRET]


async def test_message_repeated_after_restart_restores_its_token(
    http: World, autojump_clock: MockClock
) -> None:
    http.plan("agent", after(50, use(call("look"))), say("done"))
    async with http.agent() as agent:
        id = (await agent.start_conversation()).conversation.id
        with trio.move_on_after(5):
            await agent.send(id, "go", key="k", token=SECRET)
    async with http.agent() as agent:
        turn = await agent.send(id, "go", key="k", token=SECRET)
    assert answer(turn).response == "done"
    assert http.bearers == [SECRET]


async def test_resume_is_refused_unless_a_run_needs_a_token(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("wipe")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET)
        for _ in range(2):
            assert (
                await code_of(agent.resume(turn.conversation.id, token=OTHER, key="k"))
                == "not_waiting_for_credential"
            )


async def test_one_token_resumes_two_branches(http: World, autojump_clock: MockClock) -> None:
    http.settings |= {
        "approval": {"in_parallel": "ask"},
        "agent": sequential("root", parallel("fan", llm("a"), llm("b"), llm("c")), llm("sum")),
    }
    http.plan("a", use(call("wipe", n=1)), say("A"))
    http.plan("b", after(2, use(call("put", n=2))), say("B"))
    http.plan("c", use(call("wipe", n=3)), say("C"))
    journal = http.journal
    async with http.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", token=SECRET, key="k")
    async with http.agent() as agent:
        await trio.sleep(30)
        [item] = (await agent.conversations()).conversations
        conversation = await agent.get(item.id)
        assert conversation.head.run is not None
        assert conversation.head.run.state == "auth_required"
        assert conversation.head.status == "waiting_approval"
        first, second = conversation.head.pending
        # A decision without a token brings none; the run says again what it needs.
        turn = await agent.decide(first, {"approved": True})
        assert answer(turn).state == "auth_required"
        assert http.ledger == []
        # One with a token moves everything that needed one.
        turn = await agent.decide(second, {"approved": True}, token=OTHER)
        assert answer(turn).response == "sum done"
    assert sorted(arguments["n"] for _, arguments in http.ledger) == [1, 2, 3]
    assert set(http.bearers) == {OTHER}
    assert OTHER not in at_rest(journal)


async def test_token_of_a_decision_resumes_a_waiting_branch(http: World, autojump_clock: MockClock) -> None:
    http.settings |= {
        "approval": {"in_parallel": "ask"},
        "agent": parallel("fan", llm("a"), llm("b"), llm("c")),
    }
    http.plan("a", after(5, use(call("put"))), say("A"))
    http.plan("b", after(5, use(call("wipe"))), say("B"))
    http.plan("c", after(40, say("C")))
    async with http.agent() as agent:
        with trio.move_on_after(1):
            await agent.start_conversation("go", token=SECRET, key="k")
    async with http.agent() as agent:  # the first life ended before anything was called
        await trio.sleep(5)
        [item] = (await agent.conversations()).conversations
        assert http.ledger == []
        turn = await agent.decide(item.pending_approvals[0], {"approved": True}, token=OTHER)
        assert answer(turn).state == "finished"
        log = [event.type for event in await events(http.journal, item.id)]
    assert "run.auth_required" not in log
    assert set(http.bearers) == {OTHER}


async def test_no_token_is_kept_when_nothing_needs_it(http: World, autojump_clock: MockClock) -> None:
    http.plan("agent", use(call("wipe")), say("done"))
    async with http.agent() as agent:
        turn = await agent.start_conversation("go", token=SECRET, key="k")
        id, [question] = turn.conversation.id, turn.conversation.head.pending
        await agent.decide(question, {"approved": True}, token=OTHER, key="d")
        await agent.start_conversation("go", token=SECRET, key="k")
        await agent.decide(question, {"approved": True}, token=OTHER, key="d")
        with pytest.raises(AgentError):
            await agent.resume(id, token=SECRET)
        with pytest.raises(AgentError):
            await agent.send("nobody", "hi", token=SECRET)
        await agent.complete(id)
        with pytest.raises(AgentError):
            await agent.send(id, "hi", token=SECRET)
        with trio.CancelScope() as left:  # before the command is handed over
            left.cancel()
            await agent.start_conversation("hi", token=SECRET)
        assert not vars_of(agent)


def vars_of(agent: Agent) -> Mapping[str, Any]:
    return agent._cast.services.tokens._tokens
