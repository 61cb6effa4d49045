"""Places for calls: so many of one reply at a time, and so many on one server.

A call needs a place of each kind, and takes them in one go. So a call that waits for a busy server keeps no
place from its reply's calls of other servers, and one that waits for its reply keeps no server from others.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from operator import attrgetter

import attrs
import trio

_numbers = count()


@attrs.define(eq=False)
class Slots:
    """So many places."""

    free: int
    _queue: dict[_Waiter, None] = attrs.field(factory=dict)
    """Oldest first."""


@attrs.frozen(eq=False)
class _Waiter:
    wanted: tuple[Slots, ...]
    number: int = attrs.field(factory=lambda: next(_numbers))
    admitted: trio.Event = attrs.field(factory=trio.Event)

    @property
    def fits(self) -> bool:
        return all(slots.free > 0 for slots in self.wanted)

    def leave(self) -> None:
        for slots in self.wanted:
            del slots._queue[self]

    def take(self) -> None:
        for slots in self.wanted:
            slots.free -= 1


@attrs.define(eq=False)
class Held:
    """What a call holds: one place of each."""

    places: tuple[Slots, ...]
    """None once they are given back."""

    def give_back(self) -> None:
        """Let others have them; nothing happens the second time."""
        places, self.places = self.places, ()
        _give_back(places)


@asynccontextmanager
async def place_in(*wanted: Slots) -> AsyncIterator[Held]:
    """Hold one place of each for the length of the block, or until they are given back. Who came first
    goes first, unless it still has to wait for a place of another kind."""
    waiter = _Waiter(wanted)
    # Whoever waits could not go when the last place became free, so a newcomer that can passes nobody.
    if waiter.fits:
        waiter.take()
    else:
        await _wait(waiter)
    held = Held(wanted)
    try:
        yield held
    finally:
        held.give_back()


@asynccontextmanager
async def outside(*wanted: Slots) -> AsyncIterator[None]:
    """Within a `place_in` of the same: give the places up for the length of the block, and have them again
    after it. Who is cancelled does not wait for them; until it has left, one more than there are is taken."""
    _give_back(wanted)
    waiter, inside = _Waiter(wanted), False
    try:
        yield
        if waiter.fits:
            waiter.take()
        else:
            await _wait(waiter)
        inside = True
    finally:
        if not inside:
            waiter.take()


async def _wait(waiter: _Waiter) -> None:
    for slots in waiter.wanted:
        slots._queue[waiter] = None
    try:
        await waiter.admitted.wait()
    except trio.Cancelled:
        if waiter.admitted.is_set():
            _give_back(waiter.wanted)
        else:
            waiter.leave()
        raise


def _give_back(wanted: tuple[Slots, ...]) -> None:
    for slots in wanted:
        slots.free += 1
    while (waiter := _first_that_fits(wanted)) is not None:
        waiter.leave()
        waiter.take()
        waiter.admitted.set()


def _first_that_fits(wanted: tuple[Slots, ...]) -> _Waiter | None:
    queues = (slots._queue for slots in wanted if slots.free > 0)
    return next((w for w in heapq.merge(*queues, key=attrgetter("number")) if w.fits), None)
