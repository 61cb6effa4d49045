"""Reads conversations from the journal, and validates their rows.

A row that cannot be read, or that contradicts the others, raises `StreamDamaged`. No other file decides this.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress

from ....runtime.journal.errors import Reading, StreamDamaged
from ....runtime.journal.protocol import Journal
from ....runtime.journal.question import Question, QuestionPage, QuestionState
from ....runtime.journal.summary import Row
from ...approvals.kinds import Approval, approval_of
from ..words import events as e
from ..words.event_json import decode
from ..words.inbox import Create, Received, received
from . import extract
from .head import Head, head_of_summary
from .state import Conversation

PAGE = 500
"""Events per page."""
_QUESTIONS = 200
"""Questions per page."""
_MOST_OF_A_PAGE = 20_000
"""Approvals of all conversations on one page."""


async def pages(journal: Journal, conversation: str, seq: int = 0) -> AsyncGenerator[Sequence[e.Entry], None]:
    """Yield all events after `seq`, in order, in pages. Raises `StreamDamaged`."""
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
    """Fold a conversation from the journal, and check its rows: all, or those after its extract.

    Raises:
        StreamDamaged
    """
    if (row := await journal.row(conversation)) is not None:
        head_of(row)
    await inbox(journal, conversation)
    if row is not None and row.last_seq >= extract.FEWEST:
        with suppress(StreamDamaged):  # it is not said of the extract, so all events are read
            state = await _from_extract(journal, conversation)
            if state is not None:
                return state
    return await _from_events(journal, conversation)


async def _from_extract(journal: Journal, conversation: str) -> Conversation | None:
    """The state by the extract and the later events; None if there is none that is right. Raises
    `StreamDamaged`."""
    found = await journal.extract(conversation, extract.FORM)
    state = None if found is None else extract.state_of(conversation, found)
    if state is None:
        return None
    await _apply_rest(journal, state)
    await _check_questions(journal, state)
    # Read after all others: the extract may be of a conversation that was deleted, and created again.
    row = await journal.row(conversation)
    is_same = row is not None and row.created == state.created and row.last_seq >= state.last_seq
    return state if is_same else None


async def _from_events(journal: Journal, conversation: str) -> Conversation:
    state = Conversation(conversation)
    await _apply_rest(journal, state)
    await _check_questions(journal, state)
    return state


async def _check_questions(journal: Journal, state: Conversation) -> None:
    """Raises `StreamDamaged`."""
    conversation = state.id
    # Read after the events: an active conversation may have added questions since, but removed none.
    approvals, damaged = await approvals_of(journal, conversation)
    if damaged:
        raise StreamDamaged(conversation, damaged[conversation])
    missing = state.approvals.keys() - {each.id for each in approvals[conversation]}
    if missing and await journal.row(conversation) is not None:
        raise StreamDamaged(conversation, f"question {min(missing)} is missing")


async def read_listed(journal: Journal, row: Row, approvals: Sequence[Approval]) -> Conversation:
    """As `read`, for a row that was just read, and whose approvals were read after it.

    Raises:
        StreamDamaged
    """
    head_of(row)
    await inbox(journal, row.stream)
    state = Conversation(row.stream)
    await _apply_rest(journal, state)
    if state.approvals.keys() <= {each.id for each in approvals}:
        return state
    return await read(journal, row.stream)  # one is newer, or missing


async def _apply_rest(journal: Journal, state: Conversation) -> None:
    """Apply all events after those that are in the state. Raises `StreamDamaged`."""
    async with aclosing(pages(journal, state.id, state.last_seq)) as found:
        async for page in found:
            for entry in page:
                with Reading(state.id, f"event {entry.seq}"):
                    state.apply(entry)


async def read_new(journal: Journal, conversation: str, prompt: str) -> Conversation | None:
    """As `read`, also for a conversation without events: then the state after its ``create`` command. None if
    there is no such command.

    Raises:
        StreamDamaged
    """
    # Read before the events: the commit of the first event removes the command from the inbox.
    commands = await inbox(journal, conversation)
    state = await read(journal, conversation)
    if state.last_seq:
        return state
    for each in commands:
        if isinstance(each.command, Create):
            state.apply(e.Entry(1, each.at, created_by(each, each.command, prompt)))
            state.last_seq = 0  # the event is not stored yet
            return state
    return None


def created_by(received: Received, create: Create, prompt: str) -> e.ConversationCreated:
    """The event for a ``create`` command. Its time is that of the command."""
    return e.ConversationCreated(create.session_id or received.stream[:8], prompt, create.by, create.context)


async def inbox(journal: Journal, conversation: str, *, skip_damaged: bool = False) -> tuple[Received, ...]:
    """Open commands, oldest first. With `skip_damaged`, commands that cannot be read are left out; otherwise
    they raise `StreamDamaged`."""
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
    """The approval with this id. Raises `StreamDamaged`."""
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
    return _readable(
        await journal.questions(state=state, kind=kind, streams=streams, limit=limit, cursor=cursor)
    )


async def decided(journal: Journal, limit: int) -> QuestionPage:
    """As `Journal.decided`; each is an `Approval`."""
    return _readable(await journal.decided(limit))


def _readable(page: QuestionPage) -> QuestionPage:
    """The page with each question as an `Approval`. Those that cannot be read are moved to `damaged`."""
    readable: list[Approval] = []
    damaged = dict(page.damaged)
    for each in page.questions:
        try:
            readable.append(_approval(each))
        except StreamDamaged as error:
            damaged[error.stream] = error.why
    return QuestionPage(tuple(readable), page.next_cursor, damaged)


async def approvals_within(
    journal: Journal, conversations: Sequence[str]
) -> tuple[int, Mapping[str, tuple[Approval, ...]], Mapping[str, str]]:
    """As `approvals_of`, for the first conversations whose approvals fit on one page, and the number of these
    conversations: at least one."""
    count = len(conversations)
    while count > 1:
        names = conversations[:count]
        page = await questions(journal, state=None, streams=names, limit=_MOST_OF_A_PAGE, cursor=None)
        if page.next_cursor is None:
            found: dict[str, list[Approval]] = {id: [] for id in names}
            for each in page.questions:
                assert isinstance(each, Approval)
                found[each.stream].append(each)
            return count, {id: tuple(asked) for id, asked in found.items()}, page.damaged
        count //= 2
    return count, *await approvals_of(journal, *conversations[:1])


async def approvals_of(
    journal: Journal, *conversations: str
) -> tuple[Mapping[str, tuple[Approval, ...]], Mapping[str, str]]:
    """All approvals of some conversations, oldest first; and the conversations with a damaged one, with the
    reason."""
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
    """The head in a row's summary, without the approvals. Raises `StreamDamaged`."""
    with Reading(row.stream, "its summary"):
        if row.summary is None:
            raise ValueError("the row is damaged")
        return head_of_summary(row.summary)


def is_state_of(row: Row | None, state: Conversation) -> bool:
    """Whether a conversation at rest is still in a state that was read earlier. The row differs if another
    member has written it, or if it was deleted and created again. Raises `StreamDamaged`."""
    return (
        row is not None
        and (row.created, row.updated, row.last_seq) == (state.created, state.updated, state.last_seq)
        and head_of(row) == state.head
    )


def _approval(found: Question) -> Approval:
    with Reading(found.stream, f"question {found.id}"):
        return approval_of(found)
