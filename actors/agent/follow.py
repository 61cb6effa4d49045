"""Readers of a conversation: of its events, stored and live, and of the reply to a command."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Literal, cast

import trio

from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.errors import JournalError, JournalUnavailable, UnknownCommand, UnknownStream
from ...runtime.journal.protocol import Event, Journal, Json, NewEvent
from ..log.words.deltas import AnyDelta, ModelDelta, ToolProgress
from ..log.words.events import CONVERSATION_DELETED
from ..log.writer.topics import Changed, ConversationTopic, Unanswered

PROMPT = 1.0
"""Seconds that a journal that may be away has to return a reply."""
PAGE = 16
"""Events per page. A follower whose reader is slow keeps that many in memory, and each may hold the whole
result of a tool."""


async def follow(
    journal: Journal, bus: EventBus, wall: WallClock, conversation: str, after: int, *, deltas: bool = False
) -> AsyncGenerator[Event | AnyDelta, None]:
    """Yield all events after `after`, in seq order without gaps: first the stored ones, then live ones.

    With `deltas`, also yield deltas, each in its place among the events; a late or slow reader misses some.

    The generator ends when the agent has stopped (a slow reader finds the remaining events in the journal),
    and after ``conversation.deleted``. That event is not stored; its seq follows the last one, and its time
    is when the deletion was noticed: perhaps after the conversation was created again, which another member
    may do between two reads. Close the generator (`contextlib.aclosing`) when leaving it early.
    """
    cursor, created = after, None
    early: AnyDelta | None = None  # a delta that arrived before the events that it follows
    # The subscription drops live events of a slow reader, which are then read from the journal.
    with bus.subscribe(ConversationTopic(conversation)) as live:
        while (read := await _read(journal, conversation, cursor, live)) is not None:
            page, now = read
            created = now if created is None else created
            own = page if now in (None, created) else ()  # not those of the conversation with this id now
            for event in own:
                cursor = event.seq
                yield event
            if now is None or now != created:  # deleted before the subscription, or by another member
                yield _deleted(conversation, cursor, wall())
                return
            if len(page) == PAGE:
                continue
            if early is not None and early.after == cursor:
                yield early
            early = None
            async for item in live:
                match _place(item, cursor, deltas=deltas, missed=live.take_missed() > 0):
                    case "gap":
                        early = item if deltas and isinstance(item, ModelDelta | ToolProgress) else None
                        break
                    case "deleted":
                        yield _deleted(conversation, cursor, wall())
                        return
                    case "next":
                        cursor = item.seq if isinstance(item, Event) else cursor
                        yield cast("Event | AnyDelta", item)
            else:
                return


async def _read(
    journal: Journal, conversation: str, cursor: int, live: Subscription
) -> tuple[Sequence[Event], float | None] | None:
    """The next stored events, and the time at which the conversation was created, or None if it is gone.
    Returns None if the journal is closed."""
    try:
        page = await journal.events_since(conversation, cursor, PAGE)
        row = await journal.row(conversation)
        return page, None if row is None else row.created
    except JournalError:
        if live.ended:  # the agent has stopped, and then closed the journal
            return None
        raise


def _place(
    item: object, cursor: int, *, deltas: bool, missed: bool
) -> Literal["next", "passed", "gap", "deleted"]:
    """The place of a published item for a reader that has all events up to `cursor`, and may want `deltas`.
    "passed": the reader does not get it. "gap": events are missing before it, so the reader must continue
    from the journal."""
    match item:
        case NewEvent():
            return "deleted"
        case Changed():
            return "gap"
        case Event(seq=seq):
            after = seq - 1
        case ModelDelta(after=after) | ToolProgress(after=after):
            pass  # a delta from before an event that was read from the journal has "passed"
        case _:
            return "gap" if missed else "passed"
    if after > cursor:
        return "gap"
    return "next" if after == cursor and (deltas or isinstance(item, Event)) else "passed"


def _deleted(conversation: str, last_seq: int, at: float) -> Event:
    return Event(conversation, last_seq + 1, CONVERSATION_DELETED, at, {})


class Deleted(Exception):
    """The conversation was deleted before the reply."""


async def reply(
    replies: Subscription, journal: Journal, conversation: str, key: str
) -> Json | Unanswered | None:
    """Wait for the reply to a command that was delivered, or until no member can answer it. None if the
    subscription ends first.

    `replies` is a subscription to its `ReplyTopic`, made before the delivery.

    Raises:
        Deleted
        JournalError
    """
    async for found in replies:
        if isinstance(found, Changed | Unanswered):
            news, is_reached = found, False
            limit = PROMPT if isinstance(news, Unanswered) else math.inf
            with suppress(JournalUnavailable), trio.move_on_after(limit):
                try:
                    found = await journal.stored_reply(conversation, key)
                except (UnknownStream, UnknownCommand) as error:
                    raise Deleted from error
                is_reached = True
            if not is_reached or found is None:
                # The journal that was away may be reached again by now.
                if isinstance(news, Unanswered) and is_reached == (news.lost == "member"):
                    return news
                continue  # there will be more news
        if found is None:
            raise Deleted
        return cast(Json, found)
    return None
