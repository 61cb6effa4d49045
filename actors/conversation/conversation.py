"""The conversation: a virtual actor, addressed by its id.

Its only message is `Wake`; its commands are in its inbox in the journal. A command is stored before the wake
is sent, and stays in the inbox until the commit that holds its effects. So wakes carry no data, and may be
lost or merged, as long as one follows the last command.

An activation takes one of four paths:

    ==========================  =========================================================================
    the stream                  the activation
    ==========================  =========================================================================
    is owned by another member  ends at once
    can be read                 executes commands until it has been idle for `IDLE` seconds without an
                                active branch (`_serve`)
    crashed again and again     fails its run first (`poisoned`), then as above
    is damaged                  refuses all commands except `Delete` (`_serve_damaged`)
    does not exist any more     ends as soon as there is a stream with its id (`_restart_if_recreated`)
    ==========================  =========================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import attrs

from ...runtime.context import Behaviour, Context
from ...runtime.journal.errors import StreamDamaged, UnknownStream
from ...runtime.journal.ownership import Owned
from ...runtime.journal.protocol import Commit
from ...runtime.message import Message
from ..common import errors
from ..log.fold import stored
from ..log.fold.head import Head
from ..log.words.inbox import Delete
from ..log.writer.log import ConversationLog
from ..log.writer.topics import ConversationTopic, Idle, ReplyTopic
from ..run.services import Services
from .commands import Commands
from .deletion import erase
from .result import refusal

logger = logging.getLogger(__name__)

IDLE = 1.0
"""Seconds without a command after which a conversation without active branches is unloaded."""


@attrs.frozen
class Wake(Message["Wake"]):
    """A hint that the inbox may hold commands."""


def conversation(services: Services) -> Callable[[str], Behaviour[Wake]]:
    """The behaviour of a conversation, by its id."""

    def by_id(id: str) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            await _serve(ctx, services, id, None)

        return behaviour

    return by_id


def poisoned(services: Services) -> Callable[[str, Exception], Behaviour[Wake]]:
    """The behaviour of a conversation that crashed again and again: it fails its run, then serves."""

    def by_id(id: str, error: Exception) -> Behaviour[Wake]:
        async def behaviour(ctx: Context[Wake]) -> None:
            try:
                await _serve(ctx, services, id, error)
            except StreamDamaged as damage:  # the damage happened while the conversation was in memory
                await _serve_damaged(ctx, services, id, damage)

        return behaviour

    return by_id


async def _serve(ctx: Context[Wake], services: Services, id: str, crash: Exception | None) -> None:
    logs = services.logs
    if logs.lease.can_be_lost and logs.active_runs.draining.is_set():
        return  # other members go on
    try:
        log = await logs.open(id, start_soon=ctx.start_soon, progress=ctx.progress)
    except UnknownStream:  # deleted before this wake, or about to be created again
        await ctx.serve(partial(_restart_if_recreated, ctx, services, id), idle_timeout=IDLE)
        return
    except StreamDamaged as damage:
        await _serve_damaged(ctx, services, id, damage)
        return
    if log is None:  # the member that owns it finds the commands itself
        logs.bus.publish(ConversationTopic(id), Idle())
        return
    commands = Commands(ctx, log, services)
    is_released = False
    try:
        await logs.relay.load(log)
        logs.live[id] = log  # without a checkpoint in between, so that no event is published twice
        if crash is not None:
            await commands.give_up(crash)

        async def poll(wake: Wake) -> None:
            if commands.deleted:
                await _restart_if_recreated(ctx, services, id, wake)
            else:
                await commands.poll()

        await ctx.serve(poll, idle_timeout=IDLE, busy=commands.busy)
        await log.branches.wait_inactive()  # at a shutdown, calls in flight get the grace period
        await log.flush()
        await logs.extract(log)
        _unload(services, log, commands)
        if not await logs.journal.release(log.tenure.fence, commands.left):
            services.wake(id)
        is_released = True
    finally:
        _unload(services, log, commands)
        logs.rest(log.state, in_order=is_released and not commands.deleted)
        if logs.lease.can_be_lost and not is_released:
            logs.unreleased.append(log.tenure.fence)


def _unload(services: Services, log: ConversationLog, commands: Commands) -> None:
    log.close()
    if services.logs.live.pop(log.state.id, None) is not None and not commands.deleted:
        services.logs.relay.unload(log)


async def _serve_damaged(ctx: Context[Wake], services: Services, id: str, damage: StreamDamaged) -> None:
    """Refuse the commands of a conversation that cannot be read. Its events stay until it is deleted."""
    logger.error("conversation %s is broken: %s", id, damage.why)
    journal = services.logs.journal
    error = errors.broken(damage.why)
    reply = refusal("conversation_broken", error.message, error.hint)
    deleted = False

    async def poll(wake: Wake) -> None:
        nonlocal deleted
        row = await journal.row(id)
        if row is None or deleted:
            await _restart_if_recreated(ctx, services, id, wake)
            return
        fence = await journal.claim(id)
        if isinstance(fence, Owned):
            ctx.stop()
            return
        inbox = await stored.inbox(journal, id, skip_damaged=True)
        if any(isinstance(each.command, Delete) for each in inbox):
            head = Head(owner=row.summary.owner if row.summary else "")
            await erase(services, fence, row.last_seq, head)
            deleted = True
            return
        keys = [command.key for command in inbox]
        services.tokens.drop(id, keys)
        await journal.save(Commit(fence, row.last_seq, refuse=dict.fromkeys(keys, reply)))
        for key in keys:
            services.logs.bus.publish(ReplyTopic(id, key), reply)
        services.logs.bus.publish(ConversationTopic(id), Idle())

    await ctx.serve(poll, idle_timeout=IDLE)


async def _restart_if_recreated(ctx: Context[Wake], services: Services, id: str, _: Wake) -> None:
    """End this activation, and wake the next, if the deleted conversation has been created again."""
    if await services.logs.journal.row(id) is not None:
        ctx.stop()
        services.wake(id)
