"""The group commit: writes of many tasks are one transaction, and one commit.

The saves of a group are one statement; each other write is one of its own (`grouped_writes.py`). A group only
ever answers that a write is done. Every other outcome is decided by the code for one write, on a connection
of the pool:

=====================================================  =====================================================
the write                                              goes to the code for one
=====================================================  =====================================================
cannot be stored, is large, or finds a full queue      before it enters a group
is refused, for instance because of its fence, or      when its group is committed without it
finds its stream deleted or locked
is in a group of which another write fails             when its group is undone
has no answer, because the connection was lost         never: `JournalUnavailable`, and the caller repeats it
=====================================================  =====================================================

The writes of a stream in a group are made in the order in which they came, but saves are the last, and the
deliveries that may create it the first: no command comes before the one that has created the stream.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence

import attrs
import psycopg

from ..protocol import OnCommit
from . import grouped_writes
from . import save as saves
from .binary import BinaryQuery, rows_of
from .grouped_writes import GroupedWrite
from .pipeline import PipelineAnswer
from .pipeline_queue import PipelineQueue, QueuedWork
from .save import EncodedSave

MOST = 256
"""Maximum number of writes in a group."""
MOST_BYTES = 256 * 1024
"""Maximum size of a group, so that none of its writes waits long for the others."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class _QueuedWrite(QueuedWork):
    it: EncodedSave | GroupedWrite
    answer: float | None = None
    """The time of a save that is done, the number of another write; None: it is not done."""


@attrs.define(eq=False)
class WriteGroups(PipelineQueue[_QueuedWrite]):
    _on_commit: OnCommit

    async def write(self, it: EncodedSave | GroupedWrite | None) -> float | None:
        """Return `_QueuedWrite.answer`. If it is None, the code for one has to make the write.

        Raises:
            JournalUnavailable
        """
        if it is None or it.size > MOST_BYTES or not self.has_room:
            return None
        return (await self.outcome(_QueuedWrite(it), is_write=True)).answer

    def _next(self) -> Sequence[_QueuedWrite]:
        """The waiting writes in their order, as many as fit. The second save of a stream stays."""
        taken, left, size = list[_QueuedWrite](), deque[_QueuedWrite](), 0
        saved = set[str]()
        while self._waiting and len(taken) < MOST and size + self._waiting[0].it.size <= MOST_BYTES:
            work = self._waiting.popleft()
            if isinstance(work.it, EncodedSave):
                if work.it.stream in saved:
                    left.append(work)
                    continue
                saved.add(work.it.stream)
            taken.append(work)
            size += work.it.size
        left.extend(self._waiting)
        self._waiting = left
        return taken

    def _transactions(self, group: Sequence[_QueuedWrite]) -> Sequence[Sequence[BinaryQuery]]:
        others, saved = _others(group), _saves(group)
        statements = grouped_writes.statements([it for _, it in others]) if others else []
        if saved:
            statements.append(saves.grouped([it for _, it in saved]))
        return [statements]

    def _answered(
        self, group: Sequence[_QueuedWrite], answers: Sequence[PipelineAnswer], seconds: float
    ) -> None:
        [answer] = answers
        if isinstance(answer, psycopg.Error):
            logger.debug("a group of %d writes was undone: %s", len(group), answer)
            return
        others, saved, results = _others(group), _saves(group), list(answer)
        if saved:
            for number, at in saves.done(results.pop()):
                saved[number - 1][0].answer = at
        if others:
            for (work, _), result in zip(others, results[-len(others) :], strict=True):
                work.answer = next((number for (number,) in rows_of(result)), None)
        if done := sum(each.answer is not None for each in group):
            self._on_commit(done, seconds)


def _others(group: Sequence[_QueuedWrite]) -> list[tuple[_QueuedWrite, GroupedWrite]]:
    others = [(each, each.it) for each in group if isinstance(each.it, GroupedWrite)]
    return sorted(others, key=lambda other: not other[1].creates)


def _saves(group: Sequence[_QueuedWrite]) -> list[tuple[_QueuedWrite, EncodedSave]]:
    return [(each, each.it) for each in group if isinstance(each.it, EncodedSave)]
