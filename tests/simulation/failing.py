"""A journal whose saves fail now and then: nothing is written, and the process stays alive."""

from __future__ import annotations

from random import Random
from typing import Any

import attrs
import trio

from stopgo.runtime.journal.errors import JournalError
from stopgo.runtime.journal.protocol import Commit, Journal, Saved

BETWEEN = (20, 60)
"""Saves that succeed between two failures, so that a restarted conversation makes progress."""


class SaveFailed(JournalError):
    """Nothing was written."""


@attrs.define
class FailingJournal:
    _journal: Journal
    _rng: Random
    _left: int = attrs.field(init=False, default=attrs.Factory(lambda self: self._next(), takes_self=True))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    async def save(self, commit: Commit) -> Saved:
        self._left -= 1
        if not self._left:
            self._left = self._next()
            for _ in range(self._rng.choice([0, 1, 5])):
                await trio.lowlevel.checkpoint()
            raise SaveFailed
        return await self._journal.save(commit)

    def _next(self) -> int:
        return self._rng.randint(*BETWEEN)


def is_of_a_save(error: BaseException | None) -> bool:
    """Whether a failed save is the only cause of an error."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_of_a_save(each) for each in error.exceptions)
    return error is not None and (isinstance(error, SaveFailed) or is_of_a_save(error.__cause__))
