"""A queue of operations of many tasks, which share one pipeline.

While operations are answered, further ones wait in the queue, and are sent together as the next group.

=====================================================  =====================================================
the operation                                          ends
=====================================================  =====================================================
finds no room in the queue, or a queue that has ended  without it, on a connection of the pool
is cancelled while it waits in the queue               at once
is cancelled later                                     a read at once; a write with its outcome, or with
                                                       `JournalUnavailable` after `GRACE`
has no answer, because the connection was lost         with `JournalUnavailable`; so do those in the queue,
                                                       which have waited as long
=====================================================  =====================================================
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Collection, Sequence
from copy import copy
from typing import Generic, TypeVar

import attrs
import trio

from ..errors import JournalError, JournalUnavailable
from .binary import BinaryQuery
from .pipeline import Pipeline, PipelineAnswer, open_pipeline
from .pool import GRACE, NO_ANSWER, Awaited, Pool

_ROUNDS = 2
"""Rounds of the event loop in which the tasks that are ready add their operations to a group."""
MOST_WAITING = 1024
"""Maximum number of operations in a queue."""


@attrs.define(eq=False)
class QueuedWork:
    failure: JournalError | None = attrs.field(default=None, init=False)
    finished: trio.Event = attrs.field(factory=trio.Event, init=False)


W = TypeVar("W", bound=QueuedWork)


@attrs.define(eq=False)
class PipelineQueue(ABC, Generic[W]):
    _dsn: str
    _pool: Pool
    """Whose `watch` ends the waits of this connection, too."""
    _pipeline: Pipeline | None = attrs.field(default=None, init=False)
    _waiting: deque[W] = attrs.field(factory=deque, init=False)
    _wake: trio.Event = attrs.field(factory=trio.Event, init=False)
    _is_running: bool = attrs.field(default=True, init=False)

    @property
    def has_room(self) -> bool:
        return self._is_running and len(self._waiting) < MOST_WAITING

    async def outcome(self, work: W, *, is_write: bool) -> W:
        """Put an operation into the queue, and wait for its end. Raises `JournalError`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._waiting.append(work)
        self._wake.set()
        try:
            await work.finished.wait()
        except trio.Cancelled:
            if work in self._waiting:
                self._waiting.remove(work)
                raise
            if not is_write:
                raise
            with trio.move_on_after(GRACE, shield=True):
                await work.finished.wait()
            if not work.finished.is_set():
                raise JournalUnavailable(NO_ANSWER) from None
        if work.failure is not None:
            raise work.failure
        return work

    async def run(self) -> None:
        """Send the operations. After it has ended, there is no room."""
        try:
            while True:
                await self._wake.wait()
                for _ in range(_ROUNDS):
                    await trio.lowlevel.checkpoint()
                if group := self._next():
                    await self._exchange(group)
                if not self._waiting:
                    self._wake = trio.Event()
        finally:
            self._is_running = False
            _finish(self._waiting)
            self._close()

    @abstractmethod
    def _next(self) -> Sequence[W]:
        """Take the next group from those that wait."""

    @abstractmethod
    def _transactions(self, group: Sequence[W]) -> Sequence[Sequence[BinaryQuery]]: ...

    @abstractmethod
    def _answered(self, group: Sequence[W], answers: Sequence[PipelineAnswer], seconds: float) -> None:
        """Take the answers, one for each transaction. `seconds`: the time that they took."""

    async def _exchange(self, group: Sequence[W]) -> None:
        began, answers = time.perf_counter(), None
        failure: JournalError = JournalUnavailable(NO_ANSWER)
        try:
            with self._pool.watched() as work:
                work.began = time.monotonic()
                if self._pipeline is None:
                    self._pipeline = await open_pipeline(self._dsn)
                self._pipeline.send(self._transactions(group))
                answers = await _answers(self._pipeline, work)
        except JournalError as error:
            failure = error
        finally:
            if answers is None:
                self._close()
                group = [*group, *self._waiting]
                self._waiting.clear()
                for each in group:
                    each.failure = copy(failure)
            else:
                self._answered(group, answers, time.perf_counter() - began)
            _finish(group)

    def _close(self) -> None:
        if self._pipeline is not None:
            self._pipeline.close()
            self._pipeline = None


def _finish(group: Collection[QueuedWork]) -> None:
    for each in group:
        each.finished.set()


async def _answers(pipeline: Pipeline, work: Awaited) -> Sequence[PipelineAnswer]:
    """The answers to a group. What was sent may be committed, so a cancellation waits for it a little."""
    try:
        return await pipeline.answers()
    except trio.Cancelled:
        with trio.move_on_after(work.patience, shield=True):
            return await pipeline.answers()
        raise
