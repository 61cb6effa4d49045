"""The notifier: tells the channels of the agent file what the rows of the outbox say.

    commit with rows -> `Notifier._expand`: a delivery for each channel that wants it -> rows are dropped
                     -> `_ChannelQueue`, one for each channel: an attempt after the other, until it arrives

Several members share a journal, and one of them delivers: that with the claim (`delivery_store.py`). The
others look now and then whether it is still alive.

* **A row is dropped after its deliveries are stored.** A crash in between makes the same deliveries again,
  with the same ids.
* **A channel that fails keeps no other waiting**: each has a task and connections of its own. While it fails,
  one delivery is tried at a time, with growing pauses.
* **A newer notification about the same replaces older ones** that have not arrived, and one that is no longer
  true when it is its turn is not sent (`notice_text.py`).
* Runs never wait for any of it.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import attrs
import trio

from ...config.sections.agent_config import AgentConfig
from ...config.sections.notify import ChannelConfig, NoticeKind
from ...config.text.wildcards import is_named
from ...runtime.clock import WallClock
from ...runtime.context import Behaviour, background
from ...runtime.errors import is_fatal
from ...runtime.event_bus import EventBus
from ...runtime.journal.errors import JournalBroken, JournalError, JournalUnavailable
from ...runtime.journal.outbox import OutboxRow
from ...runtime.journal.protocol import Event, Journal
from ...runtime.journal.question import Question
from ...runtime.message import Message
from ..common.bounded_post import NotDelivered
from ..common.stored_json import readable, to_json
from ..gate.halt import Halts
from ..log.writer.observer import Observer
from ..log.writer.topics import NOTICES
from ..servers.health import PartHealth
from .delivery import (
    ChannelDelivery,
    about_given_up,
    delivery_of,
    first_kind,
    next_reminder,
    of_request,
    pause,
)
from .delivery_store import KIND, ClaimLost, DeliveryStore, read_deliveries
from .notice_rows import Notice
from .notice_text import Found, approval_fields, said
from .webhook import GONE, Channel, Webhook

POLL = 0.5
"""Seconds between two looks for rows that other members have written."""
LONGEST_SLEEP = 60.0
BATCH = 100
"""Rows that are expanded in one commit."""
PAGE = 16
LOOKBACK = 20 * PAGE
"""Events that are searched for the tool of a call whose outcome is unknown, and how many at once."""
MOST_RETRY_AFTER = 3600.0
BETWEEN_GIVEN_UP = 3600.0
"""Seconds between two notifications that a channel fails."""
CLOSING = 1.0

logger = logging.getLogger("stopgo.notify")

T = TypeVar("T")

OpenChannel: TypeAlias = Callable[[ChannelConfig], Channel]
_Told: TypeAlias = tuple[Notice, float, Question | None]
"""A row, its time, and the question that it is about."""


@attrs.define(eq=False)
class Notifier:
    _config: AgentConfig
    _journal: Journal
    _bus: EventBus
    _wall: WallClock
    _halts: Halts
    observer: Observer
    _is_shared: bool
    """Whether other members can exist."""
    _open_channel: OpenChannel = Webhook.of
    _store: DeliveryStore = attrs.field(
        init=False, default=attrs.Factory(lambda self: DeliveryStore(self._journal), takes_self=True)
    )
    _queues: Mapping[str, _ChannelQueue] = attrs.field(factory=dict)
    _purged: float = -math.inf
    """On trio's clock."""

    @property
    def channels(self) -> Sequence[ChannelConfig]:
        return () if self._config.notify is None else self._config.notify.channels

    def actor(self) -> Behaviour[Message[Any]]:
        return background(self._run)

    async def _run(self) -> None:
        channels = [self._open_channel(each) for each in self.channels]
        self._queues = {each.config.name: _ChannelQueue(self, each) for each in channels}
        try:
            while True:
                try:
                    if await self._store.claim():
                        await self._deliver()
                except JournalUnavailable as error:
                    logger.debug("the journal cannot be reached: %s", error)
                except Exception as error:  # crashes would end the agent
                    if is_fatal(error):
                        raise
                    logger.exception("the notifier has failed, and begins anew in %g s", LONGEST_SLEEP)
                    await trio.sleep(LONGEST_SLEEP)
                finally:
                    self._store.is_claimed = False
                await trio.sleep(POLL)
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                for each in channels:
                    await each.aclose()

    async def _deliver(self) -> None:
        """Until the claim is lost, or the journal cannot be reached."""
        async with trio.open_nursery() as nursery:

            async def until_lost(task: Callable[[], Awaitable[None]]) -> None:
                try:
                    await task()
                except (ClaimLost, JournalUnavailable):
                    nursery.cancel_scope.cancel()

            for queue in self._queues.values():
                nursery.start_soon(until_lost, queue.run)
            nursery.start_soon(until_lost, self._watch_outbox)

    # ------------------------------------------------------------------- rows

    async def _watch_outbox(self) -> None:
        with self._bus.subscribe(NOTICES, buffer=1) as notices:
            while True:
                while rows := await self._journal.outbox(BATCH):
                    await self._expand(rows)
                more = False
                if trio.current_time() >= self._purged + LONGEST_SLEEP:
                    await self._give_up_removed()
                    await self._give_up_oldest()
                    more = await self._store.purge(self._wall())
                    self._purged = -math.inf if more else trio.current_time()
                with trio.move_on_after(POLL if self._is_shared or more else LONGEST_SLEEP):
                    await anext(notices)
                await self._store.check()

    async def _give_up_removed(self) -> None:
        """Give up the deliveries to channels that the agent file does not have. If other members can exist,
        one may have a newer file with the channel: they are left to it until they are too old."""
        now = self._wall()
        pending = (each for each in self._store.all.values() if each.state == "pending")
        unknown = (each for each in pending if each.channel not in self._queues)
        removed = [each for each in unknown if not self._is_shared or each.ends <= now]
        await self._store.write(each.ended("given_up", "there is no such channel", now) for each in removed)

    async def _give_up_oldest(self) -> None:
        """Give up deliveries that are too many."""
        lost = await self._store.give_up_oldest(self._wall())
        for each in lost:
            self.observer.notified(each.channel, "given_up")
        for channel, count in Counter(each.channel for each in lost).items():
            logger.warning("%d notifications to channel %r were given up: too many waited", count, channel)
        for each in {each.channel: each for each in lost}.values():
            await self._store.write(self._telling_others(each))
        for queue in self._queues.values():
            queue.wake()

    async def _expand(self, rows: Sequence[OutboxRow]) -> None:
        """Store the deliveries of some rows, then drop the rows."""
        told: list[_Told] = []
        for row in rows:
            notice = readable(row.body, Notice)
            if notice is None:
                logger.error("a row of the outbox cannot be read and is dropped: %d", row.number)
                continue
            question, _ = await self._question(notice.approval)
            told.append((notice, row.at, question))
        await self._store.write(self._all_made(told))
        await self._journal.drop_outbox([row.number for row in rows])
        for queue in self._queues.values():
            queue.wake()

    def _all_made(self, told: Iterable[_Told]) -> Iterator[ChannelDelivery]:
        """The deliveries of some rows, and those that they replace."""
        changed: dict[str, ChannelDelivery] = {}
        for notice, at, question in told:
            for channel in self.channels:
                for each in self._made(notice, at, channel, question, changed):
                    if each.id not in self._store.all:
                        changed |= self._replaced(each, changed)
                        changed[each.id] = each
        yield from changed.values()

    def _made(
        self,
        notice: Notice,
        at: float,
        channel: ChannelConfig,
        question: Question | None,
        changed: Mapping[str, ChannelDelivery],
    ) -> Sequence[ChannelDelivery]:
        """The deliveries of a row to a channel. `changed` are those of earlier rows of the same commit."""
        if not matches(channel, question):
            return ()
        if notice.kind == "approval.requested":
            expires = None if question is None else question.expires
            return of_request(notice, at, channel, expires, self._escalates(at, channel, question))
        if not channel.wants(notice.kind):
            return ()
        found, early = delivery_of(notice, channel.name, at), "it was over before its time"
        is_untold = self._is_untold(found, first_kind(channel), changed)
        return [found.ended("overtaken", early, self._wall()) if is_untold else found]

    def _is_untold(
        self, new: ChannelDelivery, first: NoticeKind | None, changed: Mapping[str, ChannelDelivery]
    ) -> bool:
        """Whether the time has not come to tell the channel of the approval, and nothing else has told it:
        an escalation may come before its `after`."""
        waiting = self._waiting(new, changed) if first else ()
        if not any(each.kind == first and not each.attempts for each in waiting):
            return False
        about = (each for each in self._store.all.values() if each.subject == new.subject)
        return not any(each.attempts for each in about if each.channel == new.channel)

    def _escalates(self, at: float, channel: ChannelConfig, question: Question | None) -> float | None:
        """The time at which an approval of this time is escalated to a channel: the earliest of any."""
        return min(
            (
                at + each.escalate_after
                for each in self.channels
                if each.escalate_after and channel.name in each.escalate_to and matches(each, question)
            ),
            default=None,
        )

    def _waiting(
        self, new: ChannelDelivery, changed: Mapping[str, ChannelDelivery]
    ) -> Sequence[ChannelDelivery]:
        """The pending deliveries to the same channel about the same."""
        stored = {each.id: each for each in self._store.waiting(new.channel, new.subject)}
        return [
            each
            for each in {**stored, **changed}.values()
            if (each.channel, each.subject, each.state) == (new.channel, new.subject, "pending")
        ]

    def _replaced(
        self, new: ChannelDelivery, changed: Mapping[str, ChannelDelivery]
    ) -> Mapping[str, ChannelDelivery]:
        """What a delivery replaces: the pending ones about the same, of earlier events."""
        if new.kind in ("approval.expiring", "approval.escalated"):  # made with the request
            return {}
        now, older = self._wall(), self._waiting(new, changed)
        return {each.id: each.ended("overtaken", f"by {new.kind}", now) for each in older}

    # ------------------------------------------------------------------- texts

    async def text_of(self, delivery: ChannelDelivery) -> Mapping[str, Any] | None:
        """What is sent now; None: it is no longer true."""
        found = Found(halt=self._halts.latest)
        if delivery.stream:
            exists = await _unless_damaged(self._exists(delivery.stream), True)
            question, is_damaged = await self._question(delivery.approval)
            if is_damaged and not delivery.attempts:
                logger.error("a notification lacks its approval %s, which cannot be read", delivery.approval)
            found = attrs.evolve(found, exists=exists, question=question, is_damaged=is_damaged)
            if exists and delivery.seq and not delivery.approval:
                read = self._journal.events_since(delivery.stream, delivery.seq - 1, 1)
                events = await _unless_damaged(read, ())
                event = events[0] if events else None
                sent = await _unless_damaged(self._intent(event), None) if event else None
                found = attrs.evolve(found, event=event, intent=sent)
        return said(delivery, found, self._config.name, self._config.server.public_url)

    async def _intent(self, event: Event) -> Event | None:
        """Of an unknown outcome: the intent of the attempt, if it is among the events shortly before."""
        before, oldest = event.seq - 1, event.seq - 1 - LOOKBACK
        while event.type == "tool.unknown" and before > max(0, oldest):
            after = max(0, before - PAGE)
            for each in reversed(await self._journal.events_since(event.stream, after, before - after)):
                if each.type == "tool.started" and each.body.get("key") == event.body.get("key"):
                    return each
            before = after
        return None

    async def _exists(self, stream: str) -> bool:
        return await self._journal.row(stream) is not None

    async def _question(self, id: str) -> tuple[Question | None, bool]:
        """The question, if there is one, and whether it cannot be read."""

        async def read() -> tuple[Question | None, bool]:
            return await self._journal.question(id), False

        return await _unless_damaged(read(), (None, True)) if id else (None, False)

    # ------------------------------------------------------------------- ends

    async def end(self, delivery: ChannelDelivery) -> None:
        """Store the end of a delivery, and the reminder that follows it. The other channels are told of a
        delivery that was given up."""
        new = [delivery, *await self._reminder_after(delivery)]
        if delivery.state == "given_up":
            self.observer.notified(delivery.channel, "given_up")
            logger.warning("a notification to channel %r was given up: %s", delivery.channel, delivery.why)
            new += self._telling_others(delivery)
        await self._store.write(new)
        for each in new[1:]:
            self._queues[each.channel].wake()

    async def _reminder_after(self, ended: ChannelDelivery) -> Sequence[ChannelDelivery]:
        channel = self._queues[ended.channel].config
        if channel.remind_every is None or not ended.approval:
            return ()
        question, _ = await self._question(ended.approval)
        found = next_reminder(ended, channel, question, self._wall())
        return () if found is None or found.id in self._store.all else (found,)

    def _telling_others(self, lost: ChannelDelivery) -> Sequence[ChannelDelivery]:
        kind, now = "notification.given_up", self._wall()
        told = (each for each in self._store.all.values() if each.other == lost.channel)
        if lost.kind == kind or any(each.at > now - BETWEEN_GIVEN_UP for each in told):
            return ()
        names = [each.name for each in self.channels if each.wants(kind) and each.name != lost.channel]
        return [about_given_up(lost, name, now) for name in names]

    # ---------------------------------------------------------------- for people

    async def test(self, channel: str) -> str:
        """Send a test to a channel, once. Returns its id. Raises `LookupError`, `NotDelivered`."""
        config = next((each for each in self.channels if each.name == channel), None)
        if config is None:
            raise LookupError(channel)
        id, now = f"msg_test_{secrets.token_hex(8)}", self._wall()
        opened = self._open_channel(config)
        try:
            data = {"agent": self._config.name, "text": "This is a test."}
            await opened.send(id, "notification.test", now, data, now)
        finally:
            with trio.move_on_after(CLOSING, shield=True):
                await opened.aclose()
        return id

    async def list(self) -> Sequence[ChannelDelivery]:
        """All deliveries that are kept, newest event first."""
        found = read_deliveries(await self._journal.notes(KIND))
        return sorted(found.values(), key=lambda each: (each.at, each.id), reverse=True)

    async def about(self, approval: str) -> Sequence[ChannelDelivery]:
        """The deliveries about an approval that are kept, oldest first. The member that delivers reads
        nothing for it."""
        if not self.channels:
            return ()
        store = self._store
        kept = store.all if store.is_claimed else read_deliveries(await self._journal.notes(KIND))
        found = (each for each in kept.values() if each.approval == approval)
        return sorted(found, key=lambda each: (each.settled or each.next, each.id))

    async def retry(self, id: str) -> ChannelDelivery:
        """Send one that was given up after all, with the same id. One that is in another state is returned as
        it is. Raises `LookupError`."""
        found = read_deliveries(await self._journal.notes(KIND))[id]
        if found.state != "given_up":
            return found
        again = found.again(self._wall())
        # At any revision: a member that delivers writes too often for one that has read all deliveries.
        await self._journal.write_notes(KIND, {id: to_json(again)})
        self._bus.publish(NOTICES, None)
        return again

    def health(self) -> tuple[PartHealth, ...]:
        """The state of the channels, as this process knows them."""
        return tuple(queue.health for queue in self._queues.values())

    def pending(self) -> Mapping[str, int]:
        """The number of deliveries that wait, by channel; zero if another member delivers."""
        counted = Counter(each.channel for each in self._store.all.values() if each.state == "pending")
        return {each.name: counted[each.name] if self._store.is_claimed else 0 for each in self.channels}

    @property
    def now(self) -> float:
        return self._wall()

    @property
    def store(self) -> DeliveryStore:
        return self._store


