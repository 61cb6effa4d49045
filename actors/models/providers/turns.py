"""A history in the order that every provider insists on. Pure.

A user begins; replies and what answers them take turns; every call has its result, and every result its call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

import attrs

from ..messages import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)
from .codec import CallIds

NO_TEXT = "(no text)"
NOT_SHOWN = "(What came before is not shown.)"
NO_RESULT = "There is no result of this call."


@attrs.frozen
class Result:
    """Of one call, by the id the provider knows."""

    id: str
    name: str
    content: str
    is_error: bool


@attrs.frozen
class UserTurn:
    """Results first: no provider wants anything between a call and its result."""

    results: tuple[Result, ...] = ()
    texts: tuple[str, ...] = ()


@attrs.frozen
class Said:
    """One reply of a model."""

    text: str
    calls: tuple[ToolCall, ...]
    """With the ids the provider is told, and the final arguments."""
    verbatim: object | None
    """Content in the provider's own dialect, to be preferred to text and calls."""


@attrs.frozen
class ModelTurn:
    """Replies with nothing between them; only the last one has calls."""

    replies: tuple[Said, ...]


Turn: TypeAlias = UserTurn | ModelTurn


def turns(messages: Iterable[ChatMessage], *, provider: str, ids: re.Pattern[str]) -> tuple[Turn, ...]:
    """The history as turns of user and model.

    What the order does not allow is mended: texts without a letter are left out or said to be empty, a call
    without a result gets one that says so, a result without a call is dropped.

    Args:
        provider: whose verbatim content counts.
        ids: what an id of a call has to look like.
    """
    builder = _Builder(provider, CallIds(ids))
    for message in messages:
        builder.add(message)
    return builder.finish()


class _Builder:
    def __init__(self, provider: str, ids: CallIds) -> None:
        self._provider = provider
        self._ids = ids
        self._turns: list[Turn] = []
        self._open: dict[str, list[ToolCall]] = {}
        """Calls that wait for a result, by the id in the history."""
        self._order: list[ToolCall] = []
        self._results: dict[str, Result] = {}

    def add(self, message: ChatMessage) -> None:
        match message:
            case UserMessage(text=text):
                self._settle()
                self._user(UserTurn(texts=(text if text.strip() else NO_TEXT,)))
            case AssistantMessage():
                self._settle()
                self._reply(message)
            case ToolMessage():
                waiting = self._open.get(message.call_id)
                if waiting:
                    call = waiting.pop(0)
                    empty_error = message.is_error and not message.content.strip()
                    content = NO_TEXT if empty_error else message.content
                    self._results[call.id] = Result(call.id, call.name, content, message.is_error)

    def finish(self) -> tuple[Turn, ...]:
        self._settle()
        if not self._turns or not isinstance(self._turns[0], UserTurn):
            self._turns.insert(0, UserTurn(texts=(NOT_SHOWN,)))
        return tuple(self._turns)

    def _reply(self, message: AssistantMessage) -> None:
        if not message.text.strip() and not message.tool_calls:
            return
        calls = []
        for call in message.tool_calls:
            wired = attrs.evolve(call, id=self._ids.give(call.id))
            self._open.setdefault(call.id, []).append(wired)
            calls.append(wired)
        self._order = calls
        text = message.text if message.text.strip() else ""
        said = Said(text, tuple(calls), _own(message.verbatim, self._provider))
        if self._turns and isinstance(last := self._turns[-1], ModelTurn):
            self._turns[-1] = ModelTurn((*last.replies, said))
        else:
            self._turns.append(ModelTurn((said,)))

    def _settle(self) -> None:
        """End the exchange that is open: all its results, in the order of the calls."""
        if self._order:
            results = tuple(
                self._results.get(call.id, Result(call.id, call.name, NO_RESULT, is_error=True))
                for call in self._order
            )
            self._turns.append(UserTurn(results=results))
        self._open, self._order, self._results = {}, [], {}

    def _user(self, turn: UserTurn) -> None:
        if self._turns and isinstance(last := self._turns[-1], UserTurn):
            self._turns[-1] = attrs.evolve(last, texts=(*last.texts, *turn.texts))
        else:
            self._turns.append(turn)


def _own(verbatim: Verbatim | None, provider: str) -> object | None:
    return verbatim.content if verbatim is not None and verbatim.provider == provider else None
