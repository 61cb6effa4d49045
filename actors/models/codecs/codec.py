"""The interface of the codecs, and the parts that they share. Pure.

A codec translates between neutral messages and the wire format of one provider's API:

    ModelRequest -> Codec.body -> JSON of the request
    JSON of the answer -> Codec.reply -> ModelReply
    events of a stream -> ReplyStream.feed ... ReplyStream.reply -> ModelReply

A `ReplyStream` emits text and arguments as they arrive, assembles the whole answer and passes it to
`Codec.reply`, so a reply is read the same way with and without streaming. `turns.py` arranges the history,
`faults.py` reads errors, and `json_fields.py` reads fields of any type. Tool names and call ids that a
provider would reject are replaced by hashed ones (`wire_name`, `CallIds`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, takewhile
from typing import Any, Protocol, TypeAlias, TypeVar

import attrs

from ....runtime.json_text import dump, load_piece, mend
from ...tools.names import MAX_LENGTH, hashed, plain_name
from ..messages.messages import (
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
from ..messages.schema_dialects import SchemaDialect
from .json_fields import load_arguments, read_arguments
from .thinking_text import ShownText

T = TypeVar("T")


class Codec(Protocol):
    """Translates requests and replies for one provider."""

    def body(self, request: ModelRequest) -> dict[str, Any]: ...

    def reply(self, body: object, request: ModelRequest) -> ModelReply:
        """Read a whole answer. Raises `ModelFailed`."""
        ...

    def stream(self, request: ModelRequest, emit: Emit) -> ReplyStream: ...


class ReplyStream(Protocol):
    """Assembles a reply from the events of a stream."""

    @property
    def ended(self) -> bool:
        """Whether the provider has marked the end of the reply."""
        ...

    @property
    def usage(self) -> Usage | None:
        """The usage so far, which is billed even if the stream breaks; None: unknown."""
        ...

    def feed(self, data: str) -> None:
        """Process the data of an event. Raises `ModelFailed` if it is an error."""
        ...

    def reply(self) -> ModelReply:
        """The assembled reply. Raises `ModelFailed`, also if the end is missing."""
        ...


def merged(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the options merged in. Objects are merged, other values replaced."""
    result = dict(body)
    for key, value in options.items():
        known = result.get(key)
        if isinstance(known, Mapping) and isinstance(value, Mapping):
            result[key] = merged(known, value)
        else:
            result[key] = value
    return result


CallIdentity: TypeAlias = tuple[str, str, object]
"""A call as the provider sent it: its id, name and arguments, of which each may be missing."""
NO_NAME = "the call names no tool"
LOST = (
    "the arguments are missing, and they may have been lost, because the reply is damaged elsewhere; "
    "if there are none, send {} again"
)


def without_repeats(given: Iterable[T], asked: Callable[[T], CallIdentity | None]) -> list[T]:
    """Leave out the parts of a reply that repeat a call: its id, its name and its arguments.

    Args:
        asked: reads a part; None: it is no call.
    """
    parts = [(part, asked(part)) for part in given]
    ids = [call[0] for _, call in parts if call is not None]
    if len(ids) == len(set(ids)):  # most replies
        return [part for part, _ in parts]
    kept: list[T] = []
    seen: set[tuple[str, str, str]] = set()
    for part, call in parts:
        if call is not None and call[0]:
            id, name, raw = call
            read = read_arguments(raw)
            key = (id, name, dump(read.value) if read.problem is None else read.problem)
            if key in seen:
                continue
            seen.add(key)
        kept.append(part)
    return kept


def with_answer(parts: Sequence[T], is_text: Callable[[T], bool], answer: Sequence[T]) -> list[T]:
    """Put the answer in the place of the texts of a reply, which have reasoning."""
    first = next(index for index, part in enumerate(parts) if is_text(part))
    others = [part for part in parts if not is_text(part)]
    return [*others[:first], *answer, *others[first:]]


def tool_calls(
    asked: Iterable[CallIdentity], own_names: Mapping[str, str], *, ended: bool = True
) -> tuple[ToolCall, ...]:
    """The calls of a reply. Missing and repeated ids are replaced.

    A call without arguments is not made if they may have been lost: another call of the reply is damaged, or
    the provider did not say that the reply is complete (`ended`).
    """
    read = [(id, name, read_arguments(raw)) for id, name, raw in asked]
    damaged = not ended or any(each.problem or each.repeated or not name for _, name, each in read)
    calls: list[ToolCall] = []
    taken: set[str] = set()
    for index, (id, name, each) in enumerate(read):
        while not id or id in taken:
            id = f"call_{index}" if not id else f"{id}_{index}"
        taken.add(id)
        problem = (
            each.problem or (None if name else NO_NAME) or (LOST if damaged and not each.value else None)
        )
        calls.append(ToolCall(id, own_names.get(name, name), each.value, problem))
    return tuple(calls)


def make_reply(
    text: str,
    calls: tuple[ToolCall, ...],
    usage: Usage,
    *,
    reason: str,
    cut: bool = False,
    verbatim: Verbatim | None = None,
) -> ModelReply:
    """A complete reply.

    Args:
        reason: the provider's word for the end of the reply, for an error.
        cut: the reply reached its token limit.
    """
    if not text.strip() and not calls:
        if cut:
            raise ModelFailed("the token limit was reached before the answer began", usage=usage)
        raise empty_reply(reason, usage)
    return ModelReply(text, calls, usage, "max_tokens" if cut else "tool_calls" if calls else "end", verbatim)


