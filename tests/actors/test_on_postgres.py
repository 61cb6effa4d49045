"""Agents of two processes on one PostgreSQL. The clock is real, because the database has its own."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from pathlib import Path
from random import Random

import pytest
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.log.writer import relay
from stopgo.actors.workers import other_members
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from tests.actors.several_members import YES
from tests.actors.watcher_audit import Watcher
from tests.actors.world import DESTRUCTIVE, World, after, answer, call, code_of, say, types, use
from tests.postgres_server import PostgresServer
from tests.waiting import until

pytestmark = pytest.mark.postgres

LEASE = 5.0


@pytest.fixture
def dsn(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn:
        yield dsn


@asynccontextmanager
async def running(
    folder: Path, dsn: str, member: str, lease: float = LEASE
) -> AsyncIterator[tuple[Agent, World]]:
    home = folder / member
    home.mkdir()
    async with open_postgres(dsn, lease=lease, member=member) as journal:
        world = World(home, journal)
        world.tool("wipe", DESTRUCTIVE)
        world.plan("agent", use(call("wipe")), after(1, say("done")))
        async with open_agent(
            world.config(), journal=journal, open_server=world.open_server, open_model=world.open_model
        ) as agent:
            yield agent, world


async def seen_until_the_end(agent: Agent, id: str) -> list[str]:
    seen: list[str] = []
    async with aclosing(agent.events(id)) as events:
        async for each in events:
            seen.append(each.type)
            if each.type == "run.finished":
                break
    return seen


async def test_conversation_goes_on_at_another_member(tmp_path: Path, dsn: str) -> None:
    """A decision at the other member, an answer there, and its events here."""
    async with running(tmp_path, dsn, "a") as (a, at_a), running(tmp_path, dsn, "b") as (b, at_b):
        turn = await a.start_conversation("go", key="k")
        id, [asked] = turn.conversation.id, turn.conversation.head.pending
        assert answer(await b.decide(asked, YES, key="d")).state == "finished"
        assert await seen_until_the_end(a, id) == await types(at_a.journal, id)
        assert (await b.start_conversation("go", key="k")).conversation.id == id
        assert await code_of(a.decide(asked, YES, key="later")) == "already_decided"
    assert at_a.called("wipe") + at_b.called("wipe") == 1


async def test_member_that_dies_is_taken_over(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the call; the model is asked by the other member."""
    monkeypatch.setattr(other_members, "POLL", 0.2)
    called = trio.Event()

    async def wipe(_: object) -> str:
        called.set()
        return "wiped"

    async def keep(_: PostgresJournal) -> None:
        """A process that is killed does not end its lease."""

    async with running(tmp_path, dsn, "b") as (b, at_b):
        with monkeypatch.context() as dead, trio.CancelScope() as life:
            dead.setattr(PostgresJournal, "leave", keep)
            async with running(tmp_path, dsn, "a") as (a, at_a):
                at_a.tool("wipe", DESTRUCTIVE, wipe)
                turn = await a.start_conversation("go")
                [asked] = turn.conversation.head.pending
                await a.post_decision(asked, YES)
                await called.wait()
                life.cancel()
        assert (await seen_until_the_end(b, turn.conversation.id))[-1] == "run.finished"
    assert (at_a.called("wipe"), at_b.called("wipe")) == (1, 0)


MEMBERS = ("a", "b", "c")
CONVERSATIONS = 12
"""A member keeps the hints of so many even if it gets no time to read them: it keeps 256."""


async def test_watchers_at_busy_members(tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Conversations are created at one member, and get messages at others at once, while each member is
    watched: each event of the journal comes once, and without faults there is no gap. Issue 57, point 2."""
    monkeypatch.setattr(relay, "CLOCKS_DIFFER", 0.0)  # it is one machine
    watchers = [Watcher(time.time) for _ in MEMBERS]
    async with AsyncExitStack() as stack:
        # On a slow machine, a lease of seconds could run out, which is a gap.
        places = [await stack.enter_async_context(running(tmp_path, dsn, member, 1e6)) for member in MEMBERS]
        for _, world in places:
            world.plan("agent", say("done"))
        agents = [agent for agent, _ in places]
        watching = await stack.enter_async_context(trio.open_nursery())
        for agent, watcher in zip(agents, watchers, strict=True):
            await watching.start(watcher.watch, agent)

        async def all_have_heard_all() -> None:
            """The hints of a member come in order, so those before have come, too."""
            marks: list[set[str]] = [set() for _ in agents]

            async def heard() -> bool:
                for agent, ids in zip(agents, marks, strict=True):
                    ids.add((await agent.start_conversation()).conversation.id)
                return all(watcher.seen & ids for watcher in watchers for ids in marks)

            await until(heard)

        await all_have_heard_all()  # each member listens
        await all_have_heard_all()  # and knows the conversations from before
        began, created = time.time(), list[str]()

        async def talk(number: int) -> None:
            first, second, third = Random(number).sample(agents, 3)
            id = (await first.start_conversation()).conversation.id
            created.append(id)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(second.send, id, "one")
                nursery.start_soon(third.send, id, "two")

        async with trio.open_nursery() as nursery:
            for number in range(CONVERSATIONS):
                nursery.start_soon(talk, number)
        journal = places[0][1].journal
        committed = {id: [*await journal.events_since(id, 0)] for id in created}
        await all_have_heard_all()
        watching.cancel_scope.cancel()
    assert sum(map(len, committed.values())) >= 9 * CONVERSATIONS
    assert [[*watcher.mistakes(committed)] for watcher in watchers] == [[] for _ in MEMBERS]
    assert [[at for at in each.gaps if at > began] for each in watchers] == [[] for _ in MEMBERS]
