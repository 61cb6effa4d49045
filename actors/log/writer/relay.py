"""The events and deltas of other members, for the watchers of all conversations at this one.

The events of a conversation that is loaded here are published by its log. Those that another member commits
are read from the journal and published by `Relay`, on the bus of this process. Each event must come once, or
the watchers hear that some are missing (`Missed`), also when a conversation moves between members:

* `unload` remembers the last event of this member, and the next poll goes on from there.
* `load` publishes the events of other members before this member adds its own.
* The hints of two members can arrive in any order. If a conversation was created while there were watchers,
  all its events are published. For an older conversation, publishing starts at the first hint, so the
  watchers may lack earlier events (`_unsure`). A later hint about those events causes a `Missed`.
* A deleted conversation cannot be read: the last events before the deletion may not come, the deletion does,
  also if the conversation was created again before this member looked.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Collection
from typing import TypeVar

import attrs
import trio

from ....runtime.clock import WallClock
from ....runtime.event_bus import EventBus
from ....runtime.journal.errors import JournalError, StreamDamaged
from ....runtime.journal.protocol import Event, Journal, StreamMark
from ....runtime.journal.summary import Row
from ..fold import stored
from ..fold.head import Head
from ..words.deltas import AnyDelta
from ..words.events import CONVERSATION_DELETED
from .log import ConversationLog
from .topics import EVERYTHING, ConversationTopic, Missed, Published

PAGE = 16
"""Events that are read at a time."""
MOST_FOLLOWED = 1000
"""Maximum number of conversations whose last event is remembered."""
CLOCKS_DIFFER = 2.0
"""Seconds by which the clocks of members and store may differ, as far as the relay relies on them."""


@attrs.frozen
class _Last:
    """The last published event of a conversation."""

    seq: int
    head: Head
    """The state of the conversation when it was published."""
    created: float | None
    """When the stream was created; None: no row was read yet."""

    def is_before(self, row: Row) -> bool:
        """Whether the conversation was deleted and created again since."""
        return row.last_seq < self.seq or self.created not in (None, row.created)


@attrs.define(eq=False)
class Relay:
    _journal: Journal
    _bus: EventBus
    _wall: WallClock
    _loaded: Collection[str]
    """The conversations that are loaded in this process."""
    _others_exist: bool
    """Whether other members can exist."""
    _last: OrderedDict[str, _Last] = attrs.field(factory=OrderedDict)
    """Of conversations that are not loaded here, or whose log here is older than another member's events."""
    _unsure: OrderedDict[str, int] = attrs.field(factory=OrderedDict)
    """By conversation: the last of the events of which some may not have been published."""
    _complete_since: float = math.inf
    """All events of a conversation that was created later are remembered, or were not published. Infinite
    while there are no watchers."""
    _deleted: OrderedDict[str, None] = attrs.field(factory=OrderedDict)
    """Conversations whose deletion the watchers know."""
    _publishing: trio.Lock = attrs.field(factory=trio.Lock)

    def followed(self) -> Collection[str]:
        """The conversations whose last event is known, of which later ones are to be published."""
        if not self._is_watched:
            self._last.clear()
            self._unsure.clear()
            self._complete_since = math.inf
        return tuple(self._last)

    def is_behind(self, id: str, mark: StreamMark | None) -> bool:
        """Whether another member has added something to such a conversation, or deleted it."""
        last = self._last.get(id)
        return last is not None and (mark is None or mark.last_seq > last.seq)

    async def poll(self, id: str, after: int | None) -> None:
        """Publish what other members have added to a conversation. `after` is its last event before that;
        None: it is not known. Raises `JournalError`, after a `Missed` if no later poll can find them."""
        if self._is_watched:
            async with self._publishing:
                if after is not None and after < self._unsure.get(id, 0):
                    self._miss()
                if id not in self._loaded:
                    try:
                        await self._publish(id, after)
                    except JournalError:
                        if after is not None and id not in self._last:
                            self._miss()
                        raise

    async def load(self, log: ConversationLog) -> None:
        """Publish the rest of other members' events before those of this log. Raises `JournalError`."""
        id = log.state.id
        self._deleted.pop(id, None)
        if self._is_watched:
            async with self._publishing:
                if id in self._last:
                    await self._publish(id, None)
                else:
                    await self._publish(id, log.committed_seq)
                # Newer events than those of the log are of a member that has taken the conversation.
                if (last := self._last.get(id)) is not None and last.seq <= log.committed_seq:
                    del self._last[id]

    def unload(self, log: ConversationLog) -> None:
        """Later events are those of other members."""
        last = self._last.get(log.state.id)
        if self._is_watched and (last is None or last.seq < log.committed_seq):
            self._remember(log.state.id, _Last(log.committed_seq, log.state.head, None))

    def forget(self, id: str) -> bool:
        """The conversation was deleted at this member. Whether the watchers must be told: not if a look has
        found it first."""
        self._last.pop(id, None)
        is_news = id not in self._deleted
        _keep(self._deleted, id, None)
        return is_news

    async def pass_on(self, delta: AnyDelta) -> None:
        """Publish a delta of another member, in its place among the events. Raises `JournalError`."""
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
        is_watched = self._others_exist and EVERYTHING in self._bus.topics
        if is_watched and self._complete_since == math.inf:
            self._complete_since = self._wall() + CLOCKS_DIFFER
        return is_watched

    async def _publish(self, id: str, after: int | None) -> None:
        last = self._last.get(id)
        seq = after if last is None else last.seq
        was_deleted = id in self._deleted
        try:
            row = await self._journal.row(id)
            if row is None:
                self._publish_deletion(id)
                return
            if seq is None or (id in self._deleted and not was_deleted):
                return
            head = stored.head_of(row)
            if last is not None and last.is_before(row):
                self._publish_deletion(id)
                seq = 0
            elif last is None and seq:
                if row.created > self._complete_since:
                    seq = 0
                elif not _keep(self._unsure, id, seq):
                    self._miss()
            self._deleted.pop(id, None)
            await self._publish_after(id, _Last(seq, head, row.created))
        except StreamDamaged:
            self._last.pop(id, None)
            self._miss()

    async def _publish_after(self, id: str, last: _Last) -> None:
        """Publish the events after `last`, unless the conversation is deleted meanwhile."""
        while True:
            self._remember(id, last)
            events = await self._journal.events_since(id, last.seq, PAGE)
            if id in self._deleted:  # at this member
                self._last.pop(id, None)
                return
            if not events:
                return
            for event in events:
                self._bus.publish(EVERYTHING, Published(event, last.head.status, last.head.owner))
            last = attrs.evolve(last, seq=events[-1].seq)

    def _publish_deletion(self, id: str) -> None:
        if (last := self._last.pop(id, None)) is not None:
            event = Event(id, last.seq + 1, CONVERSATION_DELETED, self._wall(), {})
            self._bus.publish(EVERYTHING, Published(event, last.head.status, last.head.owner))
        elif id not in self._deleted:  # it may have been here before the watchers
            self._miss()
        _keep(self._deleted, id, None)

    def _miss(self) -> None:
        """Watchers reload, so that they will have all events until now."""
        self._unsure.clear()
        self._bus.publish(EVERYTHING, Missed())

    def _remember(self, id: str, last: _Last) -> None:
        if not _keep(self._last, id, last):
            self._complete_since = self._wall() + CLOCKS_DIFFER


T = TypeVar("T")


def _keep(kept: OrderedDict[str, T], id: str, value: T) -> bool:
    """Keep a value as the newest. Whether all earlier ones are kept, too."""
    kept[id] = value
    kept.move_to_end(id)
    if len(kept) <= MOST_FOLLOWED:
        return True
    kept.popitem(last=False)
    return False
