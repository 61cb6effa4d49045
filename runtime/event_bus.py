"""Fan-out that never blocks a publisher, and the events of an actor's life."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
import trio

ACTORS = "actors"
"""The topic of the lifecycle events below."""


@attrs.frozen
class Started:
    """The actor serves."""

    actor: str
    incarnation: int
    """From 1; grows with every restart."""


@attrs.frozen
class Crashed:
    """The actor died of an error."""

    actor: str
    error: Exception


@attrs.frozen
class Restarting:
    """The actor will be started again."""

    actor: str
    delay: float
    """Seconds from now."""


@attrs.frozen
class Stopped:
    """The actor ended without an error: it was asked to, was idle, or had finished."""

    actor: str


class Subscription:
    """An async iterator over the events of a topic, oldest first.

    Beyond its buffer the oldest events give way, so whatever was missed lies before
    the next event: take `take_missed` together with each event to know of gaps.
    After the subscription has ended the buffered rest is still iterated.
    """

    def __init__(self, buffer: int, wants: Callable[[Any], bool]) -> None:
        if buffer < 1:
            raise ValueError("a subscription needs a buffer of at least 1")
        self._buffer = buffer
        self._wants = wants
        self._events: deque[object] = deque()
        self._arrived: trio.Event | None = None
        self._ended = False
        self.missed = 0
        """Events dropped since the last `take_missed`."""

    @property
    def ended(self) -> bool:
        """Nothing more will be received."""
        return self._ended

    def take_missed(self) -> int:
        """Return `missed` and start counting from zero again."""
        missed, self.missed = self.missed, 0
        return missed

    def skip(self) -> None:
        """Drop the events that wait for the reader."""
        self._events.clear()

    def end(self) -> None:
        """Receive nothing more."""
        self._ended = True
        self._wake()

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> object:
        """One task iterates."""
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
    """Publishes to whoever subscribed to a topic. Publishing costs nothing for other topics."""

    def __init__(self) -> None:
        self._by_topic: dict[str | None, dict[Subscription, None]] = {}
        self._closed = False

    def publish(self, topic: str, event: object) -> None:
        """Hand an event to every subscriber of the topic, at once and without waiting."""
        for key in (topic, None):
            for subscription in self._by_topic.get(key, ()):
                subscription._offer(event)

    @contextmanager
    def subscribe(
        self, topic: str | None, buffer: int = 256, wants: Callable[[Any], bool] = lambda event: True
    ) -> Iterator[Subscription]:
        """Receive what is published on `topic` (None: on every topic) during the block, as far as `wants`
        returns true for it.

        At most `buffer` events wait for the reader. Raises ValueError when it is below 1.
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
        """End every subscription, also those to come: nobody publishes any more."""
        self._closed = True
        for subscribers in self._by_topic.values():
            for subscription in subscribers:
                subscription.end()
