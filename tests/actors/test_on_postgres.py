"""Agents of two processes on one PostgreSQL. The clock is real, because the database has its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
import trio

from stopgo.actors.agent import Agent
from stopgo.actors.conversation import other_nodes
from stopgo.actors.open_agent import open_agent
from stopgo.runtime.journal.postgres.journal import PostgresJournal, open_postgres
from tests.actors.several_nodes import YES
from tests.actors.world import DESTRUCTIVE, World, after, answer, call, code_of, say, types, use
from tests.postgres_server import PostgresServer

pytestmark = pytest.mark.postgres

LEASE = 5.0


@pytest.fixture
def dsn(postgres_server: PostgresServer) -> Iterator[str]:
    with postgres_server.empty_schema() as dsn:
        yield dsn


@asynccontextmanager
async def running(folder: Path, dsn: str, node: str) -> AsyncIterator[tuple[Agent, World]]:
    home = folder / node
    home.mkdir()
    async with open_postgres(dsn, lease=LEASE, node=node) as journal:
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


async def test_conversation_goes_on_at_another_node(tmp_path: Path, dsn: str) -> None:
    """A decision at the other node, an answer there, and its events here."""
    async with running(tmp_path, dsn, "a") as (a, at_a), running(tmp_path, dsn, "b") as (b, at_b):
        turn = await a.start_conversation("go", key="k")
        id, [asked] = turn.conversation.id, turn.conversation.head.pending
        assert answer(await b.decide(asked, YES, key="d")).state == "finished"
        assert await seen_until_the_end(a, id) == await types(at_a.journal, id)
        assert (await b.start_conversation("go", key="k")).conversation.id == id
        assert await code_of(a.decide(asked, YES, key="later")) == "already_decided"
    assert at_a.called("wipe") + at_b.called("wipe") == 1


async def test_node_that_dies_is_taken_over(
    tmp_path: Path, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It dies after the call; the model is asked by the other node."""
    monkeypatch.setattr(other_nodes, "POLL", 0.2)
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
                await a.decide(asked, YES, wait=False)
                await called.wait()
                life.cancel()
        assert (await seen_until_the_end(b, turn.conversation.id))[-1] == "run.finished"
    assert (at_a.called("wipe"), at_b.called("wipe")) == (1, 0)
