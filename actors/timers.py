"""The timers actor: tells conversations of approvals whose time is up.

The deadline itself is durable, on the question's row. This actor holds none: it looks for what is due, puts
a command into the conversation's inbox, and sleeps until the next one. Nothing is sent to it; a question
with a deadline is published on `EXPIRIES`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import trio

from stopgo.runtime.clock import WallClock
from stopgo.runtime.context import Behaviour, background
from stopgo.runtime.events import EventBus
from stopgo.runtime.journal.protocol import MOST_DUE, Accepted, Journal
from stopgo.runtime.message import Message

EXPIRIES = "expiries"
"""The topic that every new question with a deadline is published on."""

LONGEST_SLEEP = 3600.0
"""Seconds after which the clock on the wall is looked at again, for it may be set while we sleep."""

BACKLOG_PAUSE = 0.2
"""Seconds that conversations get to deal with what is due before the rest of a long list is looked at."""


def timers(
    journal: Journal, bus: EventBus, wall: WallClock, wake: Callable[[str], None]
) -> Behaviour[Message[Any]]:
    async def watch() -> None:
        with bus.subscribe(EXPIRIES, buffer=1) as new:
            while True:
                backlog = await deliver_due(journal, wall, wake)
                pause = BACKLOG_PAUSE if backlog else await _until_next(journal, wall)
                with trio.move_on_after(pause):
                    await anext(new)

    return background(watch)


async def deliver_due(journal: Journal, wall: WallClock, wake: Callable[[str], None]) -> bool:
    """Put an ``expire`` command into the inbox of every conversation that has something due.

    True when there may be more than was looked at.
    """
    due = await journal.due(wall())
    for question in due:
        body = {"question": question.id}
        outcome = await journal.deliver(question.stream, f"expire/{question.id}", "expire", body)
        if isinstance(outcome, Accepted):
            wake(question.stream)
    return len(due) >= MOST_DUE


async def _until_next(journal: Journal, wall: WallClock) -> float:
    """Seconds to sleep. What is due was told already, and is up to its conversation."""
    now = wall()
    coming = [question.expires - now for question in await journal.due(math.inf) if question.expires]
    return min([LONGEST_SLEEP, *(seconds for seconds in coming if seconds > 0)])
