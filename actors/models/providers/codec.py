"""What a provider's dialect has to offer, and what the dialects have in common. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from stopgo.actors.models.messages import (
    Emit,
    ModelFailed,
    ModelReply,
    ModelRequest,
    TextDelta,
    ToolCall,
    Usage,
    Verbatim,
)
from stopgo.actors.models.providers.wire_json import load, load_arguments


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
        return load(data)
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
