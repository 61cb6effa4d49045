"""Deletes conversations."""

from __future__ import annotations

from ...runtime.journal.protocol import Event, Fence, NewEvent
from ..log import events as e
from ..log.head import Status
from ..log.topics import EVERYTHING, reply_topic, topic
from ..nodes.services import Services


async def erase(services: Services, fence: Fence, last_seq: int, status: Status) -> None:
    """Delete a conversation; notify its followers, and the senders of commands without an answer."""
    id, bus = fence.stream, services.bus
    unanswered = await services.journal.delete(fence)
    services.tokens.forget(id)
    bus.publish(topic(id), NewEvent(e.CONVERSATION_DELETED, {}))
    deleted = Event(id, last_seq + 1, e.CONVERSATION_DELETED, services.wall(), {})
    bus.publish(EVERYTHING, (deleted, status))
    for key in unanswered:
        bus.publish(reply_topic(id, key), None)
