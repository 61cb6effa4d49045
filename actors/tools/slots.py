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
    """Below 0 while more are taken than there are."""
    _size: int = attrs.field(init=False, default=attrs.Factory(lambda slots: slots.free, takes_self=True))
    _queue: dict[_Waiter, None] = attrs.field(factory=dict)
    """Oldest first."""

    def narrow(self) -> bool:
        """Have one place from now on; whether there were more. Those that are taken stay taken."""
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
class Held:
    """What a call holds, until the block it is used for is over: one place of each."""

    places: tuple[Slots, ...]
    """Empty once they are given back."""
    since: float
    """When the call began to wait for them, in trio's time."""

    def give_back(self) -> None:
        """Let others have them; nothing happens the second time."""
        places, self.places = self.places, ()
        _give_back(places)

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()


async def place_in(*wanted: Slots) -> Held:
    """Take one place of each, for the length of the block that follows. Who came first goes first, unless it
    still has to wait for a place of another kind."""
    # Whoever waits could not go when the last place became free, so a newcomer that can passes nobody.
    since = trio.current_time()
    await _take(wanted)
    return Held(wanted, since)


@asynccontextmanager
async def outside(*wanted: Slots) -> AsyncIterator[None]:
    """While one place of each is held: give them up for the length of the block, and have them again after
    it. Who is cancelled does not wait for them; until it has left, one more than there are is taken."""
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
