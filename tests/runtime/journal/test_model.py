"""Whatever is done in whatever order, the store on disk answers as the one in memory does."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stopgo.runtime.journal.errors import JournalError
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.ownership import Fence
from stopgo.runtime.journal.protocol import (
    REFUSAL_SECONDS,
    Commit,
    Journal,
    NewCommand,
    NewEvent,
    NewIntent,
    SettleIntent,
)
from stopgo.runtime.journal.question import CloseQuestion, NewQuestion
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.summary import Among, Summary
from tests.runtime.journal.kept import intents_of

Step = tuple[Any, ...]

LEASE = 16.0
"""Seconds; each step takes one."""

streams = st.sampled_from(["s", "t"])
keys = st.sampled_from(["k1", "k2", "k3"])
question_ids = st.sampled_from(["q1", "q2", "q3"])
owners = st.sampled_from(["", "o", "p"])
statuses = st.sampled_from(["", "active", "done"])
bodies = st.sampled_from([{}, {"v": 1}, {"v": True}, {"é": ["x"]}])
times = st.none() | st.sampled_from([10.0, 40.0])

question_changes = st.builds(NewQuestion, question_ids, st.just("tool"), bodies, times) | st.builds(
    CloseQuestion, question_ids, st.sampled_from(["expired", "void"]), bodies
)


def is_valid(summary: Summary) -> bool:
    return not (summary.open and summary.rests)


saves = st.fixed_dictionaries(
    {
        "events": st.lists(
            st.builds(NewEvent, st.just("e"), bodies, st.none() | st.integers(0, 9).map(float)), max_size=2
        )
    },
    optional={
        "intents": st.lists(
            st.builds(NewIntent, keys, st.integers(1, 2), st.just("once"), bodies), max_size=2
        ),
        "settle": st.lists(
            st.builds(SettleIntent, keys, st.integers(1, 2), st.sampled_from(["finished", "unknown"])),
            max_size=1,
        ),
        "questions": st.lists(question_changes, max_size=2),
        "ack": st.lists(keys, max_size=2),
        "replies": st.dictionaries(keys, bodies, max_size=2),
        "refuse": st.dictionaries(keys, bodies, max_size=1),
        "summary": st.builds(
            Summary, statuses, st.sampled_from(["A", "Bé"]), st.booleans(), bodies, owners, st.booleans()
        ).filter(is_valid),
    },
)
delivery = st.fixed_dictionaries(
    {"new": st.booleans(), "follow": st.booleans()},
    optional={
        "limit": st.integers(0, 2),
        "unless": st.frozensets(statuses, max_size=2),
        "not_behind": st.just(frozenset({"cancel"})),
    },
)
members = st.sampled_from(["n", "o"])
versions = st.sampled_from([0, 0, 1])
"""Of member o. Member n has 0."""
kinds = st.sampled_from(["message", "cancel"])
steps = st.one_of(
    st.tuples(st.just("deliver"), members, streams, keys, kinds, bodies, delivery),
    st.tuples(st.just("decide"), members, question_ids, bodies, keys, st.booleans()),
    st.tuples(st.just("claim"), members, streams),
    st.tuples(st.just("release"), streams, st.sampled_from([0, 0, 1])),
    st.tuples(st.sampled_from(["renew", "renew", "leave"]), members),
    st.tuples(st.just("wait"), st.sampled_from([LEASE / 2, LEASE, REFUSAL_SECONDS])),
    # Mostly by the newest owner at the right seq, sometimes not.
    st.tuples(st.just("save"), streams, st.sampled_from([0, 0, 0, 0, 1]), saves),
    st.tuples(st.just("save"), streams, st.just(0), saves),
    st.tuples(st.just("delete"), streams, st.sampled_from([0, 1])),
    st.tuples(st.just("note"), st.sampled_from(["a", "b"]), st.dictionaries(keys, bodies, max_size=2)),
)


@attrs.define
class Driver:
    """Does steps on two members of one store, with the fences that it gave."""

    journal: Journal
    other: Journal
    fences: dict[str, list[Fence]] = attrs.field(factory=dict)

    async def do(self, step: Step) -> object:
        match step:
            case ("deliver", member, stream, key, kind, body, options):
                return await self.member(member).deliver(NewCommand(stream, key, kind, body, **options))
            case ("decide", member, question, decision, key, follow):
                return await self.member(member).decide(question, decision, key, follow=follow)
            case ("claim", member, stream):
                fence = await self.member(member).claim(stream)
                if isinstance(fence, Fence):
                    self.fences.setdefault(stream, []).insert(0, fence)
                return fence
            case ("release", stream, stale):
                fence = self.fence(stream, stale)
                return await self.member(fence.owner).release(fence)
            case ("renew", member):
                return await self.member(member).renew()
            case ("wait", _):
                return None
            case ("leave", member):
                await self.member(member).leave()
                return None
            case ("save", stream, stale, parts):
                row, fence = await self.journal.row(stream), self.fence(stream, stale)
                seq = row.last_seq if row else 0
                return await self.member(fence.owner).save(Commit(fence, seq, **parts))
            case ("delete", stream, stale):
                await self.journal.delete(self.fence(stream, stale))
                return None
            case ("note", kind, notes):
                await self.journal.write_notes(kind, notes)
                return None
        raise AssertionError(step)

    def member(self, name: str) -> Journal:
        return self.journal if name == "n" else self.other

    def fence(self, stream: str, stale: int) -> Fence:
        held = self.fences.get(stream, [])
        return held[stale] if stale < len(held) else Fence(stream, "nobody", 0)

    async def everything(self) -> list[object]:
        journal = self.journal
        seen: list[object] = [await journal.due(), await journal.living()]
        seen += [await each.open_work(but) for each in (journal, self.other) for but in ((), ("s",))]
        seen += [await journal.owns(fence) for found in self.fences.values() for fence in found]
        for stream in ("s", "t", "nobody"):
            seen += [await journal.row(stream), await journal.events_since(stream, 0)]
            seen += [await journal.inbox(stream), await intents_of(journal, stream)]
            for key in ("k1", "k2", "k3"):
                seen.append(await outcome(partial(self.other.stored_reply, stream, key)))
        amongs = [Among(""), Among("o"), Among("p", ("s",)), Among("", ("t", "t", "nobody"))]
        for page in (
            await journal.list(),
            await journal.list(status="active"),
            await journal.list(q="É"),
            *[await journal.list(among=among) for among in amongs],
            *[await journal.list(among=among, status="active", q="a", limit=1) for among in amongs],
        ):
            seen.append((page.rows, dict(page.tally)))
        seen.append(await journal.questions(state=None, limit=2))
        seen.append(await journal.questions(streams=["t"]))
        seen.append(await journal.need_newer())
        seen += [await journal.notes(kind) for kind in ("a", "b", "nobody")]
        return seen


async def outcome(call: Callable[[], Awaitable[object]]) -> object:
    try:
        return await call()
    except JournalError as error:
        return type(error)


FIRST: tuple[Step, ...] = (
    ("renew", "n"),
    ("renew", "o"),
    ("deliver", "n", "s", "k0", "message", {}, {"new": True}),
    ("claim", "n", "s"),
    ("save", "s", 0, {"questions": [NewQuestion("q1", "tool", {}, expires=20.0)]}),
)


async def compare(todo: list[Step], version: int) -> None:
    now = 0.0
    with tempfile.TemporaryDirectory() as directory:
        async with open_sqlite(directory, wall=lambda: now, inline=True, member="n", lease=LEASE) as journal:
            memory = MemoryJournal(lambda: now, member="n", lease=LEASE)
            kept = Driver(journal, journal.another("o", version=version))
            model = Driver(memory, memory.another("o", version=version))
            for step in (*FIRST, *todo):
                now += step[1] if step[0] == "wait" else 1.0
                expected = await outcome(partial(model.do, step))
                assert await outcome(partial(kept.do, step)) == expected, step
            assert await kept.everything() == await model.everything()


few = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
many = settings(few, max_examples=1000)


@few
@given(st.lists(steps, max_size=40), versions)
def test_the_store_on_disk_does_as_the_model(todo: list[Step], version: int) -> None:
    trio.run(compare, todo, version)


@pytest.mark.crash
@many
@given(st.lists(steps, max_size=80), versions)
def test_the_store_on_disk_does_as_the_model_at_length(todo: list[Step], version: int) -> None:
    trio.run(compare, todo, version)
