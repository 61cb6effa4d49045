"""The lease of this member, as the member itself sees it.

Other members may take over a member's streams when its lease has run out on the store's clock. The member
must have stopped before, also if its process was paused and nothing in it could run. So it does not count on
a timer: right before a write or another effect, `check` compares the end of the lease with a clock that goes
on while the machine is suspended. The end is reckoned from the moment before the renewal was sent, so it is
never later than the store's.

A renewal that comes too late begins a new `Term`: other members may have claimed streams before it. The store
still refuses their earlier owner's writes. An effect must find the term that stood before the last write.
"""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable

import attrs
import trio

from .errors import Fenced, JournalError
from .protocol import Journal

RENEWALS = 3
"""The least number of times that a lease is renewed in its length."""
RENEW_EVERY = 0.5
"""Maximum number of seconds between two renewals of a lease that can be lost, so that other members notice a
member that does not answer, long before its lease has run out."""
MARGIN = 0.1
"""The part of a lease in which the member no longer writes or sends. It covers the time between a check and
its effect, and different speeds of the clocks."""
LONGEST_PAUSE = 60.0
"""Seconds between two renewals of a lease that cannot be lost."""

logger = logging.getLogger(__name__)


def boot_clock() -> float:
    """Seconds on a clock that counts the time in which the machine is suspended."""
    # On macOS, CLOCK_MONOTONIC does.
    clock = time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC
    return time.clock_gettime(clock)


@attrs.define(eq=False)
class Term:
    """A time in which the member has its lease without a gap."""

    _clock: Callable[[], float]
    until: float = -math.inf

    @property
    def owns(self) -> bool:
        return self._clock() < self.until


@attrs.define(eq=False)
class Lease:
    _journal: Journal
    _clock: Callable[[], float] = boot_clock
    term: Term = attrs.field(
        init=False, default=attrs.Factory(lambda self: Term(self._clock), takes_self=True)
    )
    """The current one, or the last."""
    _pause: float = LONGEST_PAUSE
    _patience: float = LONGEST_PAUSE
    """Seconds that a renewal may take."""
    _ahead: float = 0.0
    """Seconds by which the store's clock is ahead of `_clock`."""

    def wall(self) -> float:
        """The time on the store's clock, as of the last renewal. The clock of this machine may be wrong."""
        return self._clock() + self._ahead

    @property
    def can_be_lost(self) -> bool:
        """Whether other members can exist."""
        return self.term.until < math.inf

    @property
    def owns(self) -> bool:
        return self.term.owns

    def check(self) -> Term:
        """Return the current term. Raises `Fenced` if the lease has run out or is about to."""
        if not self.owns:
            raise Fenced("the lease of this node has run out")
        return self.term

    async def renew(self) -> None:
        """Raises `JournalError`."""
        began = self._clock()
        renewed = await self._journal.renew()
        if not self.owns:
            self.term = Term(self._clock)
        self.term.until = began + renewed.seconds * (1 - MARGIN)
        self._patience = min(LONGEST_PAUSE, renewed.seconds / RENEWALS)
        self._pause = min(RENEW_EVERY, self._patience) if self.can_be_lost else LONGEST_PAUSE
        self._ahead = renewed.now - self._clock()

    async def keep(self) -> None:
        """Renew the lease again and again. While the store cannot be reached, the lease runs out."""
        level = logging.WARNING
        while True:
            await trio.sleep(self._pause)
            term = self.term
            try:
                with trio.fail_after(self._patience):
                    await self.renew()
            except (JournalError, trio.TooSlowError) as error:
                logger.log(level, "the lease of this node was not renewed: %s", error)
                level = logging.DEBUG  # one line is enough for all attempts
            else:
                level = logging.WARNING
                if term is not self.term:
                    logger.warning("the lease of this node had run out; it is renewed")
