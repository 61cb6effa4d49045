"""How operations become commits.

Operations run on trio's thread: they touch pages in memory and take some ten microseconds. Waiting
for the disk is left to a thread, which commits and does nothing else. Operations that are ready within
a few rounds of the event loop, or arrive while another commit is under way, share the next one. So a
commit costs one hop to another thread and back, however many operations it holds, and the thread needs
the interpreter once where an event loop that is busy would otherwise make it queue for it at every
statement. While one commit is under way, those whom the one before has answered prepare what the next
will hold.
"""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeAlias, TypeVar, cast

import trio

from .database import WriteAheadLog
from .errors import JournalBroken, JournalError, unreadable
from .files import LOOK_EVERY, Presence

T = TypeVar("T")
Operation: TypeAlias = Callable[[sqlite3.Connection], T]

_ROUNDS = 4
"""Of the event loop, from the first operation to the commit that it is in. One takes less than ten
microseconds when there is nothing else to do; when there is, much of that ends in an operation, too."""
_BATCH_SECONDS = 0.002
"""How long operations may run before the event loop gets its turn and they their commit."""
_BEGIN_SECONDS = 0.005
"""How long the event loop waits at most for the thread to begin with a commit. That takes some ten
microseconds, but the system may have something better to do."""
_CLOSE_SECONDS = 30.0
"""How long the last commit may take before the thread is left to the system."""