def empty_reply(reason: str, usage: Usage | None = None) -> ModelFailed:
    """The failure for an answer without text and calls. The same request often succeeds."""
    why = f' (reason: "{reason}")' if reason else ""
    return ModelFailed(f"the answer is empty: no text, no tool call{why}", empty=True, usage=usage)


def not_understood(what: str, usage: Usage | None = None) -> ModelFailed:
    """The failure for an answer that arrived but is not a reply. It is not retryable."""
    return ModelFailed(f"the answer was not understood: {what}", usage=usage)


def ended_early(usage: Usage | None = None) -> ModelFailed:
    return ModelFailed("the answer ended before it was complete", retryable=True, usage=usage)


def event_body(data: str) -> Any:
    """The JSON of an event, with halves of characters at the ends of its texts. Raises `ModelFailed`."""
    try:
        return load_piece(data)
    except ValueError:
        raise not_understood("an event is not JSON") from None


def emit_text(emit: Emit, text: str) -> None:
    if text:
        emit(TextDelta(text))


@attrs.define(eq=False)
class TextPieces:
    """A text as it arrives. It is emitted in whole characters, without reasoning."""

    _emit: Emit
    _pieces: list[str] = attrs.field(factory=list)
    _shown: ShownText = attrs.field(factory=ShownText)
    _pending: str = ""
    """A part of a character, of which more may come."""

    def add(self, piece: str) -> None:
        self._pieces.append(piece)
        if piece.isascii() and not self._pending:  # most pieces
            emit_text(self._emit, self._shown.add(piece))
            return
        piece = self._pending + piece
        kept = len(piece)
        while kept and len(piece) - kept < _CHARACTER_PARTS and "\ud800" <= piece[kept - 1] <= "\udfff":
            kept -= 1
        self._pending = piece[kept:]
        emit_text(self._emit, self._shown.add(mend(piece[:kept])))

    def whole(self) -> str:
        return mend("".join(self._pieces))


def with_final_arguments(
    given: Sequence[object], calls: Sequence[ToolCall]
) -> Sequence[Mapping[str, Any] | None] | None:
    """For each call in a provider's content, the final arguments if they differ from its own, else None.

    Returns None if the content has other calls than the history.
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

_CHARACTER_PARTS = 3
"""A character has at most so many parts before its last one: bytes of UTF-8."""

ANY_ID = re.compile(r".*", re.DOTALL)
"""For a provider that is sent only its own ids."""


_ACCEPTED = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{,{MAX_LENGTH - 1}}}")
"""The names that `plain_name` leaves as they are."""


def wire_name(name: str) -> str:
    """The name if every provider accepts it, else a unique name made from it."""
    if _ACCEPTED.fullmatch(name):
        return name
    return hashed(plain_name(name), name)


def function_tools(tools: Iterable[ModelTool], dialect: SchemaDialect) -> list[dict[str, Any]]:
    """Tools as chat completions and Ollama declare them."""
    declared = []
    for tool in tools:
        description, schema = tool.shown(dialect)
        function = {"name": wire_name(tool.name), "description": description, "parameters": schema}
        declared.append({"type": "function", "function": function})
    return declared


def own_names(tools: Iterable[ModelTool]) -> Mapping[str, str]:
    """The tools' own names by the names sent to the provider, where they differ."""
    return {name: tool.name for tool in tools if (name := wire_name(tool.name)) != tool.name}


class CallIds:
    """Gives every call of a history a unique id that the provider accepts.

    A history gets the same ids each time it is sent, also after it has grown.
    """

    def __init__(self, valid: re.Pattern[str]) -> None:
        self._valid = valid
        self._given: set[str] = set()

    def give(self, id: str) -> str:
        number = len(self._given)
        while not self._valid.fullmatch(id) or id in self._given:
            # Mistral requires nine letters and digits.
            id = hashlib.sha256(f"{number} {id}".encode(errors="replace")).hexdigest()[:9]
        self._given.add(id)
        return id

    def fork(self) -> CallIds:
        """A copy, for another end of the same history."""
        copy = CallIds(self._valid)
        copy._given = self._given.copy()
        return copy


# ----------------------------------------------------------------- thoughts in pieces (there may be 100,000)

_TEXTS = {"text", "summary", "data"}


def joined(pieces: Sequence[Any]) -> Any:
    """The whole value. Texts and last entries of lists are joined; other values replace earlier ones."""
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
    """Pieces of texts of the last entry, if it has more than one piece."""
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
    """Join the pieces of the last entry's texts."""
    if texts:
        found[-1] = {**found[-1], **{key: "".join(pieces) for key, pieces in texts.items()}}


def _goes_on(last: Any, entry: Any) -> bool:
    if not isinstance(last, dict) or not isinstance(entry, dict):
        return False
    alike = last.get("type") == entry.get("type") and last.get("index") == entry.get("index")
    return alike and all(isinstance(each.get(key, ""), str) for key in _TEXTS for each in (last, entry))
