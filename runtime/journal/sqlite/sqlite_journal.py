"""The journal that agents use: a SQLite database, `journal.db`, in a directory of its own.

====================  =======================================================================
`database.py`         tables, migrations, connections, the sizes of the files
`files.py`            the lock, and noticing when files are removed
`writer.py`           writes: one connection, group commits in a thread
`sql_reader.py`       reads: connections of their own
`sql_*.py`            the queries
`rows.py`             rows to values, with checks for damage
====================  =======================================================================
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import TypeAlias

import trio

from ... import json_text
from ...clock import WallClock, system_clock
from .. import note, repeated_save, rows
from ..errors import Fenced, JournalBroken, JournalError
from ..outbox import outbox_texts
from ..ownership import Claim, Fence, Owned
from ..protocol import (
    Accepted,
    Commit,
    DecisionOutcome,
    DeliveryOutcome,
    Json,
    NewCommand,
    NewEvent,
    OnCommit,
    Saved,
    ignore_commit,
)
from ..question import CloseQuestion, NewQuestion, Won
from ..stream_extract import Extract
from ..vote import Vote, Voted
from . import database, sql_extract, sql_inbox, sql_note, sql_outbox, sql_question, sql_stream
from .files import Presence, check_directory, locked, make_directory, remove_unfinished
from .sql_reader import SqlReader
from .sql_stream import StreamHead, Streams
from .sqlite_reads import SqliteReads
from .writer import GroupWriter, InlineWriter, Writer

FILE = "journal.db"


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_sqlite(
    directory: Path | str,
    *,
    wall: WallClock = system_clock,
    inline: bool = False,
    on_commit: OnCommit = ignore_commit,
    lease: float = math.inf,
    version: int = 0,
    member: str = "",
    cache: int = database.CACHE,
) -> AsyncIterator[SqliteJournal]:
    """Open the journal of a directory, which is created, accessible only to its owner, if it does not exist.

    If a commit fails, the block is cancelled and raises `JournalBroken`. The state on disk is then unknown
    until the journal is opened again.

    `inline` is for simulation: it uses no threads, so that the order depends on trio alone. Its commits
    survive the end of the process, but do not wait for the disk.

    `cache` is the number of bytes of memory for pages.

    `lease`, `version` and `member` are as in `LocalMember`. They matter only among the members of one process
    (`SqliteJournal.another`), because no other process can open the journal.

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
            db, reader, presence = _open(directory, lock, inline, cache)
        else:
            db, reader, presence = await trio.to_thread.run_sync(_open, directory, lock, inline, cache)
        streams = Streams(db)
        writer = (InlineWriter if inline else GroupWriter)(db, presence, on_broken, streams.forget, on_commit)
        try:
            with scope:
                yield SqliteJournal(writer, streams, reader, wall, lease, version, member)
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


def _open(
    directory: Path, lock: ExitStack, inline: bool, cache: int
) -> tuple[sqlite3.Connection, SqlReader, Presence]:
    try:
        make_directory(directory)
        check_directory(directory)
        lock_file = lock.enter_context(locked(directory))
        remove_unfinished(directory)
        file = directory / FILE
        db = database.open_writer(file, wait_for_disk=not inline, cache=cache)
        reader = SqlReader(file, inline=inline, cache=cache)
        # The other two files exist as long as SQLite has the database open.
        beside = (directory / f"{FILE}-{name}" for name in ("wal", "shm"))
        return db, reader, Presence(file, *beside, lock_file)
    except (OSError, sqlite3.Error) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise JournalError(f"cannot open the journal in {directory}: {why}") from error


def read_notes(directory: Path, kind: str) -> Mapping[str, Json | None]:
    """Return the committed notes of a kind, also while another process has the journal open.

    Raises:
        sqlite3.Error: there is no readable journal.
    """
    at_rest = not (directory / f"{FILE}-wal").exists()
    with closing(database.connect_reader(directory / FILE, at_rest=at_rest)) as db:
        return sql_note.read(db, kind)


def compact(directory: Path) -> tuple[int, int]:
    """Rewrite the journal of a directory without free pages, so that from now on they are returned by itself
    (`FreePages`). Return the size of the file in bytes, before and after.

    If it ends early, in whatever way, the journal is as before. The disk needs room for the contents twice.

    Raises:
        JournalBusy: a process has it open. JournalTooNew. JournalError: there is no journal, or it cannot be
            rewritten, for instance because the disk is full.
    """
    file = directory / FILE
    if not file.exists():
        raise JournalError(f"{directory} has no journal")
    check_directory(directory)
    with locked(directory):
        before = file.stat().st_size
        try:
            with closing(database.open_writer(file, wait_for_disk=True)) as db:
                # Its copies have all conversations: beside the file, as private as it is.
                beside = str(directory.absolute()).replace("'", "''")
                db.execute(f"PRAGMA temp_store_directory = '{beside}'")
                db.execute("VACUUM")
        except sqlite3.Error as error:
            raise JournalError(f"cannot rewrite the journal in {directory}: {error}") from error
        return before, file.stat().st_size


