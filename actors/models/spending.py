"""The dollars that principals have spent on models today, which limit their further runs.

They are kept as notes, one for each principal. The latest calls before a crash may be missing in them.
"""

from __future__ import annotations

import logging
import math
from datetime import UTC, datetime

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Notes

logger = logging.getLogger(__name__)

NOTE = "spent"
"""The kind of the notes; their keys are ids of principals."""
SAVE_TIME = 1.0
"""Seconds that the last save may take at shutdown."""


@attrs.define(eq=False)
class Spending:
    _notes: Notes
    _wall: WallClock
    limit: float | None
    """Dollars of a principal in a day; None: nothing is counted."""
    _spent: dict[str, tuple[str, float]] = attrs.field(factory=dict)
    """Day and dollars by principal."""
    _unsaved: set[str] = attrs.field(factory=set)
    _changed: trio.Event = attrs.field(factory=trio.Event)

    async def load(self) -> None:
        """Read the notes of earlier processes. Raises `JournalError`."""
        if self.limit is None:
            return
        for principal, note in (await self._notes.notes(NOTE)).items():
            match note:
                case {"day": str(day), "cost_usd": float() | int() as dollars}:
                    self._spent[principal] = day, float(dollars)
                case _:
                    logger.error("the note about the spending of %s cannot be read", principal)
                    self._spent[principal] = self._today(), math.inf  # nothing more today

    def add(self, principal: str | None, dollars: float | None) -> None:
        """Count the cost of a model call. `principal`: the requester of its run."""
        if self.limit is None or principal is None or not dollars:
            return
        self._spent[principal] = self._today(), self.today(principal) + dollars
        self._unsaved.add(principal)
        self._changed.set()

    def today(self, principal: str) -> float:
        """The dollars that a principal has spent today (UTC)."""
        day, dollars = self._spent.get(principal, ("", 0.0))
        return dollars if day == self._today() else 0.0

    async def keep(self) -> None:
        """Save changes until cancelled, and then the last ones."""
        try:
            while True:
                await self._changed.wait()
                await self._save()
        finally:
            with trio.move_on_after(SAVE_TIME, shield=True):
                await self._save()

    async def _save(self) -> None:
        self._changed, principals, self._unsaved = trio.Event(), self._unsaved, set()
        found = ((each, *self._spent[each]) for each in principals)
        notes = {
            each: {"day": day, "cost_usd": round(dollars, 9)}
            for each, day, dollars in found
            if math.isfinite(dollars)
        }
        try:
            if notes:
                await until_available(lambda: self._notes.write_notes(NOTE, notes))
        except BaseException:
            self._unsaved |= principals
            raise

    def _today(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).date().isoformat()
