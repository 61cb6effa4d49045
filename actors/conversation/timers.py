"""The timers actor: expires approvals.

Expiry times are stored with the questions in the journal, so this actor has no state to recover. It reads the
due questions, puts an `Expire` command into the inboxes of their conversations, and sleeps until the next
expiry. It receives no messages: the expiry times of new questions are published on `EXPIRIES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.context import Behaviour, background
from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.protocol import Accepted, Journal
from ...runtime.journal.question import MOST_DUE, Due, Question
from ...runtime.message import Message
from ..log.inbox import Expire, body_of
from ..log.topics import EXPIRIES

LONGEST_SLEEP = 60.0
"""Maximum number of seconds between two readings of the wall clock, because a sleep can end late: the wall
clock may be set during it, and trio's clock stops while the machine is suspended. From the expiry until the
next reading, a run waits for an approval that can no longer be decided."""

BACKLOG_PAUSE = 0.2
"""Seconds between two pages of a long list, so that conversations can expire the approvals of the first one
before the next is read."""


def timers(
    journal: Journal, bus: EventBus, wall: WallClock, wake: Callable[[str], None]
) -> Behaviour[Message[Any]]:
    """Make the behaviour of the timers actor. `wake` is called with the conversations that have a new
    command."""

    async def watch() -> None:
        deadlines = _Deadlines(journal, wall, wake)
        with bus.subscribe(EXPIRIES) as new:
            while True:
                pause = await deadlines.expire_due()
                with trio.move_on_after(pause) as sleep:
                    # A new question that expires after this sleep needs no new reading.
                    while not new.take_missed() and await _until(new, wall) >= sleep.deadline:
                        pass

    return background(watch)


async def _until(new: Subscription, wall: WallClock) -> float:
    """Wait for a new question with an expiry. Return its expiry time on trio's clock."""
    expires = cast(float, await anext(new))
    return trio.current_time() + expires - wall()


@attrs.define(eq=False)
class _Deadlines:
    _journal: Journal
    _wall: WallClock
    _wake: Callable[[str], None]
    _delivered: frozenset[str] = frozenset()
    """The questions that were due at the last reading. Their conversations have an `Expire` command."""

    async def expire_due(self) -> float:
        """Deliver an `Expire` command for every question that is due, once.

        Returns the seconds until the next reading.
        """
        page = await self._journal.due(math.inf)
        is_full = len(page) >= MOST_DUE
        if is_full and self._delivered.issuperset(question.id for question in page):
            # No conversation settles the questions of this page, for instance because a newer version wrote
            # them. The page would hide all later questions, so read all pages.
            self._delivered, next_expiry = await self._expire_all()
        else:
            self._delivered, next_expiry = await self._expire(page)
            if is_full and next_expiry == math.inf:
                return BACKLOG_PAUSE
        return max(0.0, min(LONGEST_SLEEP, next_expiry - self._wall()))

    async def _expire_all(self) -> tuple[frozenset[str], float]:
        """As `_expire`, for all pending questions."""
        all_due: frozenset[str] = frozenset()
        next_expiry, cursor = math.inf, None
        while True:
            page = await self._journal.questions(limit=MOST_DUE, cursor=cursor)
            due, next_of_page = await self._expire(page.questions)
            all_due |= due
            next_expiry, cursor = min(next_expiry, next_of_page), page.next_cursor
            await trio.sleep(BACKLOG_PAUSE)
            if cursor is None:
                return all_due, next_expiry

    async def _expire(self, questions: Sequence[Question | Due]) -> tuple[frozenset[str], float]:
        """Deliver the commands for the questions that are due.

        Returns the ids of the due questions, and the earliest expiry time of the others (`math.inf` if none).
        """
        now = self._wall()
        due = [question for question in questions if question.expires is not None and question.expires <= now]
        for question in due:
            if question.id not in self._delivered:
                expire, key = Expire(question.id), f"expire/{question.id}"
                outcome = await self._journal.deliver(question.stream, key, expire.kind, body_of(expire))
                if isinstance(outcome, Accepted):
                    self._wake(question.stream)
        later = (each.expires for each in questions if each.expires is not None and each.expires > now)
        return frozenset(question.id for question in due), min(later, default=math.inf)
