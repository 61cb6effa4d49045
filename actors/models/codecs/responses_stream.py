"""Assemble a reply of OpenAI's Responses API from the events of a stream. Pure.

* The kind of an event is `type` in its data. Unknown kinds, `keepalive` and `[DONE]` mean nothing.
* An item is what `response.output_item.done` says of it, also if earlier events said something else. Without
  that event, it is what the last event lists, or what the pieces add up to.
* An item is known by its `output_index`, else by its id. If a server gives all items one index, another call
  id, another kind of item, or another id after the end of an item begins the next one. If an event may then
  belong to several open calls, none of them is made.
* Only `response.completed` and `response.incomplete` end a reply. A stream that closes before them is cut
  off, even if all items are there, because a call may be missing.

Sources: https://platform.openai.com/docs/api-reference/responses-streaming; events that are missing, empty or
doubled: litellm#22102, hermes-agent#5758; `keepalive`: openai-node#1964; errors: openai-dotnet#881.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Protocol

import attrs

from ....runtime.json_text import mend
from ..messages.messages import ArgumentsDelta, Delta, Emit, ModelFailed, ModelReply, ModelRequest, Usage
from .codec import TextPieces, emit_text, ended_early, event_body, own_names
from .faults import from_error
from .json_fields import array, count, mapping, piece, text
from .stream_calls import ArgumentPieces

# ----------------------------------------------------------------- responses, streamed or not


def text_of(item: object) -> str:
    """The text of a message, with its refusals; empty for any other item."""
    known = mapping(item)
    if known.get("type") != "message":
        return ""
    parts = map(mapping, array(known.get("content")))
    return "".join(text(part.get("text")) or text(part.get("refusal")) for part in parts)


def usage_of(response: Mapping[str, Any]) -> Usage:
    fields = mapping(response.get("usage"))
    details = mapping(fields.get("input_tokens_details"))
    return Usage(
        input_tokens=count(fields.get("input_tokens")),
        output_tokens=count(fields.get("output_tokens")),
        cached_tokens=count(details.get("cached_tokens")),
        cache_write_tokens=count(details.get("cache_write_tokens")),
    )


def failed(response: Mapping[str, Any]) -> ModelFailed:
    """The failure for a response that failed. One without an error is the provider's trouble: retryable."""
    failure = from_error(response.get("error") or {})
    failure.usage = usage_of(response)
    return failure


# ----------------------------------------------------------------- streams


class _Reading(Protocol):
    """Reads a whole response: `ResponsesCodec`."""

    def reply(self, body: object, request: ModelRequest) -> ModelReply: ...


@attrs.define(eq=False)
class _Item:
    index: int
    place: int = -1
    """Index of the call in the reply."""
    opened: Mapping[str, Any] = attrs.field(factory=dict)
    done: Mapping[str, Any] = attrs.field(factory=dict)
    texts: TextPieces | None = None
    refusals: TextPieces | None = None
    arguments: ArgumentPieces = attrs.field(factory=ArgumentPieces)
    complete: bool = False
    """All of the arguments have arrived."""

    def is_another(self, members: Mapping[str, Any], ids: Sequence[str]) -> bool:
        """Whether an event with the index of this item is about another one, by its item and its ids."""
        known = {**self.opened, **self.done}
        call_id, other = text(known.get("call_id")), text(members.get("call_id"))
        if call_id and other:
            return call_id != other
        if known and members and known.get("type") != members.get("type"):
            return True
        # Nothing but the whole item again follows its end.
        return bool(self.done) and (text(known.get("id")) not in ids if ids else not members)

    def complete_arguments(self, arguments: str) -> None:
        self.complete = True
        if arguments:
            self.arguments = ArgumentPieces([arguments])

    def whole(self) -> dict[str, Any]:
        """The item as its events describe it; empty if they do not say what it is."""
        given = {name: value for name, value in self.done.items() if value is not None}
        if (given or self.opened).get("type") == "function_call":
            # Some servers leave them out of the last event. Without them, a call means something else.
            arguments = given.get("arguments") or self.arguments.text()
            return {**self.opened, **given, "arguments": arguments}
        parts: list[dict[str, Any]] = []
        if self.texts:
            parts.append({"type": "output_text", "text": self.texts.whole(), "annotations": []})
        if self.refusals:
            parts.append({"type": "refusal", "refusal": self.refusals.whole()})
        if not given and parts:
            return {**self.opened, "type": "message", "role": "assistant", "content": parts}
        return dict(self.done)