class SqliteJournal(SqliteReads):
    """The implementation of `Journal` on SQLite. Created by `open_sqlite`."""

    def __init__(
        self,
        writer: Writer,
        streams: Streams,
        reader: SqlReader,
        wall: WallClock,
        lease: float,
        version: int,
        member: str,
    ) -> None:
        super().__init__(reader, wall, lease, version, member)
        self._writer = writer
        self._streams = streams

    def _claim(self, head: StreamHead) -> Claim:
        return Claim(head.epoch, head.demands, self.version)

    def _put(self, db: sqlite3.Connection, stream: str, follow: bool) -> None:
        """After a command was put into an inbox, in the same transaction. Raises `NeedsNewer`."""
        head = self._streams.existing(stream)
        self._check_version(stream, head.demands)
        if not (follow and self._is_shared):
            return
        at_rest = head.work != rows.OPEN and len(sql_inbox.waiting_kinds(db, head.id)) == 1
        self._owners.follow(stream, self.member, self._wall(), self._claim(head), at_rest=at_rest)

    # ------------------------------------------------------------- commands

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        text = json_text.dump(command.body)

        def write(db: sqlite3.Connection) -> DeliveryOutcome:
            result = sql_inbox.deliver(db, self._streams, command, text, self._wall(), self.member)
            if isinstance(result, Accepted):
                self._put(db, command.stream, command.follow)
            return result

        result = await self._writer.submit(write)
        if isinstance(result, Accepted):
            self._changed(command.stream)
        return result

    async def decide(
        self,
        question: str,
        decision: Json,
        key: str,
        *,
        adds: Json | None = None,
        vote: Vote | None = None,
        follow: bool = False,
    ) -> DecisionOutcome:
        # Copied, because the caller may change its objects while the decision waits.
        plain, more = json_text.load(json_text.dump([decision, adds or {}]))

        def write(db: sqlite3.Connection) -> DecisionOutcome:
            result = sql_question.decide(db, question, plain, more, key, vote, self._wall(), self.member)
            if isinstance(result, Won | Voted):
                self._put(db, result.question.stream, follow)
            return result

        result = await self._writer.submit(write)
        if isinstance(result, Won | Voted):
            self._changed(result.question.stream)
        return result

    # -------------------------------------------------------------- writing

    async def claim(self, stream: str) -> Fence | Owned:
        def take(_: sqlite3.Connection) -> Fence | Owned:
            claim = self._claim(self._streams.existing(stream))
            return self._owners.claim(stream, self.member, self._wall(), claim)

        return await self._writer.inspect(take)

    async def release(self, fence: Fence, leave: Collection[str] = ()) -> bool:
        def release(db: sqlite3.Connection) -> bool:
            head = self._streams.find(fence.stream)
            if head is not None and self._owners.owns(fence):
                if any(key not in leave for key in sql_inbox.open_keys(db, head.id)):
                    return False
                self._owners.release(fence)
                self._changed(fence.stream)
            return True

        return await self._writer.inspect(release)

    async def save(self, commit: Commit) -> Saved:
        # Serialize now, because the caller may change its objects while the save waits.
        texts: dict[int, str] = {}

        def text(body: Json) -> str:
            # The body of an intent or a question is usually that of an event of the same save.
            known = texts.get(id(body))
            if known is None:
                known = texts[id(body)] = json_text.dump(body)
            return known

        fence, expected_seq = commit.fence, commit.expected_seq
        events, summary = commit.events, commit.summary
        event_texts = [(each.type, each.at, text(each.body)) for each in events]
        summary_text = json_text.dump(summary.body) if summary else ""
        more = _beside_events(commit, text)

        def write(db: sqlite3.Connection) -> Saved:
            head = self._owned(fence)
            if head.last_seq != expected_seq:
                if fence.epoch == head.epoch and (first := self._first(db, head, expected_seq, events)):
                    return first
                raise Fenced(f"stream {fence.stream!r} is at {head.last_seq}, not at {expected_seq}")
            now = self._wall()
            sql_stream.append_events(db, head.id, expected_seq, event_texts, now)
            for change in more:
                change(db, head.id, now)
            latest = max((now if at is None else at for _, at, _ in event_texts), default=0.0)
            last_seq = expected_seq + len(event_texts)
            after = head.after(last_seq, fence.epoch, self.version)
            if summary is not None:
                after = after.with_summary(summary, summary_text)
            self._streams.advance(fence.stream, after, latest, summary)
            return Saved(expected_seq + 1, now)

        saved = await self._writer.submit(write)
        self._changed(fence.stream, expected_seq if events else None)
        return saved

    async def keep_extract(self, fence: Fence, extract: Extract) -> None:
        def write(db: sqlite3.Connection) -> None:
            head = self._streams.find(fence.stream)
            if head is not None and self._owners.owns(fence) and extract.seq <= head.last_seq:
                sql_extract.keep(db, head.id, extract)

        await self._writer.submit(write)

    def _owned(self, fence: Fence) -> StreamHead:
        """Raises `UnknownStream`, `Fenced`."""
        head = self._streams.existing(fence.stream)
        self._check(fence)
        return head

    def _first(
        self, db: sqlite3.Connection, head: StreamHead, expected_seq: int, events: Sequence[NewEvent]
    ) -> Saved | None:
        stored, _ = sql_stream.page_of_events(db, head.id, "", expected_seq, len(events) + 1)
        return repeated_save.outcome(expected_seq, stored, events)

    async def delete(self, fence: Fence, outbox: Sequence[Json] = ()) -> tuple[str, ...]:
        told = outbox_texts(outbox)

        def write(db: sqlite3.Connection) -> tuple[str, ...]:
            if self._streams.find(fence.stream) is None:
                return ()
            waiting = sql_inbox.open_keys(db, self._owned(fence).id)
            self._streams.delete(fence.stream)
            self._owners.forget(fence.stream)
            sql_outbox.add(db, told, self._wall())
            return waiting

        waiting = await self._writer.submit(write)
        self._changed(fence.stream)
        return waiting

    async def drop_outbox(self, numbers: Sequence[int]) -> None:
        await self._writer.submit(lambda db: sql_outbox.drop(db, numbers))

    async def write_notes(
        self, kind: str, notes: Mapping[str, Json], *, at: int | None = None, outbox: Sequence[Json] = ()
    ) -> bool:
        texts, told = note.texts(notes), outbox_texts(outbox)

        def write(db: sqlite3.Connection) -> int:
            if number := self._revisions.begin(kind, at):
                sql_note.write(db, kind, texts)
                sql_outbox.add(db, told, self._wall())
            return number

        if number := await self._writer.submit(write):
            self._revisions.end(kind, number, notes)
        return number > 0

    async def take_note(self, kind: str, key: str) -> Json | None:
        taken = await self._writer.submit(lambda db: sql_note.take(db, kind, key))
        self._revisions.deleted(kind, key)
        return taken


