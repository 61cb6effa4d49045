"""The extract of a long conversation at rest: its state in a compact text, from which an activation goes on
instead of folding all events. Pure.

The text begins with a digest of the rest. It is only read by a program whose fold is the same: `FORM` names
the text and the fold. A program with another form reads all events, and writes an extract of its own.

* Only a conversation without a run has an extract: a replay reads its record from the events.
* A text that is in several places, such as the question of a turn, is stored once. In the other places is the
  number of the message that has it.
* An extract that cannot be read is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

from ....runtime.journal.question import CastVote, Question
from ....runtime.journal.stream_extract import Extract
from ....runtime.journal.summary import Summary
from ....runtime.json_text import dump, load
from ...approvals.kinds import Approval, approval_of
from ...models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from ...tools.pictures import Picture
from .head import Head, head_of_summary
from .record import CallView, Message, RecordedExchange
from .state import Conversation

VERSION = 1
"""Of the text."""
FOLD = "fa85a44c"
"""The digest of the modules that read and fold events (tests/actors/log/test_extract.py has the rule)."""
FORM = f"{VERSION}.{FOLD}"
FEWEST = 100
"""Events of a conversation whose state is kept."""
MOST = 2 * 1024 * 1024
"""Characters of an extract. It is read at once, in some 20 ms; a larger state is folded page by page."""
_SHARE = 16
"""An extract is written again when the conversation has grown by this part of it."""
TAIL = 64
"""Events by which it must have grown at least."""
_DIGITS = 16


def is_at_rest(state: Conversation) -> bool:
    """Whether nothing but a command can change the conversation."""
    is_asking = state.head.pending or state.head.in_flight
    return state.live_run is None and not state.read_only and not is_asking


def may_be_kept(state: Conversation) -> bool:
    """Whether a state is to be used again, in place of the events."""
    return state.last_seq >= FEWEST and is_at_rest(state)


def is_due(state: Conversation) -> bool:
    """Whether to write an extract of this state."""
    more = state.last_seq - state.extracted
    return more >= max(TAIL, state.last_seq // _SHARE) and may_be_kept(state)


def extract_of(state: Conversation) -> Extract | None:
    """The extract of a state at rest; None if it is too large, or nested too deeply to be part of another
    value."""
    if size_of(state) > MOST:  # writing a large state would hold up all other conversations
        return None
    try:
        text = dump(_Writer(state.messages).state(state))
    except (RecursionError, ValueError):
        return None
    if len(text) > MOST:
        return None
    return Extract(state.last_seq, FORM, _digest(text) + text)


def size_of(state: Conversation) -> int:
    """Characters of the texts in a state, estimated quickly: its extract has no fewer."""
    values: list[object] = [
        *{picture.data for message in state.messages for picture in message.pictures},
        *(message.content for message in state.messages),
        *(message.call.arguments for message in state.messages if message.call is not None),
        *(each.body for each in state.approvals.values()),
        *(said.verbatim.content for said in _replies(state) if said.verbatim is not None),
        state.trees,
    ]
    size = 0
    while values:
        value = values.pop()
        if isinstance(value, str):
            size += len(value)
        elif isinstance(value, Mapping):
            values += value
            values += value.values()
        elif isinstance(value, list | tuple):
            values += value
    return size


def _replies(state: Conversation) -> Iterator[AssistantMessage]:
    for turn in state.turns:
        for messages in turn.calls.values():
            yield from (each for each in messages if isinstance(each, AssistantMessage))


def state_of(conversation: str, extract: Extract) -> Conversation | None:
    """The state in an extract of this form; None if it is damaged."""
    digest, text = extract.text[:_DIGITS], extract.text[_DIGITS:]
    if extract.form != FORM or digest != _digest(text):
        return None
    try:
        state = _state(conversation, load(text))
    except (LookupError, TypeError, ValueError):
        return None
    return state if state.last_seq == extract.seq else None


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_DIGITS]


class _Writer:
    def __init__(self, messages: Sequence[Message]) -> None:
        self._texts: dict[str, int] = {
            message.content: index for index, message in reversed(list(enumerate(messages)))
        }
        self._pictures: dict[Picture, int] = {}

    def state(self, c: Conversation) -> list[Any]:
        messages = [self._message(each) for each in c.messages]
        turns = [
            [
                self._text(each.user),
                self._text(each.answer),
                self._shown(each.pictures),
                {node: [self._said(said) for said in calls] for node, calls in each.calls.items()},
            ]
            for each in c.turns
        ]
        approvals = [_question(each) for each in c.approvals.values()]
        pictures = [[each.media_type, each.data] for each in self._pictures]
        return [
            c.id,
            c.last_seq,
            c.created,
            c.updated,
            _head(c.head),
            messages,
            turns,
            approvals,
            pictures,
            c.trees,
        ]

    def _message(self, message: Message) -> list[Any]:
        call = None if message.call is None else list(message.call)
        if call is not None and message.call is not None and message.call.result == message.content:
            call[_RESULT] = True
        id, role, content, created, node, *_ = message
        return [id, role, content, created, node, call, self._shown(message.pictures)]

    def _said(self, message: ChatMessage) -> list[Any]:
        match message:
            case AssistantMessage(text=text, tool_calls=calls, verbatim=verbatim):
                own = None if verbatim is None else [verbatim.provider, verbatim.content]
                asked = [[each.id, each.name, each.arguments, each.problem] for each in calls]
                return [self._text(text), asked, own]
            case ToolMessage():
                return [message.call_id, message.name, self._text(message.content), message.is_error]
            case UserMessage():
                raise ValueError("the calls of a turn have no message of a user")
            case _:
                assert_never(message)

    def _text(self, text: str) -> str | int:
        place = self._texts.get(text)
        return text if place is None else place

    def _shown(self, pictures: Sequence[Picture]) -> list[int]:
        return [self._pictures.setdefault(each, len(self._pictures)) for each in pictures]


_RESULT = CallView._fields.index("result")


def _head(head: Head) -> list[Any]:
    summary = head.summary()
    return [summary.status, summary.title, summary.open, summary.body, summary.owner]


def _question(asked: Approval) -> list[Any]:
    votes = [[each.voter, each.credential, each.subject, each.at, each.decision] for each in asked.votes]
    values = [asked.id, asked.kind, asked.state, asked.body, asked.decision]
    return [*values, asked.created, asked.expires, asked.settled, votes]


def _state(conversation: str, stored: Any) -> Conversation:
    id, last_seq, created, updated, head, messages, turns, approvals, pictures, trees = stored
    if id != conversation:
        raise ValueError("it is of another conversation")
    shown = [Picture(*each) for each in pictures]
    found = Conversation(
        id, head_of_summary(Summary(*head)), created, updated, last_seq, trees=trees, extracted=last_seq
    )
    found.messages = [_message(each, shown) for each in messages]
    found.turns = [_turn(each, found.messages, shown) for each in turns]
    for each in approvals:
        approval = approval_of(_asked(conversation, each))
        found.approvals[approval.id] = approval
    return found


def _message(stored: Any, shown: Sequence[Picture]) -> Message:
    id, role, content, created, node, call, pictures = stored
    if call is not None:
        if call[_RESULT] is True:
            call[_RESULT] = content
        call = CallView(*call)
    return Message(id, role, content, created, node, call, tuple([shown[each] for each in pictures]))


def _turn(stored: Any, messages: Sequence[Message], shown: Sequence[Picture]) -> RecordedExchange:
    user, answer, pictures, calls = stored
    return RecordedExchange(
        _text(user, messages),
        _text(answer, messages),
        tuple([shown[each] for each in pictures]),
        {node: [_said(each, messages) for each in said] for node, said in calls.items()},
    )


def _said(stored: Any, messages: Sequence[Message]) -> ChatMessage:
    if len(stored) == 4:
        call_id, name, content, is_error = stored
        return ToolMessage(call_id, name, _text(content, messages), is_error)
    text, asked, own = stored
    verbatim = None if own is None else Verbatim(*own)
    return AssistantMessage(_text(text, messages), tuple([ToolCall(*each) for each in asked]), verbatim)


def _text(stored: str | int, messages: Sequence[Message]) -> str:
    return messages[stored].content if isinstance(stored, int) else stored


def _asked(conversation: str, stored: Any) -> Question:
    id, kind, state, body, decision, created, expires, settled, votes = stored
    cast = tuple(CastVote(*each) for each in votes)
    return Question(id, conversation, kind, state, body, decision, created, expires, settled, cast)
