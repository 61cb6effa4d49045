"""The crash points of a story: it is told again and again, and dies once before and once after each write.

The writes are counted while they happen, so a new one is a new crash point. A story is told in lives, one for
each process; a life is killed by the journal that it writes to (`KillingJournal`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TypeAlias, TypeVar

from .killing_journal import Edge, Kill, only_killed
from .virtual_time import run_in_virtual_time

MAX_LIVES = 12

T = TypeVar("T")

Live: TypeAlias = Callable[[Kill | None], bool | None]
"""Lives one life: whether the story is through, or None when it was killed."""


def survive(process: Callable[[], Awaitable[T]]) -> T | None:
    """One life in virtual time; None when it was killed."""
    try:
        return run_in_virtual_time(process)
    except BaseException as error:
        if not only_killed(error):
            raise
        return None


def live_through(live: Live, kills: Sequence[Kill]) -> int:
    """Live until the story is through. Each kill is for one life; when none is left, no life is killed.

    Returns how many of the kills found their write.
    """
    left = list(kills)
    fired = 0
    for _ in range(MAX_LIVES):
        kill = left.pop(0) if left else None
        through = live(kill)
        if through:
            return fired
        if through is None:
            fired += 1
        elif kill is not None:
            left.insert(0, kill)  # the process left in good order before that write
    raise AssertionError(f"the story does not come to an end in {MAX_LIVES} lives")


def kill_at_every_write(edge: Edge, earlier: Sequence[Kill], tell: Callable[[Sequence[Kill]], int]) -> int:
    """Kill at the first write, at the second, ... until a story does not get that far. How many did.

    `tell` tells the story with these kills, and returns how many of them found their write.
    """
    for write in count(1):
        kills = [*earlier, Kill(write, edge)]
        if tell(kills) < len(kills):
            return write - 1
    raise AssertionError
