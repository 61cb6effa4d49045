"""The journal of several members: a PostgreSQL database.

=============  ==============================================================================
`tables.py`    tables and migrations
`pool.py`      connections, and threads that wait for them
`intake.py`    commands and decisions
`save.py`      saves: one, or a group, as one statement
`group.py`     groups of writes, on a connection of their own; `grouped_writes.py` has statements of theirs
`pipeline.py`  such a connection, which trio drives without a thread
`binary.py`    values in PostgreSQL's binary format
`pipeline_queue.py` operations of many tasks on such a connection
`read_queue.py` reads of streams, on another one; `stream_reads.py` has their queries
`reads.py`     the other queries
`tally.py`     the numbers of streams, kept by triggers
`extracts.py`  extracts of streams
`owners.py`    claims and leases
`note_table.py` notes
`outbox_table.py` the outbox
`hints.py`     notifications between the members
=============  ==============================================================================

A write locks the row of its stream first, so the writes to a stream have one order and no two transactions
wait for each other. The database's clock is the only one.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from copy import copy
from typing import Self, TypeVar

import attrs
import trio

from ... import json_text
from ...event_bus import EventBus, Subscription
from .. import cursor as cursors
from .. import note
from ..errors import JournalUnavailable
from ..outbox import OutboxRow, outbox_texts
from ..ownership import Fence, Fleet, Owned, Renewed
from ..passage import Passage, PassagePlace, WantedEvents
from ..patience import until_available
from ..protocol import (
    Accepted,
    Command,
    Commit,
    DecisionOutcome,
    DeliveryOutcome,
    Event,
    Json,
    Marks,
    NewCommand,
    OnCommit,
    Saved,
    ignore_commit,
)
from ..question import (
    Due,
    DuePage,
    Question,
    QuestionPage,
    QuestionState,
    Won,
    fitting,
)
from ..store_address import LEASE
from ..stream_extract import Extract
from ..summary import Among, Census, NamedKind, Page, Row
from ..vote import Vote, Voted
from . import (
    extracts,
    grouped_writes,
    intake,
    note_table,
    outbox_table,
    owners,
    passages,
    reads,
    save,
    stream_reads,
    tables,
)
from .group import WriteGroups
from .hints import TOPIC, HintChannel
from .owners import OwnMember
from .pool import LONGEST, Pool, check_sessions
from .read_queue import ReadQueue

T = TypeVar("T")

CONNECTIONS = 8
"""Maximum number of connections of the pool. There are five more: for groups of writes, for reads of
streams, for the lease, to send hints, and to receive them."""


@asynccontextmanager
async def open_postgres(
    dsn: str,
    *,
    lease: float = LEASE,
    version: int = 0,
    member: str = "",
    about: str = "",
    connections: int = CONNECTIONS,
    on_commit: OnCommit = ignore_commit,
) -> AsyncIterator[PostgresJournal]:
    """Open the journal in a database, and make its tables if they do not exist. Waits until the database can
    be reached.

    `dsn` is a connection string or URL of PostgreSQL, `lease` the length of leases in seconds, and `version`
    that of the program. `member` is the name of the member; empty: a new one. `about` is a text for people
    who look at the members.

    Raises:
        JournalTooNew: a newer version of the program wrote it.
        JournalError: the tables cannot be made, `dsn` is not valid, the database has another encoding than
            UTF-8, or a pooler shares its sessions.
    """
    pool, own = Pool(dsn, trio.CapacityLimiter(connections)), Pool(dsn, trio.CapacityLimiter(1))
    sender = Pool(dsn, trio.CapacityLimiter(1))
    try:
        await until_available(lambda: _within(LONGEST, pool.run(lambda db: check_sessions(db, dsn))))
        name = await until_available(lambda: pool.run(tables.migrate))
        hints = HintChannel(EventBus(), sender, dsn, f"stopgo_{name}"[:60])  # of at most 63 bytes
        writer, reader = WriteGroups(dsn, pool, on_commit), ReadQueue(dsn, pool)
        async with trio.open_nursery() as nursery:
            for task in (
                hints.send,
                hints.listen,
                pool.watch,
                own.watch,
                sender.watch,
                writer.run,
                reader.run,
            ):
                nursery.start_soon(task)
            own_member = OwnMember(member or uuid.uuid4().hex[:12], version, about)
            yield PostgresJournal(pool, Pipelines(writer, reader), own, hints, lease, own_member, on_commit)
            nursery.cancel_scope.cancel()
    finally:
        for each in (pool, own, sender):
            each.close()


async def _within(seconds: float, operation: Awaitable[T]) -> T:
    """For an operation of a pool that nothing watches yet."""
    with trio.move_on_after(seconds):
        return await operation
    raise JournalUnavailable("the database does not answer")


@attrs.frozen
class Pipelines:
    writer: WriteGroups
    reads: ReadQueue


class PostgresJournal:
    """The implementation of `Journal` on PostgreSQL. Created by `open_postgres`."""

    def __init__(
        self,
        pool: Pool,
        pipelines: Pipelines,
        own: Pool,
        hints: HintChannel,
        lease: float,
        member: OwnMember,
        on_commit: OnCommit,
    ) -> None:
        self._pool = pool
        self._writer, self._reads = pipelines.writer, pipelines.reads
        self._own = own
        self._hints = hints
        self._lease = lease
        self._member = member
        self._on_commit = on_commit

    def another(self, member: str, *, version: int = 0) -> Self:
        """Another member on the same store, in this process."""
        other = copy(self)
        other._member = OwnMember(member, version, "")
        return other

    # ------------------------------------------------------------- commands

    async def deliver(self, command: NewCommand) -> DeliveryOutcome:
        text = json_text.dump(command.body)
        result: DeliveryOutcome = Accepted()
        if await self._writer.write(grouped_writes.deliver(self._member, command, text)) is None:
            result = await self._pool.run(lambda db: intake.deliver(db, self._member, command, text))
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
        result = await self._pool.run(
            lambda db: intake.decide(db, self._member, question, plain, more, key, vote, follow=follow)
        )
        if isinstance(result, Won | Voted):
            self._changed(result.question.stream)
        return result

    async def stored_reply(self, stream: str, key: str) -> Json | None:
        return await self._reads.read(stream_reads.reply(stream, key))

    async def inbox(self, stream: str, *, skip_damaged: bool = False) -> tuple[Command, ...]:
        return await self._reads.read(stream_reads.inbox(stream, skip_damaged=skip_damaged))

    # -------------------------------------------------------------- writing

    async def claim(self, stream: str) -> Fence | Owned:
        epoch = await self._writer.write(grouped_writes.claim(self._member, stream))
        if epoch is None:
            return await self._pool.run(lambda db: owners.claim(db, self._member, stream))
        return Fence(stream, self.member, int(epoch))

    async def owns(self, fence: Fence) -> bool:
        return await self._reads.read(stream_reads.owns(fence))

    async def release(self, fence: Fence, leave: Collection[str] = ()) -> bool:
        left = list(leave)
        released: bool | None = True
        if await self._writer.write(grouped_writes.release(fence, left)) is None:
            released = await self._pool.run(lambda db: owners.release(db, fence, left))
        if released:
            self._changed(fence.stream)
        return released is not False

    async def save(self, commit: Commit) -> Saved:
        it = save.prepare(commit, self._member.version)
        at = await self._writer.write(save.encoded(it))
        if at is None:
            began = time.perf_counter()
            saved = await self._pool.run(lambda db: save.save(db, it))
            self._on_commit(1, time.perf_counter() - began)
        else:
            saved = Saved(it.expected_seq + 1, at)
        self._changed(commit.fence.stream, commit.expected_seq if commit.events else None)
        return saved

    async def keep_extract(self, fence: Fence, extract: Extract) -> None:
        await self._pool.run(lambda db: extracts.keep(db, fence, extract))

    async def delete(self, fence: Fence, outbox: Sequence[Json] = ()) -> tuple[str, ...]:
        told = outbox_texts(outbox)
        waiting = await self._pool.run(lambda db: owners.delete(db, fence, told))
        self._changed(fence.stream)
        return waiting

    # -------------------------------------------------------------- reading

    async def events_since(self, stream: str, seq: int, limit: int | None = None) -> tuple[Event, ...]:
        seq = min(max(seq, 0), 2**63 - 1)
        found: list[Event] = []
        id, more = None, True
        while more:
            left = None if limit is None else max(0, limit - len(found))
            # By id after the first page: the stream may be deleted and created again in between.
            page = await self._reads.read(stream_reads.events(stream, id, seq, left))
            id, more = page.id, page.has_more
            found += page.events
            seq += len(page.events)
        return tuple(found)

    async def extract(self, stream: str, form: str) -> Extract | None:
        return await self._pool.run(lambda db: extracts.read(db, stream, form))

    async def passage(self, wanted: WantedEvents, at: PassagePlace | None = None) -> Passage:
        return await self._pool.run(lambda db: passages.read(db, wanted, at))

    async def row(self, stream: str) -> Row | None:
        return await self._reads.read(stream_reads.row(stream))

    async def marks(self, streams: Collection[str], commands: Collection[tuple[str, str]]) -> Marks:
        return await self._reads.read(stream_reads.marks(streams, commands))

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
        return await self._pool.run(lambda db: reads.page(db, status, q, among, max(1, limit), before))

    async def beginning(self, text: str, of: NamedKind) -> tuple[str, ...]:
        return await self._pool.run(lambda db: reads.beginning(db, text, of))

    async def question(self, id: str) -> Question | None:
        return await self._pool.run(lambda db: reads.one_question(db, id))

    async def questions(
        self,
        *,
        state: QuestionState | None = "pending",
        kind: str | None = None,
        streams: Sequence[str] | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> QuestionPage:
        after, limit = cursors.read("questions", cursor) if cursor is not None else 0, max(1, limit)
        if streams is not None and len(streams) == 1 and state is None and kind is None:
            sized = await self._reads.read(reads.sized(streams[0], after, limit))
            shown = fitting(sized, limit)
            found = await self._reads.read(reads.numbered(shown)) if shown else ()
            return reads.question_page(found, sized, shown)
        return await self._pool.run(lambda db: reads.questions(db, state, kind, streams, limit, after))

    async def decided(self, limit: int) -> QuestionPage:
        return await self._pool.run(lambda db: reads.decided(db, max(1, limit)))

    async def due(self, after: Due | None = None) -> DuePage:
        return await self._pool.run(lambda db: reads.due(db, after))

    async def open_work(self, but: Collection[str] = ()) -> tuple[str, ...]:
        left = list(but)
        return await self._pool.run(
            lambda db: reads.open_work(db, self._member.name, self._member.version, left)
        )

    async def census(self) -> Census:
        return await self._pool.run(reads.census)

    # ---------------------------------------------------------------- notes

    async def notes(self, kind: str, *, after: int = 0) -> Mapping[str, Json | None]:
        return note.parsed((await self._pool.run(lambda db: note_table.read(db, kind, after))).items())

    async def note_revisions(self) -> Mapping[str, int]:
        return await self._pool.run(note_table.revisions)

    async def write_notes(
        self, kind: str, notes: Mapping[str, Json], *, at: int | None = None, outbox: Sequence[Json] = ()
    ) -> bool:
        texts, told = note.texts(notes), outbox_texts(outbox)
        return await self._pool.run(lambda db: note_table.write(db, kind, texts, at, told))

    async def outbox(self, limit: int) -> Sequence[OutboxRow]:
        return await self._pool.run(lambda db: outbox_table.read(db, limit))

    async def drop_outbox(self, numbers: Sequence[int]) -> None:
        await self._pool.run(lambda db: outbox_table.drop(db, numbers))

    async def take_note(self, kind: str, key: str) -> Json | None:
        text = json_text.dump(key)
        taken = await self._pool.run(lambda db: note_table.take(db, kind, text))
        return note.parsed((text, body) for body in taken).get(key)

    # ---------------------------------------------------------------- members

    @property
    def member(self) -> str:
        return self._member.name

    async def renew(self) -> Renewed:
        return await self._own.run(lambda db: owners.renew(db, self._member, self._lease))

    async def leave(self) -> None:
        await self._own.run(lambda db: db.execute("DELETE FROM node WHERE name = %s", (self.member,)))
        await self._hints.sent()
        self._changed("")
        await self._hints.sent()

    async def living(self) -> Mapping[str, float]:
        return await self._pool.run(owners.living)

    async def owners(self, streams: Collection[str]) -> Mapping[str, str]:
        names = list(streams)
        return await self._pool.run(lambda db: owners.owners(db, names))

    async def fleet(self) -> Fleet:
        return await self._pool.run(lambda db: owners.fleet(db, self._member))

    async def need_newer(self) -> int:
        return await self._pool.run(lambda db: owners.need_newer(db, self._member))

    def watch(self) -> AbstractContextManager[Subscription]:
        return self._hints.bus.subscribe(TOPIC, wants=lambda hint: hint.member != self.member)

    def _changed(self, stream: str, after: int | None = None) -> None:
        self._hints.changed(self.member, stream, after)
