"""Asks the journal whether it answers, for readiness and metrics."""

from __future__ import annotations

import attrs
import trio

from .errors import JournalError
from .protocol import Journal

PATIENCE = 2.0
"""Seconds within which the journal has to answer."""


@attrs.define(eq=False)
class _Question:
    answered: trio.Event = attrs.field(factory=trio.Event)
    error: str | None = None


@attrs.define(eq=False)
class JournalProbe:
    """A read of a journal on a server cannot be interrupted, so a task asks, and others wait for it. One at a
    time: a journal that hangs keeps one thread, however often it is asked about."""

    _journal: Journal
    _nursery: trio.Nursery
    _last: _Question | None = None

    async def error(self) -> str | None:
        """Why the journal cannot be used; None if it answers in time."""
        if self._last is None or self._last.answered.is_set():
            self._last = _Question()
            self._nursery.start_soon(self._ask, self._last)
        asked = self._last
        with trio.move_on_after(PATIENCE):
            await asked.answered.wait()
            return asked.error
        return f"it has not answered within {PATIENCE:g} s"

    async def _ask(self, question: _Question) -> None:
        try:
            await self._journal.row("")
        except JournalError as error:
            question.error = str(error)
        finally:
            question.answered.set()
