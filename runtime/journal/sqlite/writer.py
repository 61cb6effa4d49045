"""The group commit: how operations of many tasks become few commits.

An operation is a function that reads and writes through the connection. It runs on trio's thread, because it
only touches pages in memory and takes some ten microseconds. Only `COMMIT`, which waits for the disk, runs in
another thread. The two threads never use the connection at the same time.

=====================  ===========================================  ==========================================
state                  trio's thread                                the commit thread
=====================  ===========================================  ==========================================
idle                   `submit` queues an operation                 waits for a batch; checks every
                                                                    `CHECK_EVERY` that the files exist
gathering              lets the event loop run for `_ROUNDS`        waits
                       rounds; other tasks queue operations
running                `_commit_waiting`: `BEGIN`, runs the queued  waits
                       operations, hands over the batch
committing             queues the operations that arrive            `COMMIT`
finishing              `_finish`: starts the next batch, if         waits
                       operations are queued, then wakes the tasks
                       of this one
returning space        queues the operations that arrive            a step of `FreePages`, which ends like a
                                                                    batch without operations
=====================  ===========================================  ==========================================

So a commit costs one hop to the thread and back for any number of operations, and while it runs, the tasks of
the batch before prepare the operations of the next one.

An operation is all or nothing: each runs in a savepoint of its own and is rolled back alone if it fails. An
error of the transaction itself, such as a full disk, breaks the journal: every waiting task and every later
call gets `JournalBroken`, because the state on disk is unknown.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import trio

from ..errors import JournalBroken, JournalError, unreadable
from ..protocol import OnCommit, ignore_commit
from .database import PAUSE, FreePages, WriteAheadLog
from .files import CHECK_EVERY, Presence

T = TypeVar("T")
DatabaseWork: TypeAlias = Callable[[sqlite3.Connection], T]

_ROUNDS = 4
"""Rounds of the event loop between the first operation of a batch and its commit. A round of an idle loop
takes less than ten microseconds. In a round of a busy loop, other tasks add operations to the batch."""
_BATCH_SECONDS = 0.002
"""How long the operations of one batch may hold up the event loop."""
_CLOSE_SECONDS = 30.0
"""How long `aclose` waits for the last commit."""

_FAULTS_OF_ONE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors of one statement. Any other database error concerns the whole transaction."""


class Writer(Protocol):
    """Runs operations, each all or nothing, and returns when they are on disk."""

    async def submit(self, operation: DatabaseWork[T]) -> T:
        """Run an operation, commit it, and return its value. If it raises, nothing of it is written and its
        error is raised here.

        Can be cancelled only until the operation has been queued.

        Raises:
            JournalBroken: this commit, or an earlier one, failed.
        """
        ...

    async def inspect(self, operation: DatabaseWork[T]) -> T:
        """Run an operation that writes nothing, after everything that ran before it is on disk.

        Raises:
            JournalBroken: an earlier commit failed.
            JournalError: the database cannot be read.
        """
        ...


class _Job(Generic[T]):
    """An operation with the task that waits for its outcome."""

    __slots__ = ("failure", "operation", "task", "value")

    def __init__(self, operation: DatabaseWork[T], task: trio.lowlevel.Task) -> None:
        self.operation = operation
        self.task = task
        self.failure: Exception | None = None
        self.value: T | None = None

    def outcome(self) -> T:
        if self.failure is not None:
            raise self.failure
        return cast(T, self.value)


class _Batch:
    """The operations of one transaction. None: a step of `FreePages`."""

    __slots__ = ("began", "failure", "jobs")

    def __init__(self) -> None:
        self.jobs: list[_Job[Any]] = []
        self.failure: Exception | None = None
        self.began = time.perf_counter()


