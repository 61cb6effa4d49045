"""Arrange a history in the order that every provider requires. Pure.

The first turn is the user's; turns of user and model alternate; every call has a result, and every result a
call. A history may break these rules: a run may have failed between a call and its result, a message may be
empty, and a long history loses its beginning. `turns` repairs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import attrs

from ...tools.pictures import Picture
from ..messages.messages import AssistantMessage, ChatMessage, ToolCall, ToolMessage, UserMessage, Verbatim
from .codec import CallIds

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


def turns(messages: Iterable[ChatMessage], *, provider: str, ids: re.Pattern[str]) -> tuple[ChatTurn, ...]:
    """The history as turns of user and model.

    Repairs: an empty reply is left out, an empty text is replaced by `NO_TEXT`, a call without a result gets
    `NO_RESULT`, a result without a call is dropped.

    Args:
        provider: the provider whose verbatim content is used.
        ids: the pattern of valid call ids.
    """
    builder = _Builder(provider, CallIds(ids))
    for message in messages:
        builder.add(message)
    return builder.finish()


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

    def finish(self) -> tuple[ChatTurn, ...]:
        self._add_results()
        if not self._turns or not isinstance(self._turns[0], UserTurn):
            self._turns.insert(0, UserTurn(texts=(NOT_SHOWN,)))
        return tuple(self._turns)

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
