"""Reads of single streams, on a pipeline of their own: they do not wait for commits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import attrs
import psycopg

from .binary import BinaryQuery, rows_of
from .pipeline import PipelineAnswer
from .pipeline_queue import PipelineQueue, QueuedWork
from .pool import meaning
from .stream_reads import PipelinedRead, executed

T = TypeVar("T")

MOST_READS = 32
"""Maximum number of reads in a group, whose results are in memory at the same time."""


@attrs.define(eq=False)
class _QueuedRead(QueuedWork):
    queries: Sequence[BinaryQuery]
    answer: PipelineAnswer = ()


@attrs.define(eq=False)
class ReadQueue(PipelineQueue[_QueuedRead]):
    async def read(self, read: PipelinedRead[T]) -> T:
        """Raises the errors of the read, `JournalError`."""
        answer: PipelineAnswer = ()
        if self.has_room:
            answer = (await self.outcome(_QueuedRead(read.queries), is_write=False)).answer
        if not answer:  # there was no room, or the queue has ended meanwhile
            return await self._pool.run(lambda db: executed(db, read))
        if isinstance(answer, psycopg.Error):
            raise meaning(answer) from answer
        return read.result([rows_of(each) for each in answer])

    def _next(self) -> Sequence[_QueuedRead]:
        return [self._waiting.popleft() for _ in range(min(MOST_READS, len(self._waiting)))]

    def _transactions(self, group: Sequence[_QueuedRead]) -> Sequence[Sequence[BinaryQuery]]:
        return [each.queries for each in group]

    def _answered(
        self, group: Sequence[_QueuedRead], answers: Sequence[PipelineAnswer], seconds: float
    ) -> None:
        for each, answer in zip(group, answers, strict=True):
            each.answer = answer