class ResponsesStream:
    """Assembles a response for `ResponsesCodec.reply`."""

    def __init__(self, codec: _Reading, request: ModelRequest, emit: Emit) -> None:
        self._codec = codec
        self._request = request
        self._emit = emit
        self._own_names = own_names(request.tools)
        self._items: list[_Item] = []
        self._by_index: dict[int, _Item] = {}
        """The last item of each index."""
        self._shared: set[int] = set()
        """Indexes of more than one item."""
        self._by_id: dict[str, _Item] = {}
        """By their own ids and those of calls."""
        self._calls = 0
        self._speaking: _Item | None = None
        """The message whose text was emitted last."""
        self._response: Mapping[str, Any] = {}
        self.ended = False

    @property
    def usage(self) -> Usage | None:
        return usage_of(self._response) if self._response.get("usage") else None

    def feed(self, data: str) -> None:
        if data.strip() == "[DONE]":
            return
        event = mapping(event_body(data))
        match event.get("type"):
            case "response.output_item.added":
                if item := mapping(event.get("item")):
                    self._open(self._item(event), item)
            case "response.output_text.delta":
                self._said(self._item(event), piece(event.get("delta")))
            case "response.refusal.delta":
                self._refused(self._item(event), piece(event.get("delta")))
            case "response.function_call_arguments.delta":
                self._asked(self._item(event), piece(event.get("delta")))
            case "response.function_call_arguments.done":
                self._item(event).complete_arguments(text(event.get("arguments")))
            case "response.output_item.done":
                if item := mapping(event.get("item")):
                    self._finish(self._item(event), item)
            case _:
                self._end(event)

    def _end(self, event: Mapping[str, Any]) -> None:
        """Apply an event that ends the response. Other events are ignored."""
        match event.get("type"):
            case "response.completed" | "response.incomplete" as kind:
                status = kind.removeprefix("response.")
                self._response = {**mapping(event.get("response")), "status": status}
                self.ended = True
            case "response.failed":
                self._response = mapping(event.get("response"))
                raise failed(self._response)
            case "error":
                raise from_error(event.get("error") or event)
            case None if event.get("error"):  # of a proxy
                raise from_error(event["error"])
            case _:
                pass

    # ------------------------------------------------------------------------ items

    def _item(self, event: Mapping[str, Any]) -> _Item:
        """The item of an event, which may be new."""
        index, members = event.get("output_index"), mapping(event.get("item"))
        ids = list(filter(None, map(text, (members.get("call_id"), event.get("item_id"), members.get("id")))))
        named = next((self._by_id[id] for id in ids if id in self._by_id), None)
        if not isinstance(index, int):
            last = self._items[-1] if self._items else None
            found = named if ids else last
            index = last.index + 1 if last else 0
            doubtful = found is not None and not ids
        else:
            found = at = self._by_index.get(index)
            if at is not None and at.is_another(members, ids):
                found = None if named is at else named
                self._shared.add(index)
            elif index in self._shared:
                found = named or at
            doubtful = index in self._shared and not ids
        if found is None:
            found = _Item(index)
            self._items.append(found)
            self._by_index[index] = found
        if doubtful:
            self._doubt()
        self._by_id.update(dict.fromkeys(ids, found))
        return found

    def _doubt(self) -> None:
        """An event names no item, so it may belong to each of the open calls."""
        calls = [item for item in self._items if item.place >= 0 and not (item.done or item.complete)]
        for item in calls if len(calls) > 1 else ():
            item.arguments.unclear = True

    def _open(self, item: _Item, members: Mapping[str, Any]) -> None:
        item.opened = item.opened or {name: value for name, value in members.items() if value is not None}
        if members.get("type") == "function_call" and item.place < 0:
            item.place = self._calls
            self._calls += 1

    def _said(self, item: _Item, delta: str) -> None:
        item.texts = item.texts or self._pieces(item)
        item.texts.add(delta)

    def _refused(self, item: _Item, delta: str) -> None:
        item.refusals = item.refusals or self._pieces(item)
        item.refusals.add(delta)

    def _pieces(self, item: _Item) -> TextPieces:
        return TextPieces(partial(self._show, item))

    def _show(self, item: _Item, said: Delta) -> None:
        if self._speaking not in (None, item):
            emit_text(self._emit, "\n\n")
        self._speaking = item
        self._emit(said)

    def _asked(self, item: _Item, delta: str) -> None:
        item.arguments.add(delta)
        self._show_arguments(item, mend(delta))

    def _show_arguments(self, item: _Item, said: str) -> None:
        name = text(item.opened.get("name"))
        if said and name:
            self._emit(ArgumentsDelta(item.place, self._own_names.get(name, name), said))

    def _finish(self, item: _Item, members: Mapping[str, Any]) -> None:
        repeated, unopened = bool(item.done), not item.opened
        self._open(item, members)
        item.done = members
        if repeated:
            return
        if not item.texts and not item.refusals:
            self._pieces(item).add(text_of(members))
        if members.get("type") == "function_call" and (unopened or item.arguments.blank):
            self._show_arguments(item, text(members.get("arguments")))

    # ------------------------------------------------------------------------ the end

    def reply(self) -> ModelReply:
        if not self.ended:
            raise ended_early(self.usage)
        return self._codec.reply({**self._response, "output": self._output()}, self._request)

    def _output(self) -> list[Any]:
        listed = array(self._response.get("output"))
        if listed and not any(item.done for item in self._items):
            return listed
        found = []
        for item in sorted(self._items, key=lambda item: item.index):
            whole = item.whole()
            open_call = whole.get("type") == "function_call" and not (item.done or item.complete)
            if open_call and self._response["status"] == "completed":
                raise ended_early(self.usage)
            if whole:
                found.append(whole)
        return found