def matches(channel: ChannelConfig, question: Question | None) -> bool:
    """Whether the filters of a channel match what a notification is about; None: no approval."""
    fields = {} if question is None else approval_fields(question)
    wanted = {name: getattr(channel, name) for name in ("server", "tool", "node", "rule")}
    return all(
        name in fields and is_named(fields[name], pattern)
        for name, pattern in wanted.items()
        if pattern is not None
    )


def _was_set_back(delivery: ChannelDelivery, wait: float) -> bool:
    """Whether the clock was set back since this time was chosen: such a wait is never chosen."""
    return wait > MOST_RETRY_AFTER and (delivery.attempts > 0 or delivery.next == delivery.at)


async def _unless_damaged(read: Awaitable[T], damaged: T) -> T:
    """What is read; `damaged` if its rows cannot be read."""
    try:
        return await read
    except (JournalUnavailable, JournalBroken):
        raise
    except JournalError:
        return damaged


@attrs.define(eq=False)
class _ChannelQueue:
    """Delivers to one channel, one attempt at a time."""

    _notifier: Notifier
    _channel: Channel
    _failures: int = 0
    """Failures in a row."""
    _not_before: float = 0.0
    """No attempt before: the channel fails, or has asked to wait."""
    _was_reached: bool = False
    _error: str = ""
    """Of the last failure; empty after a success."""
    _is_gone: bool = False
    """The channel wants no more, until the agent is started again or a person retries."""
    _changed: trio.Event = attrs.field(factory=trio.Event)

    @property
    def health(self) -> PartHealth:
        state = "unreachable" if self._error else "reached" if self._was_reached else "unknown"
        return PartHealth(self.config.name, state, self._error or None)

    @property
    def config(self) -> ChannelConfig:
        return self._channel.config

    def wake(self) -> None:
        """There is a new delivery."""
        self._changed.set()

    async def run(self) -> None:
        store, name = self._notifier.store, self.config.name
        self._is_gone, self._not_before = False, 0.0  # a person may have asked for a retry
        while True:
            self._changed = trio.Event()
            first = store.first(name)
            due = math.inf if first is None else max(first.next, self._not_before)
            wait = due - self._notifier.now
            if first is not None and (wait <= 0 or _was_set_back(first, wait)):
                await self._attempt(first)
                continue
            with trio.move_on_after(min(wait, LONGEST_SLEEP)):
                await self._changed.wait()

    async def _attempt(self, delivery: ChannelDelivery) -> None:
        notifier, now = self._notifier, self._notifier.now
        if self._is_gone or delivery.ends <= now:
            why = "the channel answered 410" if self._is_gone else delivery.why or "it came too late"
            await notifier.end(delivery.ended("given_up", why, now))
            return
        data = await notifier.text_of(delivery)
        if data is None:
            await notifier.end(delivery.ended("overtaken", "no longer true", now))
            return
        tried = delivery.tried(now)
        if not await notifier.store.replace(delivery, tried):
            return  # overtaken in the meantime
        try:
            await self._channel.send(delivery.id, delivery.kind, delivery.at, data, now)
        except NotDelivered as error:
            await self._failed(tried, error)
        except Exception:  # a fault of a channel must not stop the others
            logger.exception("a notification to channel %r has failed", delivery.channel)
            await self._failed(tried, NotDelivered("an internal error; see the log", again=True))
        else:
            self._failures, self._not_before, self._error, self._was_reached = 0, 0.0, "", True
            notifier.observer.notified(tried.channel, "arrived")
            await notifier.end(tried.ended("arrived", "", notifier.now))

    async def _failed(self, delivery: ChannelDelivery, error: NotDelivered) -> None:
        notifier, now = self._notifier, self._notifier.now
        self._failures += 1
        self._error = str(error)
        notifier.observer.notified(delivery.channel, "failed")
        self._not_before = now + max(pause(self._failures), min(error.retry_after or 0.0, MOST_RETRY_AFTER))
        self._is_gone = error.status == GONE
        if self._failures == 1:
            logger.warning("a notification to channel %r has failed: %s", delivery.channel, error)
        latest = notifier.store.all[delivery.id]
        if latest.state == "pending":
            await notifier.end(delivery.failed(str(error), now))
