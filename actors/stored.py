"""Reading a conversation back from the journal."""

from __future__ import annotations

from stopgo.actors.state import Conversation
from stopgo.runtime.journal.protocol import Journal

PAGE = 500
"""Events read at a time."""


class BrokenConversation(Exception):
    """The events of a conversation do not follow from one another."""


async def read(journal: Journal, conversation: str, known: Conversation | None = None) -> Conversation:
    """Fold a conversation from the journal; from where `known` stands, if it is given.

    Raises:
        BrokenConversation
    """
    state = known or Conversation(conversation)
    while True:
        page = await journal.events_since(conversation, state.last_seq, PAGE)
        for event in page:
            try:
                state.apply(event)
            except Exception as error:  # whatever the fold stumbles over, it is these events
                raise BrokenConversation(f"{conversation}: event {event.seq} does not fit") from error
        if len(page) < PAGE:
            return state
