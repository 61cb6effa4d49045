"""A journal in memory: for tests and simulation, and the model that the store on disk is compared with."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import assert_never

import attrs
import trio

from .. import json_text
from ..clock import WallClock, system_clock
from . import cursor as cursors
from . import note, rows
from . import vote as votes
from .errors import Fenced, JournalError, UnknownStream
from .memory_stream import Delivered, Stream
from .protocol import (
    Accepted,
    Among,
    Command,
    Event,
    Fence,
    Json,
    KeyReused,
    NewEvent,
    NewIntent,
    NotAccepted,
    Page,
    Repeated,
    Row,
    Saved,
    SettleIntent,
    Summary,
)
from .question import (
    MOST_DUE,
    Already,
    CloseQuestion,
    Due,
    NewQuestion,
    Question,
    QuestionPage,
    QuestionState,
    Unknown,
    Won,
)
from .vote import Outdated, Vote, Voted


@asynccontextmanager
async def _handed_over() -> AsyncIterator[None]:
    """Checkpoints as in `SqliteJournal`: the first can be cancelled, the second, after the change, cannot."""
    await trio.lowlevel.checkpoint()
    yield
    await trio.lowlevel.cancel_shielded_checkpoint()


def _same(one: Json, other: Json) -> bool:
    return json_text.same(json_text.dump(one), json_text.dump(other))


def _copy(body: Json) -> Json:
    copied: Json = json_text.load(json_text.dump(body))
    return copied


class MemoryJournal:
    """Implements every rule of `Journal` except durability."""

    def __init__(self, wall: WallClock = system_clock) -> None:
        self._wall = wall
        self._streams: dict[str, Stream] = {}
        self._asked: dict[str, tuple[int, str]] = {}
        """The number and stream of every question by id, oldest first."""
        self._stream_numbers = count(1)
        self._question_numbers = count(1)
        self._epochs = count(1)
        self._notes: defaultdict[str, dict[str, str]] = defaultdict(dict)

    # ------------------------------------------------------------- commands

    async def deliver(
        self,
        stream: str,
        key: str,
        kind: str,
        body: Json,
        *,
        new: bool = False,
        limit: int | None = None,
        unless: frozenset[str] = frozenset(),
        not_behind: frozenset[str] = frozenset(),
    ) -> Accepted | Repeated | KeyReused | NotAccepted:
        body = _copy(body)
        async with _handed_over():
            now = self._wall()
            kept = self._streams.get(stream)
            if kept is None:
                if not new:
                    return NotAccepted("unknown_stream")
                kept = Stream(stream, next(self._stream_numbers), created=now, updated=now)
            if known := kept.known(key, lambda first: first.kind == kind and _same(first.body, body)):
                return known
            if kept.summary.status in unless:
                return NotAccepted("status", kept.summary.status)
            if any(each.kind in not_behind for each in kept.waiting()):
                return NotAccepted("behind")
            if limit is not None and sum(each.kind == kind for each in kept.waiting()) >= limit:
                return NotAccepted("full")
            kept.inbox[key] = Delivered(Command(stream, key, kind, body, at=now))
            self._streams[stream] = kept
            return Accepted()

    async def decide(
        self,
        question: str,
        decision: Json,
        key: str,
        now: float,
        *,
        adds: Json | None = None,
        vote: Vote | None = None,
    ) -> Won | Voted | Already | Outdated | Repeated | KeyReused | Unknown:
        decision, adds = _copy(decision), _copy(adds or {})
        async with _handed_over():
            if question not in self._asked:
                return Unknown()
            _, name = self._asked[question]
            kept = self._streams[name]
            asked = kept.questions[question]
            if known := kept.known(
                key, lambda first: votes.is_repeat(first.kind, first.body, question, decision)
            ):
                return known
            at = self._wall()
            result = votes.outcome(asked, {**decision, **adds}, vote, now, at)
            if isinstance(result, Won | Voted):
                kept.questions[question] = result.question
                kind, body = votes.command(result, decision, adds, vote)
                kept.inbox[key] = Delivered(Command(name, key, kind, body, at))
            return result

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        async with _handed_over():
            kept = self._streams.get(stream)
            return tuple(kept.waiting()) if kept else ()

    # -------------------------------------------------------------- writing

    async def claim(self, stream: str, owner: str) -> Fence:
        async with _handed_over():
            kept = self._streams.get(stream)
            if kept is None:
                raise UnknownStream(f"stream {stream!r} does not exist")
            kept.fence = Fence(stream, owner, next(self._epochs))
            return kept.fence

    async def save(
        self,
        fence: Fence,
        expected_seq: int,
        events: Sequence[NewEvent] = (),
        *,
        intents: Sequence[NewIntent] = (),
        settle: Sequence[SettleIntent] = (),
        questions: Sequence[NewQuestion | CloseQuestion] = (),
        ack: Sequence[str] = (),
        replies: Mapping[str, Json] | None = None,
        forget: Sequence[str] = (),
        summary: Summary | None = None,
    ) -> Saved:
        # Copy now, because the caller may change its objects while the save waits.
        events = [attrs.evolve(each, body=_copy(each.body)) for each in events]
        intents = [attrs.evolve(each, body=_copy(each.body)) for each in intents]
        questions = [_copy_question(each) for each in questions]
        replies = {key: _copy(reply) for key, reply in (replies or {}).items()}
        summary = summary and attrs.evolve(summary, body=_copy(summary.body))
        async with _handed_over():
            draft = self._owned(fence).copy()
            if len(draft.events) != expected_seq:
                raise Fenced(f"stream {fence.stream!r} is at {len(draft.events)}, not at {expected_seq}")
            at = self._wall()
            for number, event in enumerate(events, expected_seq + 1):
                happened = at if event.at is None else event.at
                draft.events.append(Event(fence.stream, number, event.type, happened, event.body))
                draft.updated = max(draft.updated, happened)
            draft.intend(intents, settle)
            for change in questions:
                if isinstance(change, NewQuestion) and change.id in self._asked:
                    raise JournalError(f"question {change.id!r} already exists")
                draft.ask(change, at)
            for key in set(ack) & draft.inbox.keys():
                draft.inbox[key] = attrs.evolve(draft.inbox[key], open=False)
            for key in replies.keys() & draft.inbox.keys():
                if draft.inbox[key].reply is None:
                    draft.inbox[key] = attrs.evolve(draft.inbox[key], reply=replies[key])
            for key in set(forget) & draft.inbox.keys():
                del draft.inbox[key]
            draft.summary = summary or draft.summary
            self._streams[fence.stream] = draft
            for change in questions:
                if isinstance(change, NewQuestion):
                    self._asked[change.id] = (next(self._question_numbers), fence.stream)
            return Saved(expected_seq + 1, at)

    async def delete(self, fence: Fence) -> tuple[str, ...]:
        async with _handed_over():
            try:
                kept = self._owned(fence)
            except UnknownStream as gone:
                raise Fenced(str(gone)) from None
            for question in kept.questions:
                del self._asked[question]
            del self._streams[fence.stream]
            return tuple(command.key for command in kept.waiting())

    async def write_notes(self, kind: str, notes: Mapping[str, Json]) -> None:
        texts = note.texts(notes)
        async with _handed_over():
            self._notes[kind].update(texts)

    def _owned(self, fence: Fence) -> Stream:
        kept = self._streams.get(fence.stream)
        if kept is None:
            raise UnknownStream(f"stream {fence.stream!r} does not exist")
        if kept.fence is not fence:
            raise Fenced(f"stream {fence.stream!r} was claimed by another owner")
        return kept

    # -------------------------------------------------------------- reading

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        async with _handed_over():
            kept = self._streams.get(stream)
            after = kept.events[max(0, seq) :] if kept else []
            return tuple(after if limit is None else after[: max(0, limit)])

    async def row(self, stream: str) -> Row | None:
        async with _handed_over():
            kept = self._streams.get(stream)
            return kept.row() if kept else None

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
        async with _handed_over():
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
                tally=dict(Counter(kept.summary.status for kept in listed)),
            )

    async def question(self, id: str) -> Question | None:
        async with _handed_over():
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
        async with _handed_over():
            found = [
                (number, asked)
                for number, asked in self._questions()
                if number > after
                and (state is None or asked.state == state)
                and (kind is None or asked.kind == kind)
                and (streams is None or asked.stream in streams)
            ]
            page = found[: max(1, limit)]
            following = cursors.write("questions", page[-1][0]) if len(found) > len(page) else None
            return QuestionPage(tuple(asked for _, asked in page), following)

    async def decided(self, limit: int) -> QuestionPage:
        async with _handed_over():
            found = [asked for _, asked in self._questions() if asked.state == "decided"]
            return QuestionPage(tuple(found[::-1][: max(1, limit)]), None)

    def _questions(self) -> Iterator[tuple[int, Question]]:
        for id, (number, name) in self._asked.items():
            yield number, self._streams[name].questions[id]

    async def due(self, now: float) -> tuple[Due, ...]:
        async with _handed_over():
            late = [
                (asked.expires, number, Due(asked.id, asked.stream, asked.expires))
                for number, asked in self._questions()
                if asked.state == "pending" and asked.expires is not None and asked.expires <= now
            ]
            return tuple(asked for _, _, asked in sorted(late)[:MOST_DUE])

    async def open_work(self) -> tuple[str, ...]:
        async with _handed_over():
            work = [
                (kept.number, name)
                for name, kept in self._streams.items()
                if kept.summary.open or kept.waiting()
            ]
            return tuple(name for _, name in sorted(work))

    async def notes(self, kind: str) -> Mapping[str, Json | None]:
        async with _handed_over():
            return note.parsed(self._notes[kind].items())


def _copy_question(change: NewQuestion | CloseQuestion) -> NewQuestion | CloseQuestion:
    match change:
        case NewQuestion():
            return attrs.evolve(change, body=_copy(change.body))
        case CloseQuestion():
            return attrs.evolve(change, patch=_copy(change.patch))
        case _:
            assert_never(change)
