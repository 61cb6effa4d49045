"""The events and deltas of other nodes, for the watchers of all conversations at this one.

The events of a conversation that is loaded here are published by its log. Those that another node commits are
read from the journal and published by `Relay`, on the bus of this process. When a conversation moves between
nodes, each event must still come once: `load` publishes the rest of the other node's events before this node
adds its own, and `unload` remembers the last of this node's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

import attrs
import trio

from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus
from ...runtime.journal.errors import JournalError, StreamDamaged
from ...runtime.journal.protocol import Event, Journal
from . import stored
from .deltas import AnyDelta
from .events import CONVERSATION_DELETED
from .head import Head
from .log import ConversationLog
from .topics import EVERYTHING, ConversationTopic, Missed, Published

PAGE = 16
"""Events that are read at a time."""
MOST_FOLLOWED = 1000
"""Maximum number of conversations whose last event is remembered."""


@attrs.frozen
class _Last:
    """The last published event of a conversation."""

    seq: int
    head: Head
    """The state of the conversation when it was published."""


@attrs.define(eq=False)
class Relay:
    _journal: Journal
    _bus: EventBus
    _wall: WallClock
    _loaded: Collection[str]
    """The conversations that are loaded in this process."""
    _others_exist: bool
    """Whether other nodes can exist."""
    _last: OrderedDict[str, _Last] = attrs.field(factory=OrderedDict)
    """Of conversations that are not loaded here, as far as it is known."""
    _publishing: trio.Lock = attrs.field(factory=trio.Lock)

    async def look_again(self) -> None:
        """Publish what other nodes have added to the conversations whose last event is known. Raises
        `JournalError`."""
        if not self._is_watched:
            self._last.clear()
        for id in tuple(self._last):
            await self.look(id, None)

    async def look(self, id: str, after: int | None) -> None:
        """Publish what other nodes have added to a conversation. `after` is its last event before that; None:
        it is not known. Raises `JournalError`, after a `Missed` if no later look can find the events."""
        if self._is_watched:
            async with self._publishing:
                if id not in self._loaded:
                    try:
                        await self._publish(id, after)
                    except JournalError:
                        if after is not None and id not in self._last:
                            self._bus.publish(EVERYTHING, Missed())
                        raise

    async def load(self, log: ConversationLog) -> None:
        """Publish the rest of other nodes' events before those of this log. Raises `JournalError`."""
        id = log.state.id
        if self._is_watched:
            async with self._publishing:
                if id in self._last:
                    await self._publish(id, None)
                    self._last.pop(id, None)

    def unload(self, log: ConversationLog) -> None:
        """Later events are those of other nodes."""
        if self._is_watched:
            self._remember(log.state.id, _Last(log.committed_seq, log.state.head))

    def forget(self, id: str) -> None:
        """The conversation was deleted at this node, and its watchers know."""
        self._last.pop(id, None)

    async def pass_on(self, delta: AnyDelta) -> None:
        """Publish a delta of another node, in its place among the events. Raises `JournalError`."""
        id = delta.conversation
        if id in self._loaded:
            return  # it is late
        self._bus.publish(ConversationTopic(id), delta)
        if not self._is_watched:
            return
        async with self._publishing:
            last = self._last.get(id)
            if last is not None and last.seq < delta.after and id not in self._loaded:
                await self._publish(id, None)
                last = self._last.get(id)
            if last is not None and last.seq == delta.after:
                self._bus.publish(EVERYTHING, Published(delta, last.head.status, last.head.owner))

    @property
    def _is_watched(self) -> bool:
        return self._others_exist and EVERYTHING in self._bus.topics

    async def _publish(self, id: str, after: int | None) -> None:
        last = self._last.get(id)
        seq = after if last is None else last.seq
        if seq is None:
            return
        try:
            row = await self._journal.row(id)
            if row is None:
                self._publish_deletion(id)
                return
            head = stored.head_of(row)
            while True:
                self._remember(id, _Last(seq, head))
                events = await self._journal.events_since(id, seq, PAGE)
                if not events:
                    return
                for event in events:
                    self._bus.publish(EVERYTHING, Published(event, head.status, head.owner))
                seq = events[-1].seq
        except StreamDamaged:
            self._last.pop(id, None)

    def _publish_deletion(self, id: str) -> None:
        if (last := self._last.pop(id, None)) is not None:
            event = Event(id, last.seq + 1, CONVERSATION_DELETED, self._wall(), {})
            self._bus.publish(EVERYTHING, Published(event, last.head.status, last.head.owner))

    def _remember(self, id: str, last: _Last) -> None:
        self._last[id] = last
        self._last.move_to_end(id)
        if len(self._last) > MOST_FOLLOWED:
            self._last.popitem(last=False)
