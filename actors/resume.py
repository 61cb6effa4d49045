"""What start-up does with work that the last process left open."""

from __future__ import annotations

from functools import partial

import trio

from stopgo.actors import events as e
from stopgo.actors.commands import Idle
from stopgo.actors.log import topic
from stopgo.actors.services import Services
from stopgo.runtime.journal.protocol import Event, NewEvent

AT_ONCE = 32
"""Conversations that are resumed at the same time."""

PATIENCE = 60.0
"""Seconds after which the next conversation is resumed although an earlier one still moves."""

_SETTLED = frozenset({e.RUN_WAITING, e.RUN_AUTH_REQUIRED, e.RUN_FINISHED, e.RUN_FAILED, e.RUN_CANCELLED})


@trio.lowlevel.enable_ki_protection
async def resume_all(services: Services) -> None:
    """Wake every conversation that has something to do, `AT_ONCE` at a time."""
    limiter = trio.CapacityLimiter(AT_ONCE)
    open_work = await services.journal.open_work()
    async with trio.open_nursery() as nursery:
        for id in open_work:
            token = object()
            await limiter.acquire_on_behalf_of(token)
            nursery.start_soon(_resume, services, id, partial(limiter.release_on_behalf_of, token))


@trio.lowlevel.enable_ki_protection
async def _resume(services: Services, id: str, done: partial[None]) -> None:
    try:
        with services.bus.subscribe(topic(id)) as live, trio.move_on_after(PATIENCE):
            services.wake(id)
            async for item in live:
                if isinstance(item, Idle | NewEvent) or (isinstance(item, Event) and item.type in _SETTLED):
                    break  # a `NewEvent` says that it was deleted
    finally:
        done()