_Change: TypeAlias = Callable[[sqlite3.Connection, int, float], None]
"""A change of a stream, by its id, at a time."""


def _beside_events(commit: Commit, text: Callable[[Json], str]) -> Sequence[_Change]:
    """The changes of a commit besides its events and its summary."""
    more: list[_Change] = []
    if commit.intents:
        begun = [(each, text(each.body)) for each in commit.intents]
        more.append(lambda db, id, now: sql_stream.begin_intents(db, id, begun))
    if commit.settle:
        ends = tuple(commit.settle)
        more.append(lambda db, id, now: sql_stream.settle_intents(db, id, ends))
    if commit.questions:
        asked, stream = [(each, text(_content(each))) for each in commit.questions], commit.fence.stream
        more.append(lambda db, id, now: sql_question.change(db, id, stream, asked, now))
    if commit.ack:
        done = tuple(commit.ack)
        more.append(lambda db, id, now: sql_inbox.acknowledge(db, id, done))
    if commit.replies:
        replies = {key: json_text.dump(reply) for key, reply in commit.replies.items()}
        more.append(lambda db, id, now: sql_inbox.save_replies(db, id, replies))
    if commit.refuse:
        refusals = {key: json_text.dump(reply) for key, reply in commit.refuse.items()}
        more.append(lambda db, id, now: sql_inbox.refuse(db, id, refusals, now))
    if commit.outbox:
        told = outbox_texts(commit.outbox)
        more.append(lambda db, id, now: sql_outbox.add(db, told, now))
    return more


def _content(change: NewQuestion | CloseQuestion) -> Json:
    return change.body if isinstance(change, NewQuestion) else change.patch
