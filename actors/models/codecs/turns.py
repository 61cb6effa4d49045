"""Arrange a history in the order that every provider requires, and keep the wire form of its beginning. Pure.

The first turn is the user's; turns of user and model alternate; every call has a result, and every result a
call. A history may break these rules: a run may have failed between a call and its result, a message may be
empty, and a long history loses its beginning. `_Builder` repairs it.

A history grows at its end only. So the messages of earlier turns are arranged and written once, and their
wire form is kept (`KeptTurns`) until the next request of the same node to the same model. It is used if these
messages are still the same ones; otherwise, for instance after `context_window.fit`, it is made anew. The
last `OPEN` turns are never kept in writing: the next message may become part of the last one, and a codec may
mark the last two of the user.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import is_
from typing import Any, TypeAlias

import attrs

from ....runtime.json_text import Written, dump_wire
from ...common.kept_forms import PER_ITEM
from ...tools.pictures import Picture
from ..messages.messages import (
    AssistantMessage,
    ChatMessage,
    ModelRequest,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from .codec import CallIds, wire_name

NO_TEXT = "(no text)"
NOT_SHOWN = "(What came before is not shown.)"
NO_RESULT = "There is no result of this call."


@attrs.frozen
class CallResult:
    """The result of one call, with the id in the request to the provider."""

    id: str
    name: str
    content: str
    is_error: bool
    pictures: tuple[Picture, ...] = ()

    @property
    def label(self) -> str:
        """A line for pictures that are not inside the result."""
        return f"Pictures in the result of {self.name}:"


@attrs.frozen
class UserTurn:
    """A turn of the user. Results come first, because they must follow their calls directly."""

    results: tuple[CallResult, ...] = ()
    texts: tuple[str, ...] = ()
    pictures: tuple[Picture, ...] = ()
    """The pictures of the user. `texts` name them."""


@attrs.frozen
class PastReply:
    """One reply of a model in the history."""

    text: str
    calls: tuple[ToolCall, ...]
    """Calls with the ids of the request to the provider and with their final arguments."""
    verbatim: object | None
    """The reply in the provider's format, which takes precedence over text and calls."""


@attrs.frozen
class ModelTurn:
    """A turn of the model: consecutive replies, of which only the last has calls."""

    replies: tuple[PastReply, ...]


ChatTurn: TypeAlias = UserTurn | ModelTurn


WireMessage: TypeAlias = dict[str, Any]
TurnWriter: TypeAlias = Callable[[ChatTurn, ChatTurn | None], Sequence[WireMessage]]
"""The wire form of a turn. It depends on this turn and the one before it only."""
OPEN = 3
"""Turns at the end of the earlier ones that are arranged, but not written: two of the user, one between."""


@attrs.frozen
class TurnStyle:
    """How a codec has the turns of a history. Equal for all requests of one codec."""

    codec: object
    model: str
    """Name of the model: each has a form of its own."""
    provider: str
    """The provider whose verbatim content is used."""
    ids: re.Pattern[str]
    """The pattern of valid call ids."""
    write: TurnWriter
    strip: Callable[[AssistantMessage], AssistantMessage] = lambda message: message
    """Takes what is not sent back out of a reply of an earlier turn."""

    def sent(self, message: ChatMessage, *, strip: bool) -> ChatMessage:
        return self.strip(message) if strip and isinstance(message, AssistantMessage) else message


@attrs.frozen
class WireTurns:
    """A history in the format of a provider."""

    kept: tuple[bytes, ...]
    """The first messages, in writing."""
    messages: list[WireMessage]
    """The messages after them."""
    called: Sequence[str]
    """The wire names of the tools that were called, each once."""

    def after(self, first: Sequence[WireMessage] = ()) -> list[WireMessage] | Written:
        """All messages as a value of a body, after some others."""
        if not self.kept:
            return [*first, *self.messages]
        return Written((*map(dump_wire, first), *self.kept, *map(dump_wire, self.messages)))


def wire_turns(request: ModelRequest, style: TurnStyle, stripped: int = 0) -> WireTurns:
    """The history of a request as turns of user and model, in the format of a provider.

    Repairs: an empty reply is left out, an empty text is replaced by `NO_TEXT`, a call without a result gets
    `NO_RESULT`, a result without a call is dropped.

    Args:
        stripped: the number of leading messages of which replies are stripped; 0: none.
    """
    messages, end = request.messages, request.earlier
    builder, kept = _Builder(style.provider, CallIds(style.ids)), None
    if request.kept is not None and _can_be_kept(request, stripped):
        key = ("request", request.node, style.model)
        kept = request.kept.take(key, KeptTurns)
        if kept is None or kept.style.codec is not style.codec or not _begins(messages[:end], kept.messages):
            kept = KeptTurns(style, builder)
        kept.extend(messages[len(kept.messages) : end], stripped > 0)
        request.kept.keep(key, kept, kept.size)
        builder = kept.builder.fork()
    for index in range(0 if kept is None else end, len(messages)):
        builder.add(style.sent(messages[index], strip=index < stripped))
    if kept is None:
        kept = KeptTurns(style, builder)
    found = builder.finish(begun=kept.last is not None)
    open_messages = [
        each for before, turn in pairwise([kept.last, *found]) if turn for each in style.write(turn, before)
    ]
    called = dict.fromkeys([*kept.called, *_called(found)])
    return WireTurns(tuple(kept.written), open_messages, tuple(called))


def _can_be_kept(request: ModelRequest, stripped: int) -> bool:
    """Whether the messages of earlier turns are arranged alike in each request."""
    end = request.earlier
    return (
        0 < end < len(request.messages)
        and isinstance(request.messages[end], UserMessage)
        and (stripped == 0 or stripped >= end)
    )


