"""What start-up does with work that the last process left open."""

from __future__ import annotations

import trio

from ...runtime.journal.protocol import Event, NewEvent
from ..log.events import AT_REST
from ..log.topics import Idle, topic
from ..nodes.services import Services

AT_ONCE = 32
"""Conversations that are resumed at the same time."""

PATIENCE = 60.0
"""Seconds after which the next conversation is resumed although an earlier one still moves."""


@trio.lowlevel.enable_ki_protection
async def resume_all(services: Services) -> None:
    """Wake every conversation that has something to do, `AT_ONCE` at a time."""
    places = trio.Semaphore(AT_ONCE)
    open_work = await services.journal.open_work()
    async with trio.open_nursery() as nursery:
        for id in open_work:
            await places.acquire()
            nursery.start_soon(_resume, services, id, places)


@trio.lowlevel.enable_ki_protection
async def _resume(services: Services, id: str, places: trio.Semaphore) -> None:
    try:
        with services.bus.subscribe(topic(id)) as live, trio.move_on_after(PATIENCE):
            services.wake(id)
            async for item in live:
                if isinstance(item, Idle | NewEvent) or (isinstance(item, Event) and item.type in AT_REST):
                    break  # a `NewEvent` says that it was deleted
    finally:
        places.release()
