"""The work of other members on the same journal, as this process notices it.

Everything that this process waits for is in the journal: new commands of its conversations, replies, events,
deletions. When another member writes them, this actor publishes on the bus of this process that they may be
there, and those that wait read the journal. So they need not know which member works on a conversation.

==================  =====================================================================================
task                effect
==================  =====================================================================================
`_listen`           publishes on the bus that a stream may have changed, for each hint of the journal.
                    Hints may be lost: then the watchers of all conversations hear of a gap
`_poll`             every `POLL` seconds, does the same for what has changed since the last poll of all that a
                    sender or a watcher here waits for, which is one query; wakes conversations whose member
                    has died, and those that may need a token of this member
`_poll_members`     every `POLL_MEMBERS` seconds, counts the last hints of a member that has died as lost,
                    and tells the senders to whom no member can reply now (`silent_members.py`)
==================  =====================================================================================

The journal of a single process needs none of this, and the actor is not started.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, cast

import attrs
import trio

from ...runtime.context import Behaviour, Context
from ...runtime.journal.errors import JournalError
from ...runtime.journal.ownership import HINTS_LOST, Hint
from ...runtime.journal.protocol import StreamMark
from ...runtime.message import Message
from ..log.writer.topics import EVERYTHING, Changed, ConversationTopic, Missed, ReplyTopic, Unanswered
from ..run.services import Services
from .silent_members import SilentMembers
from .startup import AT_ONCE

POLL = 1.0
"""Seconds between two polls, and so the longest delay by a lost hint."""
LONGEST_PAUSE = 60.0
"""Maximum number of seconds between two attempts to do open work."""

POLL_MEMBERS = 0.5
"""Seconds between two polls of the other members."""
UNREACHED = 2.0
"""Seconds without a successful poll after which this member counts as cut off from the journal."""

logger = logging.getLogger(__name__)


@attrs.frozen
class _Try:
    """A conversation that was woken for its open work."""

    pause: float = POLL
    """Seconds until the next try, should the work stay."""
    due: float = -math.inf


@attrs.define(eq=False)
class OtherMembers:
    _services: Services
    _tries: dict[str, _Try] = attrs.field(factory=dict)
    _marks: dict[str, StreamMark | None] = attrs.field(factory=dict)
    """Those at the last poll, of the conversations that were waited for; None: it did not exist."""
    _living: frozenset[str] = frozenset()
    """The members that were alive at the last poll, without those that have announced their end since."""
    _silent: SilentMembers = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: SilentMembers(self._services.logs.journal.member), True),
    )

    def actor(self) -> Behaviour[Message[Any]]:
        async def behaviour(ctx: Context[Message[Any]]) -> None:
            ctx.start_soon(self._listen)
            ctx.start_soon(self._poll)
            ctx.start_soon(self._poll_members)
            await ctx.serve(_nothing)

        return behaviour

    async def _listen(self) -> None:
        with self._services.logs.journal.watch() as hints:
            async for each in hints:
                hint = cast(Hint, each)
                if hints.take_missed() or hint == HINTS_LOST:
                    self._services.logs.bus.publish(EVERYTHING, Missed())
                if not hint.stream:
                    self._living -= {hint.member}
                    continue
                try:
                    if self._services.tokens.has_any(hint.stream):
                        self._services.wake(hint.stream)
                    await self._tell_watchers(hint.stream, hint.after)
                except JournalError as error:
                    logger.warning("could not look at a change by another node: %s", error)

    async def _poll(self) -> None:
        services, level = self._services, logging.WARNING
        while True:
            await trio.sleep(POLL)
            try:
                await self._release()
                await self._resume()
                await self._tell_news()
                for each in services.tokens.conversations:
                    await self._use_tokens(each)
                level = logging.WARNING
            except JournalError as error:
                logger.log(level, "could not look for changes by other nodes: %s", error)
                level = logging.DEBUG  # one line is enough for all polls

    async def _poll_members(self) -> None:
        reached = trio.current_time()
        while True:
            await trio.sleep(POLL_MEMBERS)
            with (
                suppress(JournalError),  # `_poll` logs it
                trio.move_on_at(max(trio.current_time() + POLL_MEMBERS, reached + UNREACHED)),
            ):
                living = await self._services.logs.journal.living()
                self._notice_deaths(frozenset(living))
                await self._tell_senders(self._silent.poll(living))
                reached = trio.current_time()
            if trio.current_time() - reached >= UNREACHED:
                for topic in self._awaited():
                    self._services.logs.bus.publish(topic, Unanswered("journal"))

    def _awaited(self) -> Sequence[ReplyTopic]:
        """The topics of the commands whose senders wait here."""
        return [topic for topic in self._services.logs.bus.topics if isinstance(topic, ReplyTopic)]

    async def _tell_senders(self, silent: Collection[str]) -> None:
        """Tell the senders of commands that only a silent member could answer now."""
        awaited = self._awaited() if silent else ()
        if not awaited:
            return
        owners = await self._services.logs.journal.owners({topic.conversation for topic in awaited})
        for topic in awaited:
            if owners.get(topic.conversation) in silent:
                self._services.logs.bus.publish(topic, Unanswered("member"))

    def _notice_deaths(self, living: frozenset[str]) -> None:
        """A member that dies between a commit and its hint does not tell the others of the events."""
        if self._living - living:
            self._services.logs.bus.publish(EVERYTHING, Missed())
        self._living = living

    async def _release(self) -> None:
        """Give up the streams of activations that ended early. `_resume` finds those with open commands."""
        unreleased = self._services.logs.unreleased
        while unreleased:
            await self._services.logs.journal.release(unreleased[0])
            unreleased.pop(0)

    async def _resume(self) -> None:
        """Wake the conversations with work that this member may do, at most `AT_ONCE` in one poll. A
        conversation whose work stays is woken again after ever longer pauses."""
        services, now = self._services, trio.current_time()
        if not services.logs.lease.owns:
            return  # it could not claim them
        work = await services.logs.journal.open_work(but=services.logs.live)
        self._tries = {id: self._tries.get(id, _Try()) for id in work}
        due = [id for id, each in self._tries.items() if each.due <= now]
        for id in sorted(due, key=lambda id: self._tries[id].due)[:AT_ONCE]:
            pause = self._tries[id].pause
            self._tries[id] = _Try(min(2 * pause, LONGEST_PAUSE), now + pause)
            services.wake(id)

    async def _use_tokens(self, id: str) -> None:
        """Wake a conversation that may wait for a token of this member. Forget the tokens of one whose run
        has ended on another member."""
        services, topics = self._services, self._services.logs.bus.topics
        # Not those of commands that are being delivered.
        delivered = [key for key in services.tokens.commands(id) if ReplyTopic(id, key) not in topics]
        if id in services.logs.live:
            return
        inbox = await services.logs.journal.inbox(id, skip_damaged=True)
        row = await services.logs.journal.row(id)
        if row is not None and row.summary is not None and row.summary.rests:
            if services.tokens.rested_at(id) != row.last_seq:
                services.wake(id)
        elif not inbox and (row is None or row.summary is None or not row.summary.open):
            services.tokens.drop(id, delivered)

    async def _tell_news(self) -> None:
        """Publish what has changed since the last poll. Of a conversation that is waited for since then, that
        it may have changed."""
        logs, awaited = self._services.logs, self._awaited()
        ids = {id for topic in logs.bus.topics if (id := _conversation(topic))}
        ids.update(logs.relay.followed())
        self._marks = {id: mark for id, mark in self._marks.items() if id in ids}
        if not ids:
            return
        marks = await logs.journal.marks(ids, awaited)
        for topic in awaited:
            if topic in marks.answered:  # told again until the sender has read it
                logs.bus.publish(topic, Changed())
        for id in ids:
            mark = marks.streams.get(id)
            if id not in self._marks or self._marks[id] != mark:
                await self._tell_watchers(id, None)
            elif logs.relay.is_behind(id, mark):
                await logs.relay.poll(id, None)
            self._marks[id] = mark

    async def _tell_watchers(self, id: str, after: int | None) -> None:
        """Publish that another member may have changed a conversation. `after` is its last event before
        the change; None: it is not known."""
        services, topics = self._services, self._services.logs.bus.topics
        if id in services.logs.live:
            services.wake(id)
        for topic in topics:
            if _conversation(topic) == id:
                services.logs.bus.publish(topic, Changed())
        await services.logs.relay.poll(id, after)


def _conversation(topic: object) -> str | None:
    return topic.conversation if isinstance(topic, ConversationTopic | ReplyTopic) else None


async def _nothing(_: Message[Any]) -> None:
    await trio.lowlevel.checkpoint()