def _stay(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _broken(cause: Exception) -> JournalBroken:
    broken = JournalBroken(f"commit failed, state on disk unknown: {cause}")
    broken.__cause__ = cause
    return broken


def _breaks_transaction(error: Exception) -> bool:
    """Return whether an error of an operation concerns the whole transaction."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, _FAULTS_OF_ONE)


def _run(db: sqlite3.Connection, job: _Job[Any], on_rollback: Callable[[], None]) -> None:
    """Run an operation in the open transaction, and undo it if it fails.

    Raises:
        sqlite3.Error: the transaction cannot continue.
    """
    db.execute("SAVEPOINT operation")
    try:
        job.value = job.operation(db)
    except Exception as error:
        if _breaks_transaction(error):
            raise
        job.failure = error
        db.execute("ROLLBACK TO operation")
        on_rollback()
    db.execute("RELEASE operation")


class InlineWriter:
    """Commits one operation at a time on trio's thread, so that the order is the same in every run."""

    def __init__(
        self,
        db: sqlite3.Connection,
        presence: Presence,
        on_broken: Callable[[JournalBroken], None],
        on_rollback: Callable[[], None],
        on_commit: OnCommit = ignore_commit,
    ) -> None:
        self._db = db
        self._presence = presence
        self._on_broken = on_broken
        self._on_rollback = on_rollback
        self._on_commit = on_commit
        self._cause: Exception | None = None

    @trio.lowlevel.enable_ki_protection
    async def submit(self, operation: DatabaseWork[T]) -> T:
        await trio.lowlevel.checkpoint()
        job = _Job(operation, trio.lowlevel.current_task())
        if self._cause is None:
            began = time.perf_counter()
            try:
                self._presence.check()
                self._db.execute("BEGIN IMMEDIATE")
                _run(self._db, job, self._on_rollback)
                self._db.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self._cause = error
                self._on_broken(_broken(error))
            else:
                self._on_commit(1, time.perf_counter() - began)
        if self._cause is not None:
            raise _broken(self._cause)
        # Let other tasks run between the commit and its answer, as `GroupWriter` does.
        await trio.lowlevel.cancel_shielded_checkpoint()
        return job.outcome()

    async def inspect(self, operation: DatabaseWork[T]) -> T:
        await trio.lowlevel.checkpoint()
        if self._cause is not None:
            raise _broken(self._cause)
        try:
            return operation(self._db)
        except sqlite3.Error as error:
            raise unreadable(error) from error

    async def aclose(self) -> None:
        self._db.close()


class GroupWriter:
    """Commits in a thread of its own. The operations that arrive during a commit share the next one."""

    def __init__(
        self,
        db: sqlite3.Connection,
        presence: Presence,
        on_broken: Callable[[JournalBroken], None],
        on_rollback: Callable[[], None],
        on_commit: OnCommit = ignore_commit,
    ) -> None:
        self._db = db
        self._presence = presence
        self._on_broken = on_broken
        self._on_rollback = on_rollback
        self._on_commit = on_commit
        self._cause: Exception | None = None
        self._closed = False
        self._waiting: deque[_Job[Any]] = deque()
        self._inspections: list[_Job[Any]] = []
        """The inspections that wait for the current commit."""
        self._gathering = False
        """A task in `submit` is about to run the waiting operations."""
        self._committing = False
        """The commit thread uses the connection."""
        self._trio = trio.lowlevel.current_trio_token()
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._log = WriteAheadLog(db)
        self._free = FreePages(db)
        self._thread = threading.Thread(target=self._commit_batches, name="journal", daemon=True)
        self._thread.start()

    @trio.lowlevel.enable_ki_protection
    async def submit(self, operation: DatabaseWork[T]) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._check_open()
        job = _Job(operation, trio.lowlevel.current_task())
        self._waiting.append(job)
        if not (self._committing or self._gathering):
            self._gathering = True
            for _ in range(_ROUNDS):
                await trio.lowlevel.cancel_shielded_checkpoint()
            self._gathering = False
            self._commit_waiting()
        # Not cancellable: a cancelled caller would not know whether its operation is on disk.
        await trio.lowlevel.wait_task_rescheduled(_stay)
        return job.outcome()

    @trio.lowlevel.enable_ki_protection
    async def inspect(self, operation: DatabaseWork[T]) -> T:
        await trio.lowlevel.checkpoint()
        self._check_open()
        job = _Job(operation, trio.lowlevel.current_task())
        if self._committing:
            self._inspections.append(job)
            await trio.lowlevel.wait_task_rescheduled(_stay)
        else:
            self._inspect(job)
        return job.outcome()

    async def aclose(self) -> None:
        """Wait for the last commit, then close the database."""
        self._closed = True
        if not (self._committing or self._gathering):
            self._batches.put(None)
        # The limit is in real time, because a virtual clock would run out before the disk has finished.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, _CLOSE_SECONDS, limiter=trio.CapacityLimiter(1))

    def _check_open(self) -> None:
        if self._cause is not None:
            raise _broken(self._cause)
        if self._closed:
            raise JournalError("the journal is closed")

    def _inspect(self, job: _Job[Any]) -> None:
        try:
            job.value = job.operation(self._db)
        except Exception as error:
            job.failure = unreadable(error) if isinstance(error, sqlite3.Error) else error

    def _commit_waiting(self) -> None:
        """Run the waiting operations in one transaction and hand it to the commit thread."""
        self._committing = True
        batch = _Batch()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._run_waiting(batch.jobs)
            self._presence.check()
        except (sqlite3.Error, OSError) as error:
            batch.failure = error
        self._batches.put(batch)

    def _run_waiting(self, batch: list[_Job[Any]]) -> None:
        """Move waiting operations to the batch and run them, for at most `_BATCH_SECONDS`.

        Raises:
            sqlite3.Error: the transaction cannot continue.
        """
        until = time.perf_counter() + _BATCH_SECONDS
        while self._waiting and (not batch or time.perf_counter() < until):
            job = self._waiting.popleft()
            batch.append(job)
            _run(self._db, job, self._on_rollback)

    def _commit_batches(self) -> None:
        """The commit thread."""
        while (batch := self._next_batch()) is not None:
            if batch.failure is None:
                try:
                    if batch.jobs:
                        self._db.execute("COMMIT")
                        self._free.check(self._db)
                    else:
                        self._free.step(self._db)
                    self._log.bound(self._db)
                except Exception as error:
                    batch.failure = error
            try:
                self._trio.run_sync_soon(self._finish, batch)
            except trio.RunFinishedError:
                break
        self._db.close()

    def _next_batch(self) -> _Batch | None:
        """Wait for the next batch. Meanwhile, check every `CHECK_EVERY` seconds that the files exist, because
        commits to a removed file would be lost when the process ends."""
        while True:
            try:
                return self._batches.get(timeout=PAUSE if self._free.are_many else CHECK_EVERY)
            except queue.Empty:
                pass
            if self._free.are_many:
                with suppress(trio.RunFinishedError):
                    self._trio.run_sync_soon(self._return_space)
            try:
                self._presence.check()
            except OSError as error:
                broken = _Batch()
                broken.failure = error
                return broken

    def _return_space(self) -> None:
        """Hand a step to the commit thread, if it is idle and there is something to do."""
        if self._free.are_many and not (self._committing or self._gathering or self._closed or self._cause):
            self._committing = True
            self._batches.put(_Batch())

    def _finish(self, batch: _Batch) -> None:
        """Wake the tasks of a committed batch, or all waiting tasks if the commit failed."""
        self._committing = False
        inspections, self._inspections = self._inspections, []
        finished = batch.jobs + inspections
        if batch.failure is not None:
            self._cause = batch.failure
            finished += self._waiting
            self._waiting.clear()
            for job in finished:
                job.failure = _broken(batch.failure)
            self._on_broken(_broken(batch.failure))
        else:
            if batch.jobs:
                self._on_commit(len(batch.jobs), time.perf_counter() - batch.began)
            for job in inspections:
                self._inspect(job)
            if self._free.are_overdue:
                self._return_space()
            if self._waiting and not self._committing:
                self._commit_waiting()
        if self._closed and not self._committing:
            self._batches.put(None)
        for job in finished:
            trio.lowlevel.reschedule(job.task)
