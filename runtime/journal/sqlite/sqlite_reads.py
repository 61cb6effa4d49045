"""The methods of the SQLite journal that read."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import trio

from ...clock import WallClock
from .. import cursor as cursors
from ..local_member import LocalMember
from ..outbox import OutboxRow
from ..ownership import Fleet
from ..passage import Passage, PassagePlace, WantedEvents
from ..protocol import Command, Event, Json, Marks
from ..question import Due, DuePage, Question, QuestionPage, QuestionState
from ..stream_extract import Extract
from ..summary import Among, Census, NamedKind, Page, Row
from . import sql_extract, sql_inbox, sql_note, sql_outbox, sql_passage, sql_question, sql_stream
from .sql_reader import SqlReader

_LARGEST_SEQ = 2**63 - 1


class SqliteReads(LocalMember):
    """One member of the journal, without its writes."""

    def __init__(self, reader: SqlReader, wall: WallClock, lease: float, version: int, member: str) -> None:
        super().__init__(wall, lease, version, member)
        self._reader = reader

    async def stored_reply(self, stream: str, key: str) -> Json | None:
        return await self._reader.quick(lambda db: sql_inbox.reply(db, stream, key))

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        return await self._reader.quick(lambda db: sql_inbox.waiting(db, stream, skip_damaged=skip_damaged))

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        seq = min(max(seq, 0), _LARGEST_SEQ)
        id: int | None = None
        events: list[Event] = []

        def page(db: sqlite3.Connection) -> tuple[list[Event], bool]:
            nonlocal id
            # Look the id up once: the stream may be deleted and created again between two pages.
            id = id or sql_stream.find_id(db, stream)
            left = None if limit is None else limit - len(events)
            return sql_stream.page_of_events(db, id, stream, seq, left) if id is not None else ([], False)

        more = True
        while more:
            found, more = await self._reader.quick(page)
            if found:
                events += found
                seq = found[-1].seq
                more = more and len(events) != limit
        return tuple(events)

    async def extract(self, stream: str, form: str) -> Extract | None:
        return await self._reader.quick(lambda db: sql_extract.read(db, stream, form))

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        return await self._reader.slow(lambda db: sql_passage.read(db, wanted, at))

    async def row(self, stream: str) -> Row | None:
        return await self._reader.quick(lambda db: sql_stream.row(db, stream))

    async def marks(self, streams: Collection[str], commands: Collection[tuple[str, str]]) -> Marks:
        return await self._reader.slow(lambda db: sql_stream.marks(db, streams, commands))

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
        # A search may scan all streams, a status all streams of an owner, and there may be many names.
        scans = q or (among is not None and (status is not None or among.streams))
        run = self._reader.slow if scans else self._reader.quick
        return await run(lambda db: sql_stream.page(db, status, q, max(1, limit), before, among))

    async def beginning(self, text: str, of: NamedKind) -> tuple[str, ...]:
        return await self._reader.quick(lambda db: sql_stream.beginning(db, text, of))

    async def question(self, id: str) -> Question | None:
        return await self._reader.quick(lambda db: sql_question.get(db, id))

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
        # Filtering by kind may scan all questions of the state.
        run = self._reader.slow if kind is not None else self._reader.quick
        found, following = await run(
            lambda db: sql_question.page(db, state, kind, streams, max(1, limit), after)
        )
        return await _parsed(found, following)

    async def decided(self, limit: int) -> QuestionPage:
        found = await self._reader.slow(lambda db: sql_question.decided(db, max(1, limit)))
        return await _parsed(found, None)

    async def due(self, after: Due | None = None) -> DuePage:
        return await self._reader.quick(lambda db: sql_question.due(db, self._wall(), after))

    async def open_work(self, but: Collection[str] = ()) -> tuple[str, ...]:
        found = await self._reader.slow(sql_stream.open_work)
        return tuple(
            name
            for name, demands, has_command in found
            if (has_command or name not in but) and self._is_free(name, demands)
        )

    async def fleet(self) -> Fleet:
        working = [name for name, *_ in await self._reader.slow(sql_stream.open_work)]
        store = f"SQLite {sqlite3.sqlite_version}"
        return self._owners.fleet(store, self._wall(), working, await self.need_newer())

    async def need_newer(self) -> int:
        return await self._reader.quick(partial(sql_stream.need_newer, newest=self._newest))

    async def census(self) -> Census:
        return await self._reader.slow(sql_stream.census)

    async def outbox(self, limit: int) -> Sequence[OutboxRow]:
        return await self._reader.quick(lambda db: sql_outbox.read(db, limit))

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        return self._revisions.since(kind, after, await self._reader.slow(lambda db: sql_note.read(db, kind)))


async def _parsed(found: Sequence[tuple[Any, ...]], following: str | None) -> QuestionPage:
    questions: list[Question] = []
    damaged: dict[str, str] = {}
    for sound, unsound in sql_question.parsed(found):
        if questions:
            await trio.lowlevel.checkpoint()
        questions += sound
        damaged |= unsound
    return QuestionPage(tuple(questions), following, damaged)
