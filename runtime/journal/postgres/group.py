"""The group commit: saves of many tasks are one statement, and one commit.

A group only ever answers that a save is done. Every other outcome is decided by the code for one save, on a
connection of the pool:

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
from collections import deque
from collections.abc import Sequence

import attrs
import psycopg

from ..protocol import OnCommit
from . import save as saves
from .binary import BinaryQuery
from .pipeline import PipelineAnswer
from .pipeline_queue import PipelineQueue, QueuedWork
from .save import EncodedSave, Save

MOST = 256
"""Maximum number of saves in a group."""
MOST_BYTES = 256 * 1024
"""Maximum size of a group, so that none of its saves waits long for the others."""

logger = logging.getLogger(__name__)


@attrs.define(eq=False)
class _QueuedSave(QueuedWork):
    save: EncodedSave
    at: float | None = None
    """The time of the save; None: it is not done."""


@attrs.define(eq=False)
class SaveGroups(PipelineQueue[_QueuedSave]):
    _on_commit: OnCommit

    async def save(self, it: Save) -> float | None:
        """Return the time of a save that is done; None: the code for one has to make it.

        Raises:
            JournalUnavailable
        """
        save = saves.encoded(it)
        if save is None or save.size > MOST_BYTES or not self.has_room:
            return None
        return (await self.outcome(_QueuedSave(save), is_write=True)).at

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

    def _transactions(self, group: Sequence[_QueuedSave]) -> Sequence[Sequence[BinaryQuery]]:
        return [[saves.grouped([each.save for each in group])]]

    def _answered(
        self, group: Sequence[_QueuedSave], answers: Sequence[PipelineAnswer], seconds: float
    ) -> None:
        [answer] = answers
        if isinstance(answer, psycopg.Error):
            logger.debug("a group of %d saves was undone: %s", len(group), answer)
            return
        [result] = answer
        for number, at in saves.done(result):
            group[number - 1].at = at
        self._on_commit(result.ntuples, seconds)
