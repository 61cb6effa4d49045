"""Crash points: a story is repeated with a crash before, and a crash after, each of its writes.

Writes are counted at run time, so a new write is a new crash point. A story takes several lives, one for each
simulated process. A life is killed by the journal that it writes to (`KillingJournal`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import TypeAlias, TypeVar

from .killing_journal import Edge, Kill, only_killed
from .virtual_time import run_in_virtual_time

MAX_LIVES = 12

T = TypeVar("T")

LiveOnce: TypeAlias = Callable[[Kill | None], bool | None]
"""Runs one life. Returns whether the story is complete, or None if the life was killed."""


def survive(process: Callable[[], Awaitable[T]]) -> T | None:
    """Run one life in virtual time. Return None if it was killed."""
    try:
        return run_in_virtual_time(process)
    except BaseException as error:
        if not only_killed(error):
            raise
        return None


def live_through(live: LiveOnce, kills: Sequence[Kill]) -> int:
    """Run lives until the story is complete. Each kill is for one life; later lives are not killed.

    Return how many of the kills took place.
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
            left.insert(0, kill)  # the process ended normally before that write
    raise AssertionError(f"the story does not end within {MAX_LIVES} lives")


def kill_at_every_write(edge: Edge, earlier: Sequence[Kill], tell: Callable[[Sequence[Kill]], int]) -> int:
    """Kill at the first write, at the second, ... until a story has fewer writes. Return their number.

    `tell` runs the story with these kills and returns how many of them took place.
    """
    for write in count(1):
        kills = [*earlier, Kill(write, edge)]
        if tell(kills) < len(kills):
            return write - 1
    raise AssertionError
