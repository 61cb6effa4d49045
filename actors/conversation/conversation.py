"""The conversation: one virtual actor by id, `Wake` is its whole protocol, its work is in its inbox.

Commands are durable before the conversation hears of them, and stay in the inbox until the commit that
holds what they caused. So a wake says nothing but "look", and any number of them may be lost or folded into
one as long as one follows the last command.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import attrs

from ...runtime.context import Behaviour, Context
from ...runtime.journal.errors import StreamDamaged, UnknownStream
from ...runtime.message import Message
from ..common import errors
from ..log import stored
from ..log.inbox import Delete
from ..log.log import open_log
from ..log.topics import reply_topic, topic
from ..nodes.services import Services
from .commands import Commands, Idle, erase
from .result import refusal

logger = logging.getLogger(__name__)

IDLE = 1.0
"""Seconds without a command after which a conversation whose run does not move leaves memory."""


@attrs.frozen
class Wake(Message["Wake"]):
    """There may be something in your inbox."""


def conversation(services: Services) -> Callable[[str], Behaviour[Wake]]:
    """The behaviour of a conversation, by its id."""

    def by_id(id: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            await _live(ctx, services, id, None)

        return behaviour

    return by_id


def poisoned(services: Services) -> Callable[[str, Exception], Behaviour[Wake]]:
    """The behaviour of a conversation that crashed again and again: it gives its run up and lives on."""

    def by_id(id: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            try:
                await _live(ctx, services, id, error)
            except StreamDamaged as damage:  # it came while the conversation was in memory
                await _live_broken(ctx, services, id, damage)

        return behaviour

    return by_id


async def _live(ctx: Context[Wake], services: Services, id: str, crash: Exception | None) -> None:
    journal = services.journal
    try:
        log = await open_log(
            journal,
            id,
            services.owner,
            bus=services.bus,
            pulse=services.pulse,
            flusher=services.flusher,
            wall=services.wall,
            start_soon=ctx.start_soon,
            progress=ctx.progress,
        )
    except UnknownStream:  # deleted: whoever woke us comes too late, or makes it anew
        await ctx.serve(partial(_look_again, ctx, services, id), idle_timeout=IDLE)
        return
    except StreamDamaged as damage:
        await _live_broken(ctx, services, id, damage)
        return
    commands = Commands(ctx, log, services)
    services.live[id] = log
    try:
        if crash is not None:
            await commands.give_up(crash)

        async def look(wake: Wake) -> None:
            if commands.deleted:
                await _look_again(ctx, services, id, wake)
            else:
                await commands.look()

        await ctx.serve(look, idle_timeout=IDLE, busy=commands.busy)
        await log.quiet()  # a shutdown: what is in flight gets the grace
        await log.flush()
    finally:
        log.close()
        services.live.pop(id, None)


async def _live_broken(ctx: Context[Wake], services: Services, id: str, damage: StreamDamaged) -> None:
    """Answer everybody who waits for a conversation that cannot be read. It stays as it is until it
    is deleted."""
    logger.error("conversation %s is broken: %s", id, damage.why)
    journal = services.journal
    error = errors.broken(damage.why)
    told = refusal("conversation_broken", error.message, error.hint)
    deleted = False

    async def look(wake: Wake) -> None:
        nonlocal deleted
        row = await journal.row(id)
        if row is None or deleted:
            await _look_again(ctx, services, id, wake)
            return
        fence = await journal.claim(id, services.owner)
        inbox = await stored.inbox(journal, id, skip_damaged=True)
        if any(isinstance(each.command, Delete) for each in inbox):
            await erase(services, fence, row.last_seq, "active")
            deleted = True
            return
        keys = [command.key for command in inbox]
        services.tokens.drop(id, keys)
        await journal.save(fence, row.last_seq, forget=keys)
        for key in keys:
            services.bus.publish(reply_topic(id, key), told)
        services.bus.publish(topic(id), Idle())

    await ctx.serve(look, idle_timeout=IDLE)


async def _look_again(ctx: Context[Wake], services: Services, id: str, _: Wake) -> None:
    """What is left to do for a conversation that is gone: end, should there be one of its id again."""
    if await services.journal.row(id) is not None:
        ctx.stop()
        services.wake(id)