def _begins(messages: Sequence[ChatMessage], kept: Sequence[ChatMessage]) -> bool:
    """Whether the messages begin with the kept ones."""
    if len(messages) < len(kept):
        return False
    return all(map(is_, messages, kept)) or all(map(_is_same, messages, kept))


def _is_same(message: ChatMessage, kept: ChatMessage) -> bool:
    # Not for replies: the values 1 and true, which are equal, are written differently.
    return message is kept or (not isinstance(message, AssistantMessage) and message == kept)


def _called(found: Sequence[ChatTurn]) -> list[str]:
    replies = [reply for turn in found if isinstance(turn, ModelTurn) for reply in turn.replies]
    return [wire_name(call.name) for reply in replies for call in reply.calls]


@attrs.define(eq=False)
class KeptTurns:
    """The messages of earlier turns, and their wire form. It only grows."""

    style: TurnStyle
    builder: _Builder
    """Has arranged `messages`, and holds the turns that are not written."""
    messages: list[ChatMessage] = attrs.field(factory=list)
    written: list[bytes] = attrs.field(factory=list)
    last: ChatTurn | None = None
    """The last turn that is written."""
    called: dict[str, None] = attrs.field(factory=dict)
    """The wire names of the tools called in the written turns."""
    size: int = 0

    def extend(self, messages: Sequence[ChatMessage], strip: bool) -> None:
        """Add the messages of further turns. `strip`: take out of replies what is not sent back."""
        if not messages:
            return
        for message in messages:
            self.builder.add(self.style.sent(message, strip=strip))
        self.messages += messages
        closed = self.builder.close(OPEN, begun=self.last is not None)
        for turn in closed:
            self.written += map(dump_wire, self.style.write(turn, self.last))
            self.last = turn
        self.called |= dict.fromkeys(_called(closed))
        self.size = PER_ITEM * len(self.messages) + sum(map(len, self.written))


class _Builder:
    def __init__(self, provider: str, ids: CallIds) -> None:
        self._provider = provider
        self._ids = ids
        self._turns: list[ChatTurn] = []
        self._open: dict[str, list[ToolCall]] = {}
        """Calls without a result so far, by their id in the history."""
        self._order: list[ToolCall] = []
        self._results: dict[str, CallResult] = {}

    def add(self, message: ChatMessage) -> None:
        match message:
            case UserMessage(text=text, pictures=pictures):
                self._add_results()
                self._user(UserTurn(texts=(text if text.strip() else NO_TEXT,), pictures=pictures))
            case AssistantMessage():
                self._add_results()
                self._reply(message)
            case ToolMessage():
                waiting = self._open.get(message.call_id)
                if waiting:
                    call = waiting.pop(0)
                    empty_error = message.is_error and not message.content.strip()
                    content = NO_TEXT if empty_error else message.content
                    self._results[call.id] = CallResult(
                        call.id, call.name, content, message.is_error, message.pictures
                    )

    def finish(self, *, begun: bool) -> tuple[ChatTurn, ...]:
        """The turns since the last `close`. `begun`: there are earlier ones."""
        self._add_results()
        if not begun and (not self._turns or not isinstance(self._turns[0], UserTurn)):
            self._turns.insert(0, UserTurn(texts=(NOT_SHOWN,)))
        return tuple(self._turns)

    def close(self, leave: int, *, begun: bool) -> Sequence[ChatTurn]:
        """Remove and return the first turns, all but the last ones, which messages to come may change.

        A message of the user comes next. `begun` is as in `finish`.
        """
        self._add_results()
        if not begun and self._turns and not isinstance(self._turns[0], UserTurn):
            self._turns.insert(0, UserTurn(texts=(NOT_SHOWN,)))
        count = max(0, len(self._turns) - leave)
        closed, self._turns = self._turns[:count], self._turns[count:]
        return closed

    def fork(self) -> _Builder:
        """A copy, directly after a `close`."""
        copy = _Builder(self._provider, self._ids.fork())
        copy._turns = self._turns.copy()
        return copy

    def _reply(self, message: AssistantMessage) -> None:
        if not message.text.strip() and not message.tool_calls:
            return
        calls = []
        for call in message.tool_calls:
            id = self._ids.give(call.id)
            wired = call if id == call.id else attrs.evolve(call, id=id)
            self._open.setdefault(call.id, []).append(wired)
            calls.append(wired)
        self._order = calls
        text = message.text if message.text.strip() else ""
        reply = PastReply(text, tuple(calls), _own(message.verbatim, self._provider))
        if self._turns and isinstance(last := self._turns[-1], ModelTurn):
            self._turns[-1] = ModelTurn((*last.replies, reply))
        else:
            self._turns.append(ModelTurn((reply,)))

    def _add_results(self) -> None:
        """Add a turn with the results of the open calls, in the order of the calls."""
        if not self._order:
            return
        results = tuple(
            self._results.get(call.id) or CallResult(call.id, call.name, NO_RESULT, is_error=True)
            for call in self._order
        )
        self._turns.append(UserTurn(results=results))
        self._open, self._order, self._results = {}, [], {}

    def _user(self, turn: UserTurn) -> None:
        if self._turns and isinstance(last := self._turns[-1], UserTurn):
            self._turns[-1] = attrs.evolve(
                last, texts=(*last.texts, *turn.texts), pictures=(*last.pictures, *turn.pictures)
            )
        else:
            self._turns.append(turn)


def _own(verbatim: Verbatim | None, provider: str) -> object | None:
    return verbatim.content if verbatim is not None and verbatim.provider == provider else None