_FAULTS_OF_ONE = (
    sqlite3.DataError,
    sqlite3.IntegrityError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors of a statement; any other error of the database is one of the whole transaction."""


class Writer(Protocol):
    """Runs operations, each all or nothing, and answers when they are on disk."""

    async def submit(self, operation: Operation[T]) -> T:
        """Run an operation and commit it; what it raises is raised here, with nothing of it written.

        Cancellation counts before the operation is handed over, not after.

        Raises:
            JournalBroken: a commit failed, this one or one before.
        """
        ...

    async def inspect(self, operation: Operation[T]) -> T:
        """Run an operation that writes nothing, when all that ran before it is on disk.

        Raises:
            JournalBroken: a commit failed before.
            JournalError: the database cannot be read.
        """
        ...


class _Job(Generic[T]):
    """One operation and its outcome."""

    __slots__ = ("failure", "operation", "task", "value")

    def __init__(self, operation: Operation[T], task: trio.lowlevel.Task) -> None:
        self.operation = operation
        self.task = task
        self.failure: Exception | None = None
        self.value: T | None = None

    def outcome(self) -> T:
        if self.failure is not None:
            raise self.failure
        return cast(T, self.value)


class _Batch:
    """Operations of one transaction."""

    __slots__ = ("begun", "failure", "jobs")

    def __init__(self, begun: threading.Event | None) -> None:
        self.begun = begun
        self.jobs: list[_Job[Any]] = []
        self.failure: Exception | None = None


def _stay(_: object) -> trio.lowlevel.Abort:
    return trio.lowlevel.Abort.FAILED


def _broken(cause: Exception) -> JournalBroken:
    broken = JournalBroken(f"a commit failed, what is on disk is not known: {cause}")
    broken.__cause__ = cause
    return broken


def _is_of_all(error: Exception) -> bool:
    """Whether an error of an operation is one of the whole transaction."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, _FAULTS_OF_ONE)


def _run_apart(db: sqlite3.Connection, jobs: Iterable[_Job[Any]], rolled_back: Callable[[], None]) -> None:
    """Run operations in the transaction that is open; of those that fail, leave nothing there.

    Raises:
        sqlite3.Error: the transaction cannot go on.
    """
    for job in jobs:
        db.execute("SAVEPOINT operation")
        try:
            job.value = job.operation(db)
        except Exception as error:
            if _is_of_all(error):
                raise
            job.failure = error
            db.execute("ROLLBACK TO operation")
            rolled_back()
        db.execute("RELEASE operation")


class InlineWriter:
    """Commits in place, one operation at a time: no thread, so the same order in every run."""

    def __init__(
        self,
        db: sqlite3.Connection,
        presence: Presence,
        on_broken: Callable[[JournalBroken], None],
        on_rollback: Callable[[], None],
    ) -> None:
        self._db = db
        self._presence = presence
        self._on_broken = on_broken
        self._on_rollback = on_rollback
        self._cause: Exception | None = None

    @trio.lowlevel.enable_ki_protection
    async def submit(self, operation: Operation[T]) -> T:
        await trio.lowlevel.checkpoint()
        job = _Job(operation, trio.lowlevel.current_task())
        if self._cause is None:
            try:
                self._presence.check()
                self._db.execute("BEGIN IMMEDIATE")
                _run_apart(self._db, [job], self._on_rollback)
                self._db.execute("COMMIT")
            except (sqlite3.Error, OSError) as error:
                self._cause = error
                self._on_broken(_broken(error))
        if self._cause is not None:
            raise _broken(self._cause)
        # Others may run between a commit and its answer, as they do when a thread commits.
        await trio.lowlevel.cancel_shielded_checkpoint()
        return job.outcome()

    async def inspect(self, operation: Operation[T]) -> T:
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
    """Commits in a thread of its own; what waits meanwhile is the next commit's group."""

    def __init__(
        self,
        db: sqlite3.Connection,
        presence: Presence,
        on_broken: Callable[[JournalBroken], None],
        on_rollback: Callable[[], None],
    ) -> None:
        self._db = db
        self._presence = presence
        self._on_broken = on_broken
        self._on_rollback = on_rollback
        self._cause: Exception | None = None
        self._closed = False
        self._waiting: deque[_Job[Any]] = deque()
        self._inspections: list[_Job[Any]] = []
        """What waits for the commit that is under way."""
        self._gathering = False
        """What waits is about to be run."""
        self._committing = False
        """The thread has the database."""
        self._trio = trio.lowlevel.current_trio_token()
        self._batches: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._log = WriteAheadLog(db)
        self._thread = threading.Thread(target=self._commit_batches, name="journal", daemon=True)
        self._thread.start()

    @trio.lowlevel.enable_ki_protection
    async def submit(self, operation: Operation[T]) -> T:
        await trio.lowlevel.checkpoint_if_cancelled()
        self._refuse_when_over()
        job = _Job(operation, trio.lowlevel.current_task())
        self._waiting.append(job)
        if not (self._committing or self._gathering):
            self._gathering = True
            for _ in range(_ROUNDS):
                await trio.lowlevel.cancel_shielded_checkpoint()
            self._gathering = False
            self._commit_waiting()
        # A cancelled caller could not know what is on disk: it waits for the outcome.
        await trio.lowlevel.wait_task_rescheduled(_stay)
        return job.outcome()

    @trio.lowlevel.enable_ki_protection
    async def inspect(self, operation: Operation[T]) -> T:
        await trio.lowlevel.checkpoint()
        self._refuse_when_over()
        job = _Job(operation, trio.lowlevel.current_task())
        if self._committing:
            self._inspections.append(job)
            await trio.lowlevel.wait_task_rescheduled(_stay)
        else:
            self._inspect(job)
        return job.outcome()

    async def aclose(self) -> None:
        """Let the last commit finish, then close the database."""
        self._closed = True
        if not (self._committing or self._gathering):
            self._batches.put(None)
        # The limit is real time: a clock of a test must not run ahead of a disk.
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._thread.join, _CLOSE_SECONDS, limiter=trio.CapacityLimiter(1))

    def _refuse_when_over(self) -> None:
        if self._cause is not None:
            raise _broken(self._cause)
        if self._closed:
            raise JournalError("the journal is closed")

    def _inspect(self, job: _Job[Any]) -> None:
        try:
            job.value = job.operation(self._db)
        except Exception as error:
            job.failure = unreadable(error) if isinstance(error, sqlite3.Error) else error

    def _commit_waiting(self, begun: threading.Event | None = None) -> None:
        """Run what waits in one transaction and hand it to the thread, which sets `begun` when it has it."""
        self._committing = True
        batch = _Batch(begun)
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._run_together(batch.jobs)
            self._presence.check()
        except (sqlite3.Error, OSError) as error:
            batch.failure = error
        self._batches.put(batch)

    def _run_together(self, batch: list[_Job[Any]]) -> None:
        """Move what waits to the batch and run it, for as long as the event loop may be held up.

        Raises:
            sqlite3.Error: the transaction cannot go on.
        """
        until = time.perf_counter() + _BATCH_SECONDS
        try:
            while self._waiting and (not batch or time.perf_counter() < until):
                job = self._waiting.popleft()
                batch.append(job)
                job.value = job.operation(self._db)
        except Exception as error:
            if _is_of_all(error):
                raise
            # Hardly any fails, and a savepoint for each would cost a fifth of what they do: so all once more.
            self._db.execute("ROLLBACK")
            self._on_rollback()
            self._db.execute("BEGIN IMMEDIATE")
            _run_apart(self._db, batch, self._on_rollback)

    def _commit_batches(self) -> None:
        """The thread."""
        while (batch := self._next_batch()) is not None:
            if batch.begun is not None:
                batch.begun.set()
            if batch.failure is None:
                try:
                    self._db.execute("COMMIT")
                    self._log.bound(self._db)
                except Exception as error:
                    batch.failure = error
            try:
                self._trio.run_sync_soon(self._settle, batch)
            except trio.RunFinishedError:
                break
        self._db.close()

    def _next_batch(self) -> _Batch | None:
        """The next batch. While none comes, check every `LOOK_EVERY` seconds that the files exist: writes to
        a removed file could be lost when the process ends."""
        while True:
            try:
                return self._batches.get(timeout=LOOK_EVERY)
            except queue.Empty:
                pass
            try:
                self._presence.check()
            except OSError as error:
                noticed = _Batch(None)
                noticed.failure = error
                return noticed

    def _settle(self, batch: _Batch) -> None:
        """Answer a batch that was committed, or everybody if it was not."""
        self._committing = False
        inspections, self._inspections = self._inspections, []
        answered = batch.jobs + inspections
        begun: threading.Event | None = None
        if batch.failure is not None:
            self._cause = batch.failure
            answered += self._waiting
            self._waiting.clear()
            for job in answered:
                job.failure = _broken(batch.failure)
            self._on_broken(_broken(batch.failure))
        else:
            for job in inspections:
                self._inspect(job)
            if self._waiting:
                begun = threading.Event()
                self._commit_waiting(begun)
        if self._closed and not self._committing:
            self._batches.put(None)
        for job in answered:
            trio.lowlevel.reschedule(job.task)
        if begun is not None:
            # Those just answered would keep the interpreter from the thread until all of them wait again.
            begun.wait(_BEGIN_SECONDS)
