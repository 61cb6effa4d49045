"""Slots: the limits of concurrent calls, per reply and per server.

A call needs a slot of each kind and takes both at the same moment. So a call that waits for a busy server
does not block other calls of its reply, and a call that waits for its reply does not block the server.
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
    """A number of slots."""

    free: int
    """The number of free slots; negative while more are taken than exist."""
    _size: int = attrs.field(init=False, default=attrs.Factory(lambda slots: slots.free, takes_self=True))
    _queue: dict[_Waiter, None] = attrs.field(factory=dict)
    """The waiting calls, oldest first."""

    @property
    def size(self) -> int:
        return self._size

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a slot of this kind, and perhaps for others."""
        return len(self._queue)

    def narrow(self) -> bool:
        """Reduce the size to 1. Slots that are taken stay taken. Return whether there were more."""
        surplus, self._size = self._size - 1, 1
        self.free -= surplus
        return surplus > 0


@attrs.frozen(eq=False)
class _Waiter:
    wanted: tuple[Slots, ...]
    number: int = attrs.field(factory=lambda: next(_numbers))
    admitted: trio.Event = attrs.field(factory=trio.Event)

    def leave(self) -> None:
        for slots in self.wanted:
            del slots._queue[self]


@attrs.define(eq=False)
class TakenSlots:
    """The slots that a call holds for the length of a block, one of each kind."""

    places: tuple[Slots, ...]
    """The kinds of slots; empty after they were released."""
    since: float
    """The time on trio's clock when the call began to wait."""

    def give_back(self) -> None:
        """Release the slots. A second call has no effect."""
        places, self.places = self.places, ()
        _give_back(places)

    def __enter__(self) -> TakenSlots:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


async def place_in(*wanted: Slots) -> TakenSlots:
    """Wait for one slot of each kind, and return them as a context manager. Calls are served in order of
    arrival, except those that still wait for another kind."""
    # A waiting call could not start at the last release, so a new call that can start overtakes no other.
    since = trio.current_time()
    await _take(wanted)
    return TakenSlots(wanted, since)


@asynccontextmanager
async def outside(*wanted: Slots) -> AsyncIterator[None]:
    """Release one held slot of each kind for the length of the block, and take them again after it. A
    cancelled caller does not wait for that: until it releases them, one slot more than exists is taken."""
    _give_back(wanted)
    inside = False
    try:
        yield
        await _take(wanted)
        inside = True
    finally:
        if not inside:
            _occupy(wanted)


async def _take(wanted: tuple[Slots, ...]) -> None:
    if _all_free(wanted):
        _occupy(wanted)
        return
    waiter = _Waiter(wanted)
    for slots in wanted:
        slots._queue[waiter] = None
    try:
        await waiter.admitted.wait()
    except trio.Cancelled:
        if waiter.admitted.is_set():
            _give_back(wanted)
        else:
            waiter.leave()
        raise


def _all_free(wanted: tuple[Slots, ...]) -> bool:
    return all(slots.free > 0 for slots in wanted)


def _occupy(wanted: tuple[Slots, ...]) -> None:
    for slots in wanted:
        slots.free -= 1


def _give_back(wanted: tuple[Slots, ...]) -> None:
    for slots in wanted:
        slots.free += 1
    if not any(slots._queue for slots in wanted):
        return
    while (waiter := _first_that_fits(wanted)) is not None:
        waiter.leave()
        _occupy(waiter.wanted)
        waiter.admitted.set()


def _first_that_fits(wanted: tuple[Slots, ...]) -> _Waiter | None:
    queues = [slots._queue for slots in wanted if slots.free > 0 and slots._queue]
    if not queues:
        return None
    waiters = heapq.merge(*queues, key=attrgetter("number"))
    return next((waiter for waiter in waiters if _all_free(waiter.wanted)), None)
