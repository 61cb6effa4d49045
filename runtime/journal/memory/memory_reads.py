"""The contents of a journal in memory, and the methods that read them."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count, islice

import trio

from ... import json_text
from ...clock import WallClock, system_clock
from .. import cursor as cursors
from .. import note, rows
from ..local_member import LocalMember
from ..outbox import OutboxRow
from ..ownership import Fleet
from ..passage import MOST_STREAMS, Passage, PassagePlace, WantedEvents, bounded, passage, spans
from ..protocol import Event, Json, Marks
from ..question import MOST_DUE, Due, DuePage, Question, QuestionPage, QuestionState, fitting
from ..summary import AFTER_HEX, MOST_BEGINNING, Among, Census, NamedKind, Page, Row
from .memory_stream import MemoryStream


@asynccontextmanager
async def handed_over() -> AsyncIterator[None]:
    """Checkpoints as in `SqliteJournal`: the first can be cancelled, the second, after the change, cannot."""
    await trio.lowlevel.checkpoint()
    yield
    await trio.lowlevel.cancel_shielded_checkpoint()


class MemoryReads(LocalMember):
    """One member of a journal in memory. The members share the contents."""

    def __init__(
        self,
        wall: WallClock = system_clock,
        *,
        lease: float = math.inf,
        version: int = 0,
        member: str = "",
    ) -> None:
        """The first member. The arguments are those of `LocalMember`."""
        super().__init__(wall, lease, version, member)
        self._streams: dict[str, MemoryStream] = {}
        self._asked: dict[str, tuple[int, str]] = {}
        """The number and stream of every question by id, oldest first."""
        self._stream_numbers = count(1)
        self._question_numbers = count(1)
        self._notes: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._outbox: dict[int, OutboxRow] = {}
        self._outbox_numbers = count(1)

    # -------------------------------------------------------------- reading

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        async with handed_over():
            kept = self._streams.get(stream)
            after = kept.events[max(0, seq) :] if kept else []
            return tuple(after if limit is None else after[: max(0, limit)])

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        async with handed_over():
            numbered = {
                each.number: each
                for each in self._streams.values()
                if each.events
                and each.number % wanted.of == wanted.part
                and each.updated >= wanted.since
                and (at is None or each.number <= at.stream)
            }
            newest = sorted(numbered, reverse=True)[:MOST_STREAMS]
            heads = [(each, numbered[each].name, len(numbered[each].events)) for each in newest]
            if not heads:
                return Passage((), None)
            chosen, next = spans(heads, at)
            rows = (
                (span.stream, each.seq, each.type, each.at, json_text.dump(each.body))
                for span in chosen
                for each in numbered[span.stream].events[span.after : span.until]
                if each.type in wanted.types or (wanted.known and each.type not in wanted.known)
            )
            return passage(chosen, next, *bounded(rows))

    async def row(self, stream: str) -> Row | None:
        async with handed_over():
            kept = self._streams.get(stream)
            return kept.row() if kept else None

    async def marks(self, streams: Collection[str], commands: Collection[tuple[str, str]]) -> Marks:
        async with handed_over():
            found = {name: kept.mark() for name in streams if (kept := self._streams.get(name))}
            answered = [each for each in commands if self._is_answered(*each)]
            return Marks(found, frozenset(answered))

    def _is_answered(self, stream: str, key: str) -> bool:
        kept = self._streams.get(stream)
        stored = kept.inbox.get(key) if kept else None
        return stored is None or stored.reply is not None

    async def list(
        self,
        *,
        status: str | None = None,
        q: str | None = None,
        among: Among | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> Page:
        before = cursors.read("streams", cursor) if cursor is not None else None
        async with handed_over():
            listed = [
                kept
                for kept in self._streams.values()
                if kept.events and (among is None or among.matches(kept.name, kept.summary.owner))
            ]
            found = [
                kept
                for kept in listed
                if (before is None or kept.number < before)
                and (status is None or kept.summary.status == status)
                and rows.fold(q or "") in rows.fold(kept.summary.title)
            ]
            page = sorted(found, key=lambda kept: kept.number, reverse=True)[: max(1, limit)]
            return Page(
                rows=tuple(kept.row() for kept in page),
                next_cursor=cursors.write("streams", page[-1].number) if len(found) > len(page) else None,
                after=tuple(cursors.write("streams", kept.number) for kept in page),
                tally=dict(Counter(kept.summary.status for kept in listed)),
            )

    async def beginning(self, text: str, of: NamedKind) -> tuple[str, ...]:
        async with handed_over():
            names = self._streams if of == "stream" else self._asked
            found = (name for name in names if text <= name < text + AFTER_HEX)
            return tuple(islice(found, MOST_BEGINNING))

    async def question(self, id: str) -> Question | None:
        async with handed_over():
            return self._streams[self._asked[id][1]].questions[id] if id in self._asked else None

    async def questions(
        self,
        *,
        state: QuestionState | None = "pending",
        kind: str | None = None,
        streams: Sequence[str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> QuestionPage:
        after = cursors.read("questions", cursor) if cursor is not None else 0
        async with handed_over():
            found = [
                (number, asked)
                for number, asked in self._questions()
                if number > after
                and (state is None or asked.state == state)
                and (kind is None or asked.kind == kind)
                and (streams is None or asked.stream in streams)
            ]
            page = found[: len(fitting(_sized(found[: max(1, limit)]), max(1, limit)))]
            following = cursors.write("questions", page[-1][0]) if len(found) > len(page) else None
            return QuestionPage(tuple(asked for _, asked in page), following)

    async def decided(self, limit: int) -> QuestionPage:
        async with handed_over():
            found = [asked for _, asked in self._questions() if asked.state == "decided"]
            newest = found[::-1][: max(1, limit)]
            return QuestionPage(tuple(newest[: len(fitting(_sized(enumerate(newest)), len(newest)))]), None)

    def _questions(self) -> Iterator[tuple[int, Question]]:
        for id, (number, name) in self._asked.items():
            yield number, self._streams[name].questions[id]

    async def due(self, after: Due | None = None) -> DuePage:
        async with handed_over():
            now = self._wall()
            expiring = sorted(
                (asked.expires, number, Due(asked.id, asked.stream, asked.expires, number))
                for number, asked in self._questions()
                if asked.state == "pending" and asked.expires is not None
            )
            start = (-math.inf, 0) if after is None else (after.expires, after.number)
            due = [each for *place, each in expiring if each.expires <= now and tuple(place) > start]
            next_in = min(
                (each.expires - now for *_, each in expiring if each.expires > now), default=math.inf
            )
            return DuePage(tuple(due[:MOST_DUE]), next_in)

    async def open_work(self, but: Collection[str] = ()) -> tuple[str, ...]:
        async with handed_over():
            work = [
                (kept.number, name)
                for name, kept in self._streams.items()
                if (kept.waiting() or (kept.summary.open and name not in but))
                and self._is_free(name, kept.demands)
            ]
            return tuple(name for _, name in sorted(work))

    async def fleet(self) -> Fleet:
        async with handed_over():
            streams = self._streams.items()
            working = [name for name, kept in streams if kept.waiting() or kept.summary.open]
            need_newer = sum(kept.demands > self._newest for _, kept in streams)
            return self._owners.fleet("memory", self._wall(), working, need_newer)

    async def need_newer(self) -> int:
        return (await self.fleet()).need_newer

    async def census(self) -> Census:
        async with handed_over():
            kept = self._streams.values()
            asked = [each.created for _, each in self._questions() if each.state == "pending"]
            return Census(
                streams=dict(Counter(each.summary.status for each in kept if each.events)),
                commands=sum(len(each.waiting()) for each in kept),
                pending=len(asked),
                oldest=min(asked, default=None),
            )

    async def outbox(self, limit: int) -> Sequence[OutboxRow]:
        async with handed_over():
            return tuple(islice(self._outbox.values(), limit))

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        async with handed_over():
            return self._revisions.since(kind, after, note.parsed(self._notes[kind].items()))


def _sized(found: Iterable[tuple[int, Question]]) -> list[tuple[int, int]]:
    """The numbers and sizes of questions."""
    return [
        (number, len(json_text.dump(asked.body)) + len(json_text.dump(asked.decision)))
        for number, asked in found
    ]
