"""The timers actor: expires approvals.

Expiry times are stored with the questions in the journal, so this actor has no state to recover. It reads the
due questions, puts an `Expire` command into the inboxes of their conversations, and sleeps until the next
expiry. It receives no messages: the expiry times of new questions are published on `EXPIRIES`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import attrs
import trio

from ...runtime.context import Behaviour, background
from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.errors import NeedsNewer
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Accepted, Journal, NewCommand
from ...runtime.journal.question import MOST_DUE, Due
from ...runtime.message import Message
from ..log.words.inbox import Expire, body_of
from ..log.writer.topics import EXPIRIES

LONGEST_SLEEP = 60.0
"""Maximum number of seconds between two readings of the wall clock, because a sleep can end late: the wall
clock may be set during it, and trio's clock stops while the machine is suspended. From the expiry until the
next reading, a run waits for an approval that can no longer be decided."""

BACKLOG_PAUSE = 0.2
"""Seconds between two pages of a long list, so that not all of their conversations become active at once."""


def timers(journal: Journal, bus: EventBus, wake: Callable[[str], None]) -> Behaviour[Message[Any]]:
    """Make the behaviour of the timers actor. `wake` is called with the conversations that have a new
    command."""

    async def watch() -> None:
        deadlines = _Deadlines(journal, wake)
        with bus.subscribe(EXPIRIES) as new:
            while True:
                pause = await deadlines.expire_due()
                with trio.move_on_after(pause) as sleep:
                    # A new question that expires after this sleep needs no new reading.
                    while not new.take_missed() and await _until(new) >= sleep.deadline:
                        pass

    return background(watch)


async def _until(new: Subscription) -> float:
    """Wait for a new question with an expiry. Return its expiry time on trio's clock."""
    seconds = cast(float, await anext(new))
    return trio.current_time() + seconds


@attrs.define(eq=False)
class _Deadlines:
    _journal: Journal
    _wake: Callable[[str], None]
    _delivered: frozenset[str] = frozenset()
    """The questions that were due at the last reading. Their conversations have an `Expire` command."""

    async def expire_due(self) -> float:
        """Deliver an `Expire` command for every question that is due, once.

        Returns the seconds until the next reading.
        """
        all_due: frozenset[str] = frozenset()
        last: Due | None = None
        while True:
            page = await until_available(partial(self._journal.due, last))
            all_due |= {each.id for each in page.questions}
            await self._expire([each for each in page.questions if each.id not in self._delivered])
            if len(page.questions) < MOST_DUE:
                self._delivered = all_due
                return min(LONGEST_SLEEP, page.next_in)
            last = page.questions[-1]
            await trio.sleep(BACKLOG_PAUSE)

    async def _expire(self, due: Sequence[Due]) -> None:
        for question in due:
            expire, key = Expire(question.id), f"expire/{question.id}"
            command = NewCommand(question.stream, key, expire.kind, body_of(expire))
            try:
                outcome = await until_available(partial(self._journal.deliver, command))
            except NeedsNewer:  # a member that can execute the command delivers it when it starts
                continue
            if isinstance(outcome, Accepted):
                self._wake(question.stream)
