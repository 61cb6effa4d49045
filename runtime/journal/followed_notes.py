"""Notes that other members may change. Those that depend on them are told of each change.

`run` compares the revisions of the kinds every `POLL_EVERY` seconds. A journal of one process does not need
it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import attrs
import trio

from ..clock import WallClock, system_clock
from .errors import JournalError
from .patience import until_available
from .protocol import Json, Notes

POLL_EVERY = 0.4
"""Seconds between two polls. Members see the changes of others within 1 s."""

Apply: TypeAlias = Callable[[Mapping[str, Json | None]], Awaitable[None]]
"""Takes notes by key; None is a damaged note. The same note may come twice."""

logger = logging.getLogger(__name__)


async def made_once(notes: Notes, kind: str, key: str, field: str, make: Callable[[], str]) -> str:
    """Return the text in a field of a note; the first member writes the note with the text of `make`. Waits
    until the store can be reached.

    Raises:
        JournalError
    """

    async def find() -> str | None:
        at = (await notes.note_revisions()).get(kind, 0)
        stored = (await notes.notes(kind)).get(key)
        if stored is not None and isinstance(stored.get(field), str):
            return str(stored[field])
        made = make()
        return made if await notes.write_notes(kind, {key: {field: made}}, at=at) else None

    while (found := await until_available(find)) is None:
        pass
    return found


@attrs.define
class _Followed:
    apply: Apply
    seen: int = 0
    """The revision up to which the changes were applied."""


@attrs.define(eq=False)
class FollowedNotes:
    notes: Notes
    wall: WallClock = system_clock
    """The clock for times in notes: that of the store, if there are other members."""
    are_shared: bool = False
    """Whether other members can exist."""
    _polling: trio.Lock = attrs.field(factory=trio.Lock)
    _kinds: dict[str, _Followed] = attrs.field(factory=dict)

    async def follow(self, kind: str, apply: Apply) -> None:
        """Apply all notes of a kind now, and later those that have changed, including changes by this member.
        Waits until the store can be reached.

        Raises:
            JournalError
        """
        followed = _Followed(apply)

        async def begin() -> None:
            await self._apply(kind, followed, await self.notes.note_revisions())

        await until_available(begin)
        self._kinds[kind] = followed

    def revision(self, kind: str) -> int:
        """The revision up to which the changes of a followed kind were applied."""
        return self._kinds[kind].seen

    async def poll(self) -> None:
        """Apply what has changed. Raises `JournalError`."""
        async with self._polling:
            revisions = await self.notes.note_revisions()
            for kind, followed in tuple(self._kinds.items()):
                if revisions.get(kind, 0) > followed.seen:
                    await self._apply(kind, followed, revisions)

    async def _apply(self, kind: str, followed: _Followed, revisions: Mapping[str, int]) -> None:
        # Read after the revisions, so that no change is missed.
        await followed.apply(await self.notes.notes(kind, after=followed.seen))
        followed.seen = revisions.get(kind, 0)

    async def run(self) -> None:
        """Look for changes until cancelled."""
        level = logging.WARNING
        while True:
            await trio.sleep(POLL_EVERY)
            try:
                await self.poll()
            except JournalError as error:
                logger.log(level, "could not look for changes by other nodes: %s", error)
                level = logging.DEBUG  # one line is enough for all attempts
            else:
                level = logging.WARNING
