"""A publish-subscribe bus that never blocks the publisher, and the lifecycle events of actors.

Each subscription has a buffer of its own. `publish` appends the event to the buffer of every subscription of
the topic and returns. A subscriber that falls behind loses its own oldest events; other subscribers are not
affected. `missed` counts the lost events, which lie between the last event received and the next one. A
conversation watcher then reads the gap from the journal.

Events are not kept for later subscribers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio

ACTORS = "actors"
"""The topic of the lifecycle events `Started`, `Crashed`, `Restarting` and `Stopped`."""


@attrs.frozen
class Started:
    """The actor has begun to serve."""

    actor: str
    incarnation: int
    """The number of the incarnation: 1, then 1 more after each restart."""


@attrs.frozen
class Crashed:
    """The actor has crashed."""

    actor: str
    error: Exception


@attrs.frozen
class Restarting:
    """A crashed actor is about to be restarted."""

    actor: str
    delay: float
    """Seconds until the restart."""


@attrs.frozen
class Stopped:
    """The actor has ended without an error: it was stopped, was idle or had finished."""

    actor: str


class Subscription:
    """An async iterator over the events of a topic, oldest first, for one task.

    A full buffer drops its oldest event. To detect such gaps, call `take_missed` with each event: the missed
    events come before it. After the end of the subscription, the iterator still yields the buffered events.
    """

    def __init__(self, buffer: int, wants: Callable[[Any], bool]) -> None:
        if buffer < 1:
            raise ValueError(f"the buffer of a subscription must be at least 1, not {buffer}")
        self._buffer = buffer
        self._wants = wants
        self._events: deque[object] = deque()
        self._arrived: trio.Event | None = None
        self._ended = False
        self.missed = 0
        """The number of events dropped since the last `take_missed`."""

    @property
    def ended(self) -> bool:
        """Whether the subscription has ended."""
        return self._ended

    def take_missed(self) -> int:
        """Return `missed` and reset it to zero."""
        missed, self.missed = self.missed, 0
        return missed

    def skip(self) -> None:
        """Drop the buffered events. They do not count as missed."""
        self._events.clear()

    def end(self) -> None:
        """End the subscription: no further event is received."""
        self._ended = True
        self._wake()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> object:
        if self._events:
            await trio.lowlevel.checkpoint()
        while not self._events:
            if self._ended:
                raise StopAsyncIteration
            self._arrived = trio.Event()
            await self._arrived.wait()
        return self._events.popleft()

    def _offer(self, event: object) -> None:
        if self._ended or not self._wants(event):
            return
        if len(self._events) == self._buffer:
            self._events.popleft()
            self.missed += 1
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._arrived is not None:
            self._arrived.set()


class EventBus:
    """Delivers published events to the subscriptions of their topic."""

    def __init__(self) -> None:
        self._by_topic: dict[Hashable, dict[Subscription, None]] = {}
        self._closed = False

    @property
    def topics(self) -> Collection[Hashable]:
        """The topics that have subscriptions; None stands for the subscriptions to all topics."""
        return tuple(self._by_topic)

    def publish(self, topic: Hashable, event: object) -> None:
        """Append the event to the buffer of every subscription of the topic, without waiting."""
        for key in (topic, None):
            for subscription in self._by_topic.get(key, ()):
                subscription._offer(event)

    @contextmanager
    def subscribe(
        self, topic: Hashable, buffer: int = 256, wants: Callable[[Any], bool] = lambda event: True
    ) -> Iterator[Subscription]:
        """Subscribe to a topic (None: to all topics) for the length of the block.

        The subscription receives only events for which `wants` returns true, and keeps at most `buffer` of
        them for the reader. Raises ValueError if `buffer` is below 1.
        """
        subscription = Subscription(buffer, wants)
        if self._closed:
            subscription.end()
        self._by_topic.setdefault(topic, {})[subscription] = None
        try:
            yield subscription
        finally:
            subscription.end()
            subscribers = self._by_topic[topic]
            del subscribers[subscription]
            if not subscribers:
                del self._by_topic[topic]

    def close(self) -> None:
        """End all subscriptions, including later ones. Call this after the last `publish`."""
        self._closed = True
        for subscribers in self._by_topic.values():
            for subscription in subscribers:
                subscription.end()
