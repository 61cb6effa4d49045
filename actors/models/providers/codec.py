"""What a provider's dialect has to offer, and what the dialects have in common. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, Protocol

from ....runtime.json_text import load_provider
from ...tools.names import hashed, plain_name
from ..messages import (
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    TextDelta,
    ToolCall,
    Usage,
    Verbatim,
)
from .json_fields import load_arguments


class Codec(Protocol):
    """From a request to the body of a provider, and from its answer to a reply."""

    def body(self, request: ModelRequest) -> dict[str, Any]: ...

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        """What the whole answer says. Raises `ModelFailed`."""
        ...

    def stream(self, request: ModelRequest, emit: Emit) -> ReplyStream: ...


class ReplyStream(Protocol):
    """A reply that arrives in events."""

    @property
    def ended(self) -> bool:
        """The provider said that this is all."""
        ...

    @property
    def usage(self) -> Usage | None:
        """As far as it is known: what is billed even if nothing more arrives."""
        ...

    def feed(self, data: str) -> None:
        """Take in an event's data. Raises `ModelFailed` for an error that came in the place of the rest."""
        ...

    def reply(self) -> ModelReply:
        """What all the events said. Raises `ModelFailed`, also when the end is missing."""
        ...


def merged(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the options in it; maps are merged, everything else is replaced."""
    result = dict(body)
    for key, value in options.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        else:
            result[key] = value
    return result


def tool_calls(
    asked: Iterable[tuple[str, str, object]], own_names: Mapping[str, str]
) -> tuple[ToolCall, ...]:
    """The calls of a reply out of id, name and arguments as they came; ids that are missing or repeated are
    made up."""
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for index, (id, name, raw) in enumerate(asked):
        while not id or id in taken:
            id = f"call_{index}" if not id else f"{id}_{index}"
        taken.add(id)
        arguments, problem = load_arguments(raw)
        calls.append(ToolCall(id, own_names.get(name, name), arguments, problem))
    return tuple(calls)


def make_reply(
    text: str,
    calls: tuple[ToolCall, ...],
    usage: Usage,
    *,
    cut: bool = False,
    verbatim: Verbatim | None = None,
) -> ModelReply:
    """A reply that is what it seems to be. `cut`: it reached its limit of tokens."""
    if cut and not text.strip() and not calls:
        raise ModelFailed("the limit of tokens was reached before there was an answer", usage=usage)
    return ModelReply(text, calls, usage, "max_tokens" if cut else "tool_calls" if calls else "end", verbatim)


def not_understood(what: str, usage: Usage | None = None) -> ModelFailed:
    """An answer that is none, though nothing went wrong on the way."""
    return ModelFailed(f"the answer was not understood: {what}", usage=usage)


def ended_early(usage: Usage | None = None) -> ModelFailed:
    return ModelFailed("the answer ended before it was complete", retryable=True, usage=usage)


def event_body(data: str) -> Any:
    """The JSON of an event. Raises `ModelFailed`."""
    try:
        return load_provider(data)
    except ValueError:
        raise not_understood("an event is not JSON") from None


def emit_text(emit: Emit, text: str) -> None:
    if text:
        emit(TextDelta(text))


def with_final_arguments(
    given: Sequence[object], calls: Sequence[ToolCall]
) -> Sequence[Mapping[str, Any] | None] | None:
    """For each call a provider gave, the arguments that count if they differ from those it gave, else None.

    None altogether if these are not the same calls.
    """
    if len(given) != len(calls):
        return None
    final = []
    for raw, call in zip(given, calls, strict=True):
        arguments, problem = load_arguments(raw)
        same = problem is None and arguments == call.arguments
        final.append(None if same else call.arguments)
    return final


# ----------------------------------------------------------------- names of tools, ids of calls

ANY_ID = re.compile(r".*", re.DOTALL)
"""For who tells no ids of ours."""


def wire_name(name: str) -> str:
    """The name if every provider takes it, else one made of it that differs from all others."""
    taken = plain_name(name)
    return name if taken == name else hashed(taken, name)


def own_names(tools: Iterable[ModelTool]) -> Mapping[str, str]:
    """From the names a provider was told to the tools' own, where they differ."""
    return {wire_name(tool.name): tool.name for tool in tools if wire_name(tool.name) != tool.name}


class CallIds:
    """Gives every call of a history an id that its provider takes and that no other call has.

    The same history gets the same ids each time it is sent, also when more has followed.
    """

    def __init__(self, valid: re.Pattern[str]) -> None:
        self._valid = valid
        self._given: set[str] = set()

    def give(self, id: str) -> str:
        number = len(self._given)
        while not self._valid.fullmatch(id) or id in self._given:
            # Nine letters and digits are what the strictest of them wants.
            id = hashlib.sha256(f"{number} {id}".encode(errors="replace")).hexdigest()[:9]
        self._given.add(id)
        return id


# ----------------------------------------------------------------- thoughts in pieces (there may be 100,000)

_TEXTS = {"text", "summary", "data"}


def joined(pieces: Sequence[Any]) -> Any:
    """The whole: a text goes on, and so does the last entry of a list; else what comes later counts."""
    last = pieces[-1]
    if not isinstance(last, str | list):
        return last
    kind = str if isinstance(last, str) else list
    alike = list(takewhile(lambda piece: isinstance(piece, kind), reversed(pieces)))
    alike.reverse()
    return "".join(alike) if kind is str else _entries(alike)


def _entries(lists: Sequence[list[Any]]) -> list[Any]:
    found = list(lists[0])
    texts: dict[str, list[str]] = {}
    """Of the last entry, in pieces, once it has gone on."""
    for entry in chain.from_iterable(lists[1:]):
        if not found or not _goes_on(found[-1], entry):
            _complete(found, texts)
            found.append(entry)
            texts = {}
            continue
        last = found[-1]
        if not texts:
            texts = {key: [last[key]] for key in _TEXTS if key in last}
        for key in _TEXTS & entry.keys():
            texts.setdefault(key, []).append(entry[key])
        found[-1] = {**last, **{key: value for key, value in entry.items() if value is not None}}
    _complete(found, texts)
    return found


def _complete(found: list[Any], texts: Mapping[str, list[str]]) -> None:
    """Put the texts of the last entry into it."""
    if texts:
        found[-1] = {**found[-1], **{key: "".join(pieces) for key, pieces in texts.items()}}


def _goes_on(last: Any, entry: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(entry, dict):
        return False
    alike = last.get("type") == entry.get("type") and last.get("index") == entry.get("index")
    return alike and all(isinstance(each.get(key, ""), str) for key in _TEXTS for each in (last, entry))
