"""The group commit: saves of many tasks are one statement, and one commit.

While a group is committed, further saves wait in a queue, and are the next group. A group only ever answers
that a save is done. Every other outcome is decided by the code for one save, on a connection of the pool:

=====================================================  =====================================================
the save                                               goes to the code for one
=====================================================  =====================================================
cannot be stored, is large, or finds a full queue      before it enters a group
is refused: another owner, another seq, a stream that  when its group is committed without it
is deleted or locked
is in a group of which another save fails              when its group is undone
has no answer, because the connection was lost         never: `JournalUnavailable`, and the caller repeats it
=====================================================  =====================================================
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Collection, Sequence
from copy import copy

import attrs
import psycopg
import trio

from ..errors import JournalError, JournalUnavailable
from ..protocol import OnCommit
from . import save as saves
from .pipeline import GroupAnswer, Pipeline, open_pipeline
from .pool import GRACE, NO_ANSWER, Awaited, Pool
from .save import EncodedSave, Save

_ROUNDS = 2
"""Rounds of the event loop in which the tasks that are ready add their saves to a group."""
MOST = 256
"""Maximum number of saves in a group."""
MOST_BYTES = 256 * 1024
"""Maximum size of a group, so that none of its saves waits long for the others."""
MOST_WAITING = 1024
"""Maximum number of saves in the queue."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class _QueuedSave:
    save: EncodedSave
    at: float | None = None
    """The time of the save; None: it is not done."""
    failure: JournalError | None = None
    finished: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False)
class SaveGroups:
    _dsn: str
    _pool: Pool
    """Whose `watch` ends the waits of this connection, too."""
    _on_commit: OnCommit
    _pipeline: Pipeline | None = None
    _waiting: deque[_QueuedSave] = attrs.field(factory=deque)
    _wake: trio.Event = attrs.field(factory=trio.Event)
    _is_running: bool = True

    async def save(self, it: Save) -> float | None:
        """Return the time of a save that is done; None: the code for one has to make it.

        Can be cancelled until its group begins. After that, it has `GRACE` for its outcome.

        Raises:
            JournalUnavailable
        """
        save = saves.encoded(it)
        if (
            save is None
            or save.size > MOST_BYTES
            or len(self._waiting) >= MOST_WAITING
            or not self._is_running
        ):
            return None
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _QueuedSave(save)
        self._waiting.append(job)
        self._wake.set()
        try:
            await job.finished.wait()
        except trio.Cancelled:
            if job in self._waiting:
                self._waiting.remove(job)
                raise
            with trio.move_on_after(GRACE, shield=True):
                await job.finished.wait()
            if not job.finished.is_set():
                raise JournalUnavailable(NO_ANSWER) from None
        if job.failure is not None:
            raise job.failure
        return job.at

    async def run(self) -> None:
        """Commit groups. After it has ended, all saves are made alone."""
        try:
            while True:
                await self._wake.wait()
                for _ in range(_ROUNDS):
                    await trio.lowlevel.checkpoint()
                if group := self._next():
                    await self._commit(group)
                if not self._waiting:
                    self._wake = trio.Event()
        finally:
            self._is_running = False
            self._finish(self._waiting)
            self._close()

    def _next(self) -> Sequence[_QueuedSave]:
        """The waiting saves in their order, as many as fit. The second one of a stream stays."""
        taken, left, size = dict[str, _QueuedSave](), deque[_QueuedSave](), 0
        while self._waiting and len(taken) < MOST and size + self._waiting[0].save.size <= MOST_BYTES:
            job = self._waiting.popleft()
            if taken.setdefault(job.save.stream, job) is job:
                size += job.save.size
            else:
                left.append(job)
        left.extend(self._waiting)
        self._waiting = left
        return list(taken.values())

    async def _commit(self, group: Sequence[_QueuedSave]) -> None:
        began, answer = time.perf_counter(), None
        failure: JournalError = JournalUnavailable(NO_ANSWER)
        try:
            with self._pool.watched() as work:
                work.began = time.monotonic()
                if self._pipeline is None:
                    self._pipeline = await open_pipeline(self._dsn)
                self._pipeline.send([saves.grouped([job.save for job in group])])
                answer = await _answer(self._pipeline, work)
        except JournalError as error:
            failure = error
        finally:
            match answer:
                case None:  # those in the queue have waited, too
                    self._close()
                    group = [*group, *self._waiting]
                    self._waiting.clear()
                    for job in group:
                        job.failure = copy(failure)
                case psycopg.Error():
                    logger.debug("a group of %d saves was undone: %s", len(group), answer)
                case _:
                    for number, at in saves.done(answer):
                        group[number - 1].at = at
                    self._on_commit(answer.ntuples, time.perf_counter() - began)
            self._finish(group)

    def _finish(self, jobs: Collection[_QueuedSave]) -> None:
        for job in jobs:
            job.finished.set()

    def _close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None


async def _answer(pipeline: Pipeline, work: Awaited) -> GroupAnswer:
    """The answer to a group. What was sent may be committed, so a cancellation waits for it a little."""
    try:
        [answer] = await pipeline.answers()
    except trio.Cancelled:
        with trio.move_on_after(work.patience, shield=True):
            [answer] = await pipeline.answers()
            return answer
        raise
    return answer
