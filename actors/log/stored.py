"""Reading a conversation back from the journal."""

from __future__ import annotations

from ...runtime.journal.protocol import Event, Journal
from . import events as e
from .state import Conversation

PAGE = 500
"""Events read at a time."""


class BrokenConversation(Exception):
    """The events of a conversation do not follow from one another."""


async def read(journal: Journal, conversation: str) -> Conversation:
    """Fold a conversation from the journal.

    Raises:
        BrokenConversation
    """
    state = Conversation(conversation)
    while True:
        page = await journal.events_since(conversation, state.last_seq, PAGE)
        for event in page:
            try:
                state.apply(event)
            except Exception as error:  # whatever the fold stumbles over, it is these events
                raise BrokenConversation(f"{conversation}: event {event.seq} does not fit") from error
        if len(page) < PAGE:
            return state


async def read_new(journal: Journal, conversation: str, prompt: str) -> Conversation | None:
    """As `read`, for one that may have no event yet: then it is what its ``create`` command will make it.
    None when there is no such command.

    Raises:
        BrokenConversation
    """
    # Before the events, for it leaves the inbox in the commit of the first of them.
    inbox = await journal.inbox(conversation)
    state = await read(journal, conversation)
    if state.last_seq:
        return state
    for command in inbox:
        if command.kind == "create":
            created = e.created_by(command, prompt)
            state.apply(Event(conversation, 1, created.type, command.at, created.body))
            state.last_seq = 0  # it has not happened
            return state
    return None
