"""The deltas that members pass to each other, because deltas are not in the journal.

A member says which conversations are watched there; the members that work on them send their deltas. The
gateway has the connections (`gateway/fleet`).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import attrs

from ...runtime.event_bus import Subscription
from ..log.words.deltas import AnyDelta
from ..log.writer.logs import Logs
from ..log.writer.topics import DELTAS, EVERY_DELTA, ConversationTopic

BUFFER = 1000
"""Deltas that wait for a slow member, before the oldest are dropped."""


@attrs.frozen
class WantedDeltas:
    """The conversations whose deltas a member wants."""

    conversations: frozenset[str] = frozenset()
    all: bool = False
    """Whether it wants those of all conversations."""

    def covers(self, conversation: str) -> bool:
        return self.all or conversation in self.conversations


@attrs.frozen(eq=False)
class DeltaExchange:
    _logs: Logs

    def wanted(self) -> WantedDeltas:
        """The deltas that watchers at this member want, and that other members may have."""
        topics, live = self._logs.bus.topics, self._logs.live
        watched = (topic.conversation for topic in topics if isinstance(topic, ConversationTopic))
        return WantedDeltas(frozenset(id for id in watched if id not in live), EVERY_DELTA in topics)

    def deltas(self, wants: Callable[[str], bool]) -> AbstractContextManager[Subscription]:
        """Subscribe to the deltas of conversations at this member. `wants` takes the id of a conversation."""
        return self._logs.bus.subscribe(DELTAS, BUFFER, lambda delta: wants(delta.conversation))

    async def take(self, delta: AnyDelta) -> None:
        """Pass a delta of another member to the watchers at this member. Raises `JournalError`."""
        await self._logs.relay.pass_on(delta)
