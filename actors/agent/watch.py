"""Watches all conversations at once: live events only, none from the journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import TypeAlias, cast

import attrs

from ...runtime.event_bus import Subscription
from ...runtime.journal.protocol import Event
from ..gate.halt import HaltState
from ..log.fold.head import Status
from ..log.words.deltas import MODEL_DELTA, TOOL_PROGRESS, AnyDelta, ModelDelta
from ..log.writer.topics import Missed, Published

BUFFER = 1024
"""Events that are kept for a slow watcher. When more arrive, the oldest are dropped."""


@attrs.frozen
class Announced:
    """An event of a conversation."""

    event: Event
    """The event."""
    status: Status
    """The conversation's status after the commit of the event."""


@attrs.frozen
class Gap:
    """Events may be missing here: the watcher was slow, or the news of another process was lost. Reload the
    data that you show."""


Watched: TypeAlias = Announced | AnyDelta | HaltState | Gap
"""A `HaltState` tells that the agent was halted, or that a halt has ended."""


@attrs.frozen
class Filter:
    """The events that a watcher wants. An empty collection means all."""

    statuses: Collection[str] = ()
    types: Collection[str] = ()
    """``approval.*`` stands for all types that begin with ``approval.``."""
    conversations: Collection[str] = ()
    deltas: bool = False
    """Whether to include deltas: pieces of model replies, and the progress of tool calls."""

    def wants(self, published: Published) -> bool:
        item, status, _ = published
        match item:
            case Event(stream=conversation, type=type):
                pass
            case _ if not self.deltas:
                return False
            case ModelDelta(conversation=conversation):
                type = MODEL_DELTA
            case _:
                conversation, type = item.conversation, TOOL_PROGRESS
        return (
            (not self.statuses or status in self.statuses)
            and (not self.conversations or conversation in self.conversations)
            and (not self.types or type in self.types or f"{type.partition('.')[0]}.*" in self.types)
        )


@attrs.frozen(eq=False)
class Watch:
    """An async iterator over the events of all conversations. It ends when the agent stops."""

    _live: Subscription
    """A subscription to the topic `EVERYTHING`."""
    _sees: Callable[[Published], Awaitable[bool]] | None = None
    """Whether the watcher may see an item; None: every item."""

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Watched:
        while True:
            published = cast(Published | HaltState | Missed, await anext(self._live))
            if self._live.take_missed() or isinstance(published, Missed):
                self._live.skip()  # the buffered events are older than the data that the watcher reloads
                return Gap()
            if isinstance(published, HaltState):
                return published
            if self._sees is None or await self._sees(published):
                item = published.item
                return Announced(item, published.status) if isinstance(item, Event) else item
