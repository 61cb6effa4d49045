"""Resumes the conversations that the last process left with open work."""

from __future__ import annotations

import trio

from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Event, NewEvent
from ..log.words.events import AT_REST
from ..log.writer.topics import ConversationTopic, Idle
from ..run.services import Services

AT_ONCE = 32
"""The number of conversations that are resumed at the same time."""

PATIENCE = 60.0
"""Seconds after which the next conversation is resumed even if an earlier one is still active."""


@trio.lowlevel.enable_ki_protection
async def resume_all(services: Services) -> None:
    """Wake every conversation that has open work, `AT_ONCE` at a time."""
    limiter = trio.CapacityLimiter(AT_ONCE)
    open_work = await until_available(services.logs.journal.open_work)
    async with trio.open_nursery() as nursery:
        for id in open_work:
            # Acquired here, for the task, so that there are never more tasks than that.
            await limiter.acquire_on_behalf_of(id)
            nursery.start_soon(_resume, services, id, limiter)


@trio.lowlevel.enable_ki_protection
async def _resume(services: Services, id: str, limiter: trio.CapacityLimiter) -> None:
    try:
        with services.logs.bus.subscribe(ConversationTopic(id)) as live, trio.move_on_after(PATIENCE):
            services.wake(id)
            async for item in live:
                if isinstance(item, Idle | NewEvent) or (isinstance(item, Event) and item.type in AT_REST):
                    break  # a `NewEvent` means that it was deleted
    finally:
        limiter.release_on_behalf_of(id)
