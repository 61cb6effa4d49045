"""Following a conversation from outside: its events, and the reply to a command. Readers only."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Literal, cast

from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus, Subscription
from ...runtime.journal.errors import JournalError
from ...runtime.journal.protocol import Event, Journal, Json, NewEvent
from ..log.deltas import AnyDelta, ModelDelta, ToolProgress
from ..log.events import CONVERSATION_DELETED
from ..log.topics import topic

PAGE = 16
"""Events that are read at a time. A follower that is not read from keeps as many in memory, and each may be
as long as the result of a tool."""


async def follow(
    journal: Journal, bus: EventBus, wall: WallClock, conversation: str, after: int, *, deltas: bool = False
) -> AsyncGenerator[Event | AnyDelta, None]:
    """Yield all events after `after`, in seq order without gaps: first what is stored, then as they come.

    With `deltas` also what models say and how far calls are, each piece in its place among the events; who
    comes late or reads slowly misses some. Ends after ``conversation.deleted``, which follows the last seq
    without being stored; its time is when it was noticed. Ends when the agent has stopped, too; what a slow
    reader has not got by then is stored. Close it (`contextlib.aclosing`) when leaving early.
    """
    cursor = after
    # A slow reader loses live events only, and reads them again from the journal.
    with bus.subscribe(topic(conversation)) as live:
        while (read := await _read(journal, conversation, cursor, live)) is not None:
            page, gone = read
            for event in page:
                cursor = event.seq
                yield event
            if len(page) == PAGE:
                continue
            if gone:  # deleted before we subscribed
                yield _deleted(conversation, cursor, wall())
                return
            async for item in live:
                match _place(item, cursor, missed=live.take_missed() > 0):
                    case "gap":
                        break
                    case "deleted":
                        yield _deleted(conversation, cursor, wall())
                        return
                    case "next" if isinstance(item, Event):
                        cursor = item.seq
                        yield item
                    case "next" if deltas:
                        yield cast(AnyDelta, item)
            else:
                return


async def _read(
    journal: Journal, conversation: str, cursor: int, live: Subscription
) -> tuple[Sequence[Event], bool] | None:
    """The next stored events, and whether the conversation is gone. None: the journal is closed."""
    try:
        page = await journal.events_since(conversation, cursor, PAGE)
        return page, not page and await journal.row(conversation) is None
    except JournalError:
        if live.ended:  # it was closed behind the agent
            return None
        raise


def _place(item: object, cursor: int, *, missed: bool) -> Literal["next", "passed", "gap", "deleted"]:
    """Where a published item belongs, for a reader who has all events up to `cursor`. "gap": the reader has
    to go back to the journal first."""
    match item:
        case NewEvent():
            return "deleted"
        case Event(seq=seq):
            after = seq - 1
        case ModelDelta(after=after) | ToolProgress(after=after):
            pass  # one of before an event that was read in the journal would come out of place
        case _:
            return "gap" if missed else "passed"
    if after > cursor:
        return "gap"
    return "next" if after == cursor else "passed"


def _deleted(conversation: str, last_seq: int, at: float) -> Event:
    return Event(conversation, last_seq + 1, CONVERSATION_DELETED, at, {})


class Deleted(Exception):
    """The conversation was deleted before there was a reply."""


async def reply(replies: Subscription) -> Json | None:
    """Wait for the reply to a command, on a subscription to its `reply_topic` made before it was delivered.
    None: the subscription was ended first.

    Raises:
        Deleted
    """
    async for found in replies:
        if found is None:
            raise Deleted
        return cast(Json, found)
    return None
