"""Deletes conversations."""

from __future__ import annotations

from ...runtime.journal.ownership import Fence
from ...runtime.journal.protocol import Event, NewEvent
from ..log.fold.head import Head
from ..log.words import events as e
from ..log.writer.topics import EVERYTHING, NOTICES, ConversationTopic, Published, ReplyTopic
from ..run.services import Services


async def erase(services: Services, fence: Fence, last_seq: int, head: Head) -> None:
    """Delete a conversation; notify its followers, and the senders of commands without an answer."""
    id, bus = fence.stream, services.logs.bus
    told = services.notices.of_deletion(id)
    unanswered = await services.logs.journal.delete(fence, told)
    if told:
        bus.publish(NOTICES, None)
    services.tokens.forget(id)
    is_news = services.logs.relay.forget(id)
    bus.publish(ConversationTopic(id), NewEvent(e.CONVERSATION_DELETED, {}))
    deleted = Event(id, last_seq + 1, e.CONVERSATION_DELETED, services.logs.wall(), {})
    if is_news:
        bus.publish(EVERYTHING, Published(deleted, head.status, head.owner))
    for key in unanswered:
        bus.publish(ReplyTopic(id, key), None)
