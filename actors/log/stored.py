"""Reading a conversation back from the journal: the only place where its rows are believed or found damaged.

Whatever cannot be read, or makes no sense, is `StreamDamaged`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing

from ...runtime.journal.errors import Reading, StreamDamaged
from ...runtime.journal.protocol import (
    Journal,
    Question,
    QuestionPage,
    QuestionState,
    Row,
)
from ..approvals.kinds import Approval, approval_of
from . import events as e
from .event_json import decode
from .head import Head, head_of_summary
from .inbox import Create, Received, received
from .state import Conversation

PAGE = 500
"""Events read at a time."""
_QUESTIONS = 200
"""The same for questions."""


async def pages(journal: Journal, conversation: str) -> AsyncGenerator[Sequence[e.Entry], None]:
    """All events, in order. Raises `StreamDamaged`."""
    seq = 0
    while True:
        page = await journal.events_since(conversation, seq, PAGE)
        entries: list[e.Entry] = []
        for event in page:
            seq = event.seq
            with Reading(conversation, f"event {seq}"):
                entries.append(decode(event))
        yield entries
        if len(page) < PAGE:
            return


async def read(journal: Journal, conversation: str) -> Conversation:
    """Fold a conversation from the journal, if everything that belongs to it can be read.

    Raises:
        StreamDamaged
    """
    if (row := await journal.row(conversation)) is not None:
        head_of(row)
    await inbox(journal, conversation)
    state = Conversation(conversation)
    async with aclosing(pages(journal, conversation)) as found:
        async for page in found:
            for entry in page:
                with Reading(conversation, f"event {entry.seq}"):
                    state.apply(entry)
    # After the events: of a conversation that goes on, there may be more by now, but not fewer.
    approvals, damaged = await approvals_of(journal, conversation)
    if damaged:
        raise StreamDamaged(conversation, damaged[conversation])
    missing = state.approvals.keys() - {each.id for each in approvals[conversation]}
    if missing and await journal.row(conversation) is not None:
        raise StreamDamaged(conversation, f"question {min(missing)} is missing")
    return state


async def read_new(journal: Journal, conversation: str, prompt: str) -> Conversation | None:
    """As `read`, for one that may have no event yet: then it is what its ``create`` command will make it.
    None when there is no such command.

    Raises:
        StreamDamaged
    """
    # Before the events, for it leaves the inbox in the commit of the first of them.
    commands = await inbox(journal, conversation)
    state = await read(journal, conversation)
    if state.last_seq:
        return state
    for each in commands:
        if isinstance(each.command, Create):
            state.apply(e.Entry(1, each.at, created_by(each, each.command, prompt)))
            state.last_seq = 0  # it has not happened
            return state
    return None


def created_by(place: Received, create: Create, prompt: str) -> e.ConversationCreated:
    """The event that a command leads to. It happened when the command was accepted."""
    return e.ConversationCreated(create.session_id or place.stream[:8], prompt)


async def inbox(journal: Journal, conversation: str, *, skip_damaged: bool = False) -> tuple[Received, ...]:
    """Open commands, oldest first. Raises `StreamDamaged`, unless those that cannot be read are skipped."""
    commands: list[Received] = []
    for row in await journal.inbox(conversation, skip_damaged=skip_damaged):
        try:
            with Reading(conversation, f"command {row.key}"):
                commands.append(received(row))
        except StreamDamaged:
            if not skip_damaged:
                raise
    return tuple(commands)


async def question(journal: Journal, id: str) -> Approval | None:
    """Raises `StreamDamaged`."""
    found = await journal.question(id)
    return None if found is None else _approval(found)


async def questions(
    journal: Journal,
    *,
    state: QuestionState | None,
    kind: str | None = None,
    streams: Sequence[str] | None = None,
    limit: int,
    cursor: str | None,
) -> QuestionPage:
    """As `Journal.questions`; each is an `Approval`."""
    return _sound(
        await journal.questions(state=state, kind=kind, streams=streams, limit=limit, cursor=cursor)
    )


async def decided(journal: Journal, limit: int) -> QuestionPage:
    """As `Journal.decided`; each is an `Approval`."""
    return _sound(await journal.decided(limit))


def _sound(page: QuestionPage) -> QuestionPage:
    """The page with each question as an `Approval`, without those that make no sense."""
    sound: list[Approval] = []
    damaged = dict(page.damaged)
    for each in page.questions:
        try:
            sound.append(_approval(each))
        except StreamDamaged as error:
            damaged[error.stream] = error.why
    return QuestionPage(tuple(sound), page.next_cursor, damaged)


async def approvals_of(
    journal: Journal, *conversations: str
) -> tuple[Mapping[str, tuple[Approval, ...]], Mapping[str, str]]:
    """All approvals of some conversations, oldest first; and which of these have a damaged one, and why."""
    found: dict[str, list[Approval]] = {id: [] for id in conversations}
    damaged: dict[str, str] = {}
    cursor: str | None = None
    while conversations:
        page = await questions(journal, state=None, streams=conversations, limit=_QUESTIONS, cursor=cursor)
        damaged |= page.damaged
        for each in page.questions:
            assert isinstance(each, Approval)
            found[each.stream].append(each)
        cursor = page.next_cursor
        if cursor is None:
            break
    return {id: tuple(questions) for id, questions in found.items()}, damaged


def head_of(row: Row) -> Head:
    """The head that a row tells, without its approvals. Raises `StreamDamaged`."""
    with Reading(row.stream, "its summary"):
        if row.summary is None:
            raise ValueError("the row is damaged")
        return head_of_summary(row.summary)


def _approval(found: Question) -> Approval:
    with Reading(found.stream, f"question {found.id}"):
        return approval_of(found)
