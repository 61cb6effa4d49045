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
from stopgo.runtime.journal.memory import MemoryJournal
from stopgo.runtime.journal.protocol import Among, Fence, Journal, NewEvent, NewIntent, SettleIntent, Summary
from stopgo.runtime.journal.question import CloseQuestion, NewQuestion
from stopgo.runtime.journal.sqlite import open_sqlite
from tests.runtime.journal.kept import intents_of, reply_of

Step = tuple[Any, ...]

streams = st.sampled_from(["s", "t"])
keys = st.sampled_from(["k1", "k2", "k3"])
question_ids = st.sampled_from(["q1", "q2", "q3"])
owners = st.sampled_from(["", "o", "p"])
statuses = st.sampled_from(["", "active", "done"])
bodies = st.sampled_from([{}, {"v": 1}, {"v": True}, {"é": ["x"]}])
times = st.none() | st.sampled_from([2.0, 5.0])

question_changes = st.builds(NewQuestion, question_ids, st.just("tool"), bodies, times) | st.builds(
    CloseQuestion, question_ids, st.sampled_from(["expired", "void"]), bodies
)
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
        "summary": st.builds(Summary, statuses, st.sampled_from(["A", "Bé"]), st.booleans(), bodies, owners),
    },
)
delivery = st.fixed_dictionaries(
    {"new": st.booleans()},
    optional={"limit": st.integers(0, 2), "unless": st.frozensets(statuses, max_size=2)},
)
steps = st.one_of(
    st.tuples(st.just("deliver"), streams, keys, st.sampled_from(["message", "cancel"]), bodies, delivery),
    st.tuples(st.just("decide"), question_ids, bodies, keys, st.sampled_from([1.0, 3.0])),
    st.tuples(st.just("claim"), streams),
    # Mostly by the newest owner at the right seq, sometimes not.
    st.tuples(st.just("save"), streams, st.sampled_from([0, 0, 0, 0, 1]), saves),
    st.tuples(st.just("save"), streams, st.just(0), saves),
    st.tuples(st.just("delete"), streams, st.sampled_from([0, 1])),
    st.tuples(st.just("note"), st.sampled_from(["a", "b"]), st.dictionaries(keys, bodies, max_size=2)),
)


@attrs.define
class Driver:
    """Does steps on one store, with the fences that it gave."""

    journal: Journal
    fences: dict[str, list[Fence]] = attrs.field(factory=dict)

    async def do(self, step: Step) -> object:
        match step:
            case ("deliver", stream, key, kind, body, options):
                return await self.journal.deliver(stream, key, kind, body, **options)
            case ("decide", question, decision, key, now):
                return await self.journal.decide(question, decision, key, now)
            case ("claim", stream):
                fence = await self.journal.claim(stream, "me")
                self.fences.setdefault(stream, []).insert(0, fence)
                return fence.owner, fence.epoch
            case ("save", stream, stale, parts):
                row = await self.journal.row(stream)
                seq = row.last_seq if row else 0
                return await self.journal.save(self.fence(stream, stale), seq, **parts)
            case ("delete", stream, stale):
                await self.journal.delete(self.fence(stream, stale))
                return None
            case ("note", kind, notes):
                await self.journal.write_notes(kind, notes)
                return None
        raise AssertionError(step)

    def fence(self, stream: str, stale: int) -> Fence:
        held = self.fences.get(stream, [])
        return held[stale] if stale < len(held) else Fence(stream, "nobody", 0)

    async def everything(self) -> list[object]:
        journal = self.journal
        seen: list[object] = [await journal.open_work(), await journal.due(3.0), await journal.due(9.0)]
        for stream in ("s", "t", "nobody"):
            seen += [await journal.row(stream), await journal.events_since(stream, 0)]
            seen += [await journal.inbox(stream), await intents_of(journal, stream)]
            seen += [await reply_of(journal, stream, key) for key in ("k1", "k2", "k3")]
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
        seen += [await journal.notes(kind) for kind in ("a", "b", "nobody")]
        return seen


async def outcome(call: Callable[[], Awaitable[object]]) -> object:
    try:
        return await call()
    except JournalError as error:
        return type(error)


FIRST: tuple[Step, ...] = (
    ("deliver", "s", "k0", "message", {}, {"new": True}),
    ("claim", "s"),
    ("save", "s", 0, {"questions": [NewQuestion("q1", "tool", {}, expires=2.0)]}),
)


async def compare(todo: list[Step]) -> None:
    now = 0.0
    with tempfile.TemporaryDirectory() as directory:
        async with open_sqlite(directory, wall=lambda: now, inline=True) as journal:
            kept, model = Driver(journal), Driver(MemoryJournal(lambda: now))
            for step in (*FIRST, *todo):
                now += 1.0
                expected = await outcome(partial(model.do, step))
                assert await outcome(partial(kept.do, step)) == expected, step
            assert await kept.everything() == await model.everything()


few = settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow])
many = settings(few, max_examples=3000)


@few
@given(st.lists(steps, max_size=40))
def test_the_store_on_disk_does_as_the_model(todo: list[Step]) -> None:
    trio.run(compare, todo)


@pytest.mark.crash
@many
@given(st.lists(steps, max_size=80))
def test_the_store_on_disk_does_as_the_model_at_length(todo: list[Step]) -> None:
    trio.run(compare, todo)
