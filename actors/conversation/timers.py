"""The timers actor: tells conversations of approvals whose time is up.

The deadline itself is durable, on the question's row. This actor holds none: it looks for what is due, puts
a command into the conversation's inbox, and sleeps until the next one. Nothing is sent to it; the deadline of
a new question is published on `EXPIRIES`.
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
"""Seconds after which the clock on the wall is looked at again, for it may be set while we sleep, and the
other one stands still while the machine is suspended: what is due by then cannot be decided any more, and
its run waits for us."""

BACKLOG_PAUSE = 0.2
"""Seconds that conversations get to deal with what is due before the rest of a long list is looked at."""


def timers(
    journal: Journal, bus: EventBus, wall: WallClock, wake: Callable[[str], None]
) -> Behaviour[Message[Any]]:
    async def watch() -> None:
        deadlines = _Deadlines(journal, wall, wake)
        with bus.subscribe(EXPIRIES) as new:
            while True:
                pause = await deadlines.tell()
                with trio.move_on_after(pause) as sleep:
                    # A look reads many questions, and most that are put expire after all that are there.
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
    _told: frozenset[str] = frozenset()
    """What was due at the last look: told, and up to its conversation."""

    async def tell(self) -> float:
        """Put an ``expire`` command into the inbox of every conversation that has something due, once.

        Returns the seconds until there may be more to tell.
        """
        first = await self._journal.due(math.inf)
        if len(first) >= MOST_DUE and self._told.issuperset(question.id for question in first):
            # Nobody settles these, for instance because a newer version wrote their conversations. So what
            # is due after them is never among the first.
            self._told, coming = await self._tell_all()
        else:
            self._told, coming = await self._tell(first)
            if len(first) >= MOST_DUE and coming == math.inf:
                return BACKLOG_PAUSE
        return max(0.0, min(LONGEST_SLEEP, coming - self._wall()))

    async def _tell_all(self) -> tuple[frozenset[str], float]:
        """As `_tell`, of all open questions."""
        told: frozenset[str] = frozenset()
        coming, cursor = math.inf, None
        while True:
            page = await self._journal.questions(limit=MOST_DUE, cursor=cursor)
            due, soonest = await self._tell(page.questions)
            told |= due
            coming, cursor = min(coming, soonest), page.next_cursor
            await trio.sleep(BACKLOG_PAUSE)
            if cursor is None:
                return told, coming

    async def _tell(self, questions: Sequence[Question | Due]) -> tuple[frozenset[str], float]:
        """Those of the questions that are due, now told, and when the next one is."""
        now = self._wall()
        due = [question for question in questions if question.expires is not None and question.expires <= now]
        for question in due:
            if question.id not in self._told:
                expire, key = Expire(question.id), f"expire/{question.id}"
                outcome = await self._journal.deliver(question.stream, key, expire.kind, body_of(expire))
                if isinstance(outcome, Accepted):
                    self._wake(question.stream)
        coming = (each.expires for each in questions if each.expires is not None and each.expires > now)
        return frozenset(question.id for question in due), min(coming, default=math.inf)
