"""Watching all conversations at once, live only."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias, cast

import attrs

from ...runtime.event_bus import Subscription
from ...runtime.journal.protocol import Event
from ..log.deltas import MODEL_DELTA, TOOL_PROGRESS, AnyDelta, ModelDelta
from ..log.head import Status

BUFFER = 1024
"""Events that wait for a watcher; when more arrive, the oldest ones are lost to it."""


@attrs.frozen
class Announced:
    """An event of some conversation."""

    event: Event
    """What happened."""
    status: Status
    """Of the conversation, after the commit that the event is a part of."""


@attrs.frozen
class Gap:
    """Events were lost here, because the watcher was slow. Read what you show again."""


Watched: TypeAlias = Announced | AnyDelta | Gap
Published: TypeAlias = tuple[Event | AnyDelta, Status]
"""On the topic `EVERYTHING`."""


@attrs.frozen
class Filter:
    """The events that a watcher wants. An empty collection wants all."""

    statuses: Collection[str] = ()
    types: Collection[str] = ()
    """``approval.*`` stands for all types that begin with ``approval.``."""
    conversations: Collection[str] = ()
    deltas: bool = False
    """Also model replies while they arrive, and the progress of tool calls."""

    def wants(self, published: Published) -> bool:
        item, status = published
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
    """An async iterator over what happens in all conversations. It ends with the agent."""

    _live: Subscription
    """To the topic `EVERYTHING`."""

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Watched:
        item, status = cast(Published, await anext(self._live))
        if self._live.take_missed():
            self._live.skip()  # older than what the watcher reads now
            return Gap()
        return Announced(item, status) if isinstance(item, Event) else item
