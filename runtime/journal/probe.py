"""Asks the journal whether it answers, for readiness and metrics."""

from __future__ import annotations

import logging

import attrs
import trio

from .errors import JournalError
from .protocol import Journal

logger = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds within which the journal has to answer."""


@attrs.define(eq=False)
class _Check:
    done: trio.Event = attrs.field(factory=trio.Event)
    error: str | None = None


@attrs.define(eq=False)
class JournalProbe:
    """A read of a journal on a server cannot be interrupted, so a task asks, and others wait for it. One at a
    time: a journal that hangs keeps one thread, however often it is asked about."""

    _journal: Journal
    _nursery: trio.Nursery
    _last: _Check | None = None
    need_newer: int = 0
    """`Fleet.need_newer`, by the last answer."""

    async def error(self) -> str | None:
        """Why the journal cannot be used; None if it answers in time."""
        if self._last is None or self._last.done.is_set():
            self._last = _Check()
            self._nursery.start_soon(self._ask, self._last)
        asked = self._last
        with trio.move_on_after(PATIENCE):
            await asked.done.wait()
            return asked.error
        return f"it has not answered within {PATIENCE:g} s"

    async def _ask(self, check: _Check) -> None:
        try:
            found = await self._journal.need_newer()
            if found != self.need_newer:
                logger.warning("conversations that need a newer version of the agent: %d", found)
            self.need_newer = found
        except JournalError as error:
            check.error = str(error)
        finally:
            check.done.set()
