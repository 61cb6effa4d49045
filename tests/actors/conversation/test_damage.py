"""Damaged rows of a conversation that SQLite accepts: it is refused at once, and others work."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError, broken
from stopgo.actors.conversation.conversation import IDLE
from stopgo.runtime.journal.protocol import NewCommand
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from tests.actors.world import DESTRUCTIVE, World, answer, call, code_of, say, use, wall

TEXT = "UPDATE event SET body = {} WHERE stream_id = :stream AND seq = 2"
SUMMARY = "UPDATE stream SET {} WHERE id = :stream"
QUESTION = "UPDATE question SET {} WHERE stream_id = :stream"
INBOX = "UPDATE inbox SET {} WHERE stream_id = :stream AND open = 1"
LAST = "(SELECT max(seq) FROM event WHERE stream_id = :stream)"

ONE_CHARACTER = {
    "event": TEXT.format("'[' || substr(body, 2)"),
    "event, not UTF-8": TEXT.format("CAST(X'FF' || substr(body, 2) AS TEXT)"),
    "event, a name": TEXT.format("replace(body, 'text', 'tekt')"),
    "summary": SUMMARY.format("body = '<' || substr(body, 2)"),
    "title": SUMMARY.format("title = substr(title, 2)"),
    "question": QUESTION.format("body = substr(body, 2)"),
    "question, a name": QUESTION.format("body = replace(body, 'tool_args', 'tool_arks')"),
    "question, its state": QUESTION.format("state = 'pendinf'"),
    "question, its kind": QUESTION.format("kind = 'tooi'"),
    "inbox": INBOX.format("body = substr(body, 2)"),
    "inbox, a name": INBOX.format("body = replace(body, 'message', 'mersage')"),
    "inbox, yes or no": INBOX.format(
        """kind = 'decision', body = '{"question":"q","decision":{"aproved":false}}'"""
    ),
}
MORE = {
    "event, no object": TEXT.format("'7'"),
    "event, no text": TEXT.format("7"),
    "event, deep": TEXT.format("replace(hex(zeroblob(100000)), '00', '[')"),
    "event, a wrong type": TEXT.format("""'{"text":7,"command":"k"}'"""),
    "event, its time": "UPDATE event SET at = 1e300 WHERE stream_id = :stream AND seq = 2",
    "event, of nothing": f"UPDATE event SET type = 'tool.unknown' WHERE stream_id = :stream AND seq = {LAST}",
    "a gap": "DELETE FROM event WHERE stream_id = :stream AND seq = 2",
    "the end is missing": f"DELETE FROM event WHERE stream_id = :stream AND seq = {LAST}",
    "all is missing": "DELETE FROM event WHERE stream_id = :stream",
    "last seq, less": SUMMARY.format("last_seq = 3"),
    "last seq, negative": SUMMARY.format("last_seq = -1"),
    "last seq, no number": SUMMARY.format("last_seq = 'x'"),
    "summary, no run": SUMMARY.format("""body = '{"run":{"id":"r"}}'"""),
    "summary, its owner": SUMMARY.format("owner = X'FF'"),
    "summary, its status": SUMMARY.format("status = X'FF'"),
    "question, its id": QUESTION.format("id = substr(id, 2)"),
    "question, its time": QUESTION.format("created = 'x'"),
    "question, what another kind is told": QUESTION.format(
        """state = 'decided', decision = '{"action":"accept"}'"""
    ),
    "question, no text": QUESTION.format("body = X'7B7D'"),
}


@asynccontextmanager
async def life(world: World) -> AsyncIterator[Agent]:
    async with open_sqlite(world.folder / "data", wall=wall, inline=True) as world.journal:
        async with world.agent() as agent:
            yield agent


def damage(folder: Path, statement: str, conversation: str) -> None:
    with closing(sqlite3.connect(folder / "data" / "journal.db")) as db, db:
        (stream,) = db.execute("SELECT id FROM stream WHERE name = ?", (conversation,)).fetchone()
        assert db.execute(statement, {"stream": stream}).rowcount > 0


@contextmanager
def at_once() -> Iterator[None]:
    began = trio.current_time()
    yield
    assert trio.current_time() - began < 1.0


@pytest.mark.parametrize("statement", [*ONE_CHARACTER.values(), *MORE.values()], ids=[*ONE_CHARACTER, *MORE])
async def test_damaged_conversation_is_refused_and_others_work(
    world: World, autojump_clock: MockClock, statement: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.settings["approval"] = {"expires_after": 30}
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", use(call("wipe")), say("done"))
    async with life(world) as agent:
        sound, bad = [(await agent.start_conversation("go")).conversation for _ in range(2)]
        await world.journal.deliver(NewCommand(bad.id, "k", "message", {"message": "late", "token": False}))
    [asked], [lost] = sound.head.pending, bad.head.pending
    damage(world.folder, statement, bad.id)
    async with life(world) as agent:
        await trio.sleep(10)
        assert f"conversation {bad.id} is broken: " in caplog.text
        assert agent.health().ready
        with at_once():
            for attempt in range(2):
                assert await code_of(agent.get(bad.id)) == "conversation_broken"
                assert await code_of(agent.cancel(bad.id)) == "conversation_broken"
                assert await code_of(agent.complete(bad.id, key=f"c{attempt}")) == "conversation_broken"
                with pytest.raises(AgentError) as sent:
                    await agent.send(bad.id, "hello", token="t")
                assert (sent.value.code, sent.value.hint) == ("conversation_broken", broken("").hint)
        for full in (False, True):
            page = await agent.conversations(full=full)
            shown = {item.id for item in page.conversations}
            assert sound.id in shown
            assert (bad.id in shown) != (bad.id in page.broken)
        assert page.broken.keys() == {bad.id}
        pending = await agent.approvals()
        assert asked in {question.id for question in pending.approvals}
        assert pending.broken.keys() <= {bad.id}
        assert not agent._cast.services.tokens._tokens
        with at_once():
            unknown = {"approval_not_found"} if "SET id" in statement else set()
            assert await code_of(agent.decide(lost, {"approved": True})) in {"conversation_broken", *unknown}
        assert answer(await agent.decide(asked, {"approved": True})).response == "done"
        assert world.called("wipe") == 1
        await trio.sleep(30)  # what is due does not hold up the timers
        with at_once():
            await agent.delete(bad.id)
        assert await code_of(agent.get(bad.id)) == "conversation_not_found"
        assert not (await agent.conversations(full=True)).broken
        assert not (await agent.approvals(state=None)).broken
        assert answer(await agent.send(sound.id, "more")).state in ("finished", "waiting")


async def test_approval_that_is_asked_while_a_page_is_read(
    world: World, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The approvals of a page are read before its conversations: a newer one does not count as missing."""
    world.tool("wipe", DESTRUCTIVE)
    world.plan("agent", say("hello"), use(call("wipe")))
    async with world.agent() as agent:
        id = (await agent.start_conversation("hello")).conversation.id
        await trio.sleep(2 * IDLE)
        read = agent._journal.events_since

        async def read_late(*args: Any, **options: Any) -> Any:
            monkeypatch.undo()
            await agent.send(id, "wipe")
            return await read(*args, **options)

        monkeypatch.setattr(agent._journal, "events_since", read_late)
        page = await agent.conversations(full=True)
        assert page.broken == {}
        [item] = page.conversations
        assert item.conversation is not None
        assert item.conversation.head.pending == tuple(item.conversation.approvals)
