"""The dollars that principals have spent on models today, which limit their further runs.

They are kept as notes, one for each principal, to which all members add. The latest calls before a crash may
be missing in them. What another member adds counts here when the notes are read again, within a second. An
addition whose answer was lost may count twice.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Json, Notes

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
    """Day and dollars by principal, as the notes have them."""
    _unsaved: dict[str, float] = attrs.field(factory=dict)
    """Dollars that are not in the notes yet."""
    _revision: int = 0
    """The revision up to which the notes were read."""
    _changed: trio.Event = attrs.field(factory=trio.Event)

    async def apply(self, notes: Mapping[str, Json | None]) -> None:
        """Take over notes of earlier processes, or of other members (`FollowedNotes`)."""
        self._read(notes)

    def _read(self, notes: Mapping[str, Json | None]) -> None:
        for principal, note in notes.items():
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
        self._unsaved[principal] = self._unsaved.get(principal, 0.0) + dollars
        self._changed.set()

    def today(self, principal: str) -> float:
        """The dollars that a principal has spent today (UTC)."""
        return self._stored(principal) + self._unsaved.get(principal, 0.0)

    def _stored(self, principal: str) -> float:
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
        self._changed, added = trio.Event(), dict(self._unsaved)

        async def save() -> bool:
            at = (await self._notes.note_revisions()).get(NOTE, 0)
            if at != self._revision:  # other members have added something
                self._read(await self._notes.notes(NOTE, after=self._revision))
                self._revision = at
            today = self._today()
            sums = {each: self._stored(each) + dollars for each, dollars in added.items()}
            notes = {
                each: {"day": today, "cost_usd": round(dollars, 9)}
                for each, dollars in sums.items()
                if math.isfinite(dollars)
            }
            if notes and not await self._notes.write_notes(NOTE, notes, at=at):
                return False
            for each, dollars in sums.items():
                self._spent[each] = today, dollars
                self._unsaved[each] -= added[each]
            return True

        while not await until_available(save):
            pass

    def _today(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).date().isoformat()
