"""The journal that agents use: a SQLite database, `journal.db`, in a directory of its own.

====================  =======================================================================
`database.py`         tables, migrations, connections, the size of the write-ahead log
`files.py`            the lock, and noticing when files are removed
`writer.py`           writes: one connection, group commits in a thread
`sql_reader.py`       reads: connections of their own
`sql_*.py`            the queries
`rows.py`             rows to values, with checks for damage
====================  =======================================================================
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Any

import trio

from .. import json_text
from ..clock import WallClock, system_clock
from . import cursor as cursors
from . import database, note, sql_inbox, sql_question, sql_stream
from .errors import Fenced, JournalBroken, JournalError
from .files import Presence, check_directory, locked
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
from .sql_reader import Reader
from .sql_stream import Streams
from .vote import Outdated, Vote, Voted
from .writer import GroupWriter, InlineWriter, Writer

FILE = "journal.db"
_LARGEST_SEQ = 2**63 - 1


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_sqlite(
    directory: Path | str, *, wall: WallClock = system_clock, inline: bool = False
) -> AsyncIterator[SqliteJournal]:
    """Open the journal of a directory, which is created, accessible only to its owner, if it does not exist.

    If a commit fails, the block is cancelled and raises `JournalBroken`. The state on disk is then unknown
    until the journal is opened again.

    `inline` is for simulation: it uses no threads, so that the order depends on trio alone. Its commits
    survive the end of the process, but do not wait for the disk.

    Raises:
        JournalBusy: another process has it open.
        JournalTooNew: a newer version of the program wrote it.
        JournalError: it cannot be opened.
        JournalBroken: a commit failed.
    """
    directory = Path(directory)
    broken: list[JournalBroken] = []
    scope = trio.CancelScope()

    def on_broken(error: JournalBroken) -> None:
        broken.append(error)
        scope.cancel()

    with ExitStack() as lock:
        if inline:
            await trio.lowlevel.checkpoint()
            db, reader, presence = _open(directory, lock, inline)
        else:
            db, reader, presence = await trio.to_thread.run_sync(_open, directory, lock, inline)
        streams = Streams(db)
        writer = (InlineWriter if inline else GroupWriter)(db, presence, on_broken, streams.forget)
        try:
            with scope:
                yield SqliteJournal(writer, streams, reader, wall)
        except Exception:
            # Any other error is a consequence of the failed commit, or irrelevant beside it.
            if broken:
                raise broken[0]  # noqa: B904
            raise
        finally:
            reader.close()
            await writer.aclose()
        if broken:
            raise broken[0]


def _open(directory: Path, lock: ExitStack, inline: bool) -> tuple[sqlite3.Connection, Reader, Presence]:
    try:
        _make(directory)
        check_directory(directory)
        lock_file = lock.enter_context(locked(directory))
        file = directory / FILE
        db = database.open_writer(file, wait_for_disk=not inline)
        reader = Reader(file, inline=inline)
        # The other two files exist as long as SQLite has the database open.
        beside = (directory / f"{FILE}-{name}" for name in ("wal", "shm"))
        return db, reader, Presence(file, *beside, lock_file)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise JournalError(f"cannot open the journal in {directory}: {why}") from error


def _make(directory: Path) -> None:
    if directory.is_dir():
        return
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.mkdir(mode=0o700, exist_ok=True)
    # Sync the parent; otherwise a power failure could lose the entry of the new directory.
    parent = os.open(directory.parent, os.O_RDONLY)
    try:
        os.fsync(parent)
    finally:
        os.close(parent)


def read_notes(directory: Path, kind: str) -> Mapping[str, Json | None]:
    """Return the committed notes of a kind, also while another process has the journal open.

    Raises:
        sqlite3.Error: there is no readable journal.
    """
    at_rest = not (directory / f"{FILE}-wal").exists()
    with closing(database.connect_reader(directory / FILE, at_rest=at_rest)) as db:
        return note.read(db, kind)


class SqliteJournal:
    """The implementation of `Journal` on SQLite. Created by `open_sqlite`."""

    def __init__(self, writer: Writer, streams: Streams, reader: Reader, wall: WallClock) -> None:
        self._writer = writer
        self._streams = streams
        self._reader = reader
        self._wall = wall

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
        text = json_text.dump(body)
        return await self._writer.submit(
            lambda db: sql_inbox.deliver(
                db,
                self._streams,
                stream,
                key,
                kind,
                text,
                new=new,
                limit=limit,
                unless=unless,
                not_behind=not_behind,
                now=self._wall(),
            )
        )

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
        # Copied, because the caller may change its objects while the decision waits.
        plain, more = json_text.load(json_text.dump([decision, adds or {}]))
        return await self._writer.submit(
            lambda db: sql_question.decide(db, question, plain, more, key, vote, now, self._wall())
        )

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        return await self._reader.quick(lambda db: sql_inbox.waiting(db, stream, skip_damaged=skip_damaged))

    # -------------------------------------------------------------- writing

    async def claim(self, stream: str, owner: str) -> Fence:
        return await self._writer.inspect(lambda _: self._streams.claim(stream, owner))

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
        # Serialize now, because the caller may change its objects while the save waits.
        texts: dict[int, str] = {}

        def text(body: Json) -> str:
            # The body of an intent or a question is usually that of an event of the same save.
            known = texts.get(id(body))
            if known is None:
                known = texts[id(body)] = json_text.dump(body)
            return known

        event_texts = [(each.type, each.at, text(each.body)) for each in events]
        summary_text = json_text.dump(summary.body) if summary else ""
        more: list[Callable[[sqlite3.Connection, int, float], None]] = []
        if intents:
            begun = [(each, text(each.body)) for each in intents]
            more.append(lambda db, id, now: sql_stream.begin_intents(db, id, begun))
        if settle:
            ends = tuple(settle)
            more.append(lambda db, id, now: sql_stream.settle_intents(db, id, ends))
        if questions:
            asked = [(each, text(_content(each))) for each in questions]
            more.append(lambda db, id, now: sql_question.change(db, id, fence.stream, asked, now))
        if ack:
            done = tuple(ack)
            more.append(lambda db, id, now: sql_inbox.acknowledge(db, id, done))
        if replies:
            answers = {key: json_text.dump(reply) for key, reply in replies.items()}
            more.append(lambda db, id, now: sql_inbox.answer(db, id, answers))
        if forget:
            refused = tuple(forget)
            more.append(lambda db, id, now: sql_inbox.forget(db, id, refused))

        def write(db: sqlite3.Connection) -> Saved:
            head = self._streams.owned(fence)
            if head.last_seq != expected_seq:
                raise Fenced(f"stream {fence.stream!r} is at {head.last_seq}, not at {expected_seq}")
            now = self._wall()
            sql_stream.append_events(db, head.id, expected_seq, event_texts, now)
            for change in more:
                change(db, head.id, now)
            latest = max((now if at is None else at for _, at, _ in event_texts), default=0.0)
            self._streams.advance(head, expected_seq + len(event_texts), latest, summary, summary_text)
            return Saved(expected_seq + 1, now)

        return await self._writer.submit(write)

    async def delete(self, fence: Fence) -> tuple[str, ...]:
        def write(db: sqlite3.Connection) -> tuple[str, ...]:
            head = self._streams.find(fence.stream)
            waiting = sql_inbox.open_keys(db, head.id) if head else ()
            self._streams.delete(fence)
            return waiting

        return await self._writer.submit(write)

    async def write_notes(self, kind: str, notes: Mapping[str, Json]) -> None:
        texts = note.texts(notes)
        await self._writer.submit(lambda db: note.write(db, kind, texts))

    # -------------------------------------------------------------- reading

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

    async def row(self, stream: str) -> Row | None:
        return await self._reader.quick(lambda db: sql_stream.row(db, stream))

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

    async def due(self, now: float) -> tuple[Due, ...]:
        return await self._reader.quick(lambda db: sql_question.due(db, now))

    async def open_work(self) -> tuple[str, ...]:
        return await self._reader.slow(sql_stream.open_work)

    async def notes(self, kind: str) -> Mapping[str, Json | None]:
        return await self._reader.slow(lambda db: note.read(db, kind))


async def _parsed(found: Sequence[tuple[Any, ...]], following: str | None) -> QuestionPage:
    questions: list[Question] = []
    damaged: dict[str, str] = {}
    for sound, unsound in sql_question.parsed(found):
        if questions:
            await trio.lowlevel.checkpoint()
        questions += sound
        damaged |= unsound
    return QuestionPage(tuple(questions), following, damaged)


def _content(change: NewQuestion | CloseQuestion) -> Json:
    return change.body if isinstance(change, NewQuestion) else change.patch
