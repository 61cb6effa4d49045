"""The timers actor: expires approvals.

Deadlines are stored with the questions in the journal; this actor keeps none. It reads the due questions,
puts an `Expire` command into the inboxes of their conversations, and sleeps until the next deadline. It
receives no messages: the deadlines of new questions are published on `EXPIRIES`.
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
from ...runtime.journal.protocol import MOST_DUE, Accepted, Due, Journal, Question
from ...runtime.message import Message
from ..log.inbox import Expire, body_of
from ..log.topics import EXPIRIES

LONGEST_SLEEP = 60.0
"""Seconds between two readings of the wall clock. It may be set during a sleep, and trio's clock stops while
the machine is suspended. A late expiry leaves a run waiting for an approval that cannot be decided any
more."""

BACKLOG_PAUSE = 0.2
"""Seconds that conversations get to expire approvals before the next page of a long list is read."""


def timers(
    journal: Journal, bus: EventBus, wall: WallClock, wake: Callable[[str], None]
) -> Behaviour[Message[Any]]:
    async def watch() -> None:
        deadlines = _Deadlines(journal, wall, wake)
        with bus.subscribe(EXPIRIES) as new:
            while True:
                pause = await deadlines.expire_due()
                with trio.move_on_after(pause) as sleep:
                    # Most new questions expire after the present ones: then no new reading is needed.
                    while not new.take_missed() and await _until(new, wall) >= sleep.deadline:
                        pass

    return background(watch)


async def _until(new: Subscription, wall: WallClock) -> float:
    """When the next new question expires, on trio's clock."""
    expires = cast(float, await anext(new))
    return trio.current_time() + expires - wall()


@attrs.define(eq=False)
class _Deadlines:
    _journal: Journal
    _wall: WallClock
    _wake: Callable[[str], None]
    _expired: frozenset[str] = frozenset()
    """The questions that were due at the last reading. Their conversations have the command."""

    async def expire_due(self) -> float:
        """Deliver an `Expire` command for every question that is due, once.

        Returns the seconds until the next reading.
        """
        first = await self._journal.due(math.inf)
        if len(first) >= MOST_DUE and self._expired.issuperset(question.id for question in first):
            # A whole page that no conversation settles, for instance because a newer version wrote them. It
            # would hide all later questions, so read all pages.
            self._expired, coming = await self._expire_all()
        else:
            self._expired, coming = await self._expire(first)
            if len(first) >= MOST_DUE and coming == math.inf:
                return BACKLOG_PAUSE
        return max(0.0, min(LONGEST_SLEEP, coming - self._wall()))

    async def _expire_all(self) -> tuple[frozenset[str], float]:
        """As `_expire`, for all pending questions."""
        expired: frozenset[str] = frozenset()
        coming, cursor = math.inf, None
        while True:
            page = await self._journal.questions(limit=MOST_DUE, cursor=cursor)
            due, soonest = await self._expire(page.questions)
            expired |= due
            coming, cursor = min(coming, soonest), page.next_cursor
            await trio.sleep(BACKLOG_PAUSE)
            if cursor is None:
                return expired, coming

    async def _expire(self, questions: Sequence[Question | Due]) -> tuple[frozenset[str], float]:
        """Deliver the commands for the questions that are due. Returns their ids, and the next deadline."""
        now = self._wall()
        due = [question for question in questions if question.expires is not None and question.expires <= now]
        for question in due:
            if question.id not in self._expired:
                expire, key = Expire(question.id), f"expire/{question.id}"
                outcome = await self._journal.deliver(question.stream, key, expire.kind, body_of(expire))
                if isinstance(outcome, Accepted):
                    self._wake(question.stream)
        coming = (each.expires for each in questions if each.expires is not None and each.expires > now)
        return frozenset(question.id for question in due), min(coming, default=math.inf)
