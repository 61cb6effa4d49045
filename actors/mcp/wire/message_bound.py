"""Abridges messages of a server that are too long. Pure.

The beginning and the end of such a message are kept, the rest is dropped as it arrives (`BoundedMessage`).
The two are then searched for the members of the message, and a short message takes its place (`abridged`):

* A result becomes a result that says how long it was, followed by the beginning of its text. The call has
  happened, so the reply must reach it: `id` stands before or after the result, hence in one of the two parts.
* An error keeps its code and the beginning of its text.
* A request or a notification loses its parameters; the SDK answers such a request with an error.
* A list of tools may be longer than other messages, because tools that are too long are dropped one by one.

`BoundedLines`, `Body` and `Events` split the three forms of input into messages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from pydantic_core import from_json, to_json

from ...common.sse_parser import SseEvent, SseParser
from .failures import ANY_ERROR, MAX_LINE
from .incoming import split_batch
from .requests import FIRST_ID

MAX_LISTING = 16 * 1024 * 1024
"""Bytes of the longest list of tools."""
END = 1024
"""Bytes that are kept of the end of a message."""
ABRIDGED = "stopgo/abridged"
"""In the metadata of a result that was abridged."""
SETTING = "tools.max_stored_bytes"

_MEMBER = rb'"\w{1,32}"\s*:\s*(?:"[^"\\]{0,256}"|-?\d[\d.eE+-]{0,30}|true|false|null)\s*'
_FIRST_MEMBERS = re.compile(rb'\s*\{\s*((?:%s,\s*)*)"(\w{1,32})"\s*:' % _MEMBER)
_LAST_MEMBERS = re.compile(rb'(?:(?<!\\)"isError"\s*:\s*(true|false)\s*\}\s*)?((?:,\s*%s)*)\}\s*\Z' % _MEMBER)
"""In valid JSON these are members of the message itself: the last brace closes the message, and the members
right before that brace belong to it."""


@attrs.define(eq=False)
class BoundedMessage:
    """Collects one message after the other from pieces. It is a `DataBuffer` of the SSE decoder, too."""

    _limit: int
    """Bytes that are kept of a message."""
    _may_list: bool = True
    """A message may be a list of tools, for which `MAX_LISTING` holds instead."""
    _kept: bytearray = attrs.field(factory=bytearray)
    _end: bytes = b""
    """The last bytes of a message that is too long; empty otherwise."""
    _size: int = 0
    _lists: bool = False

    def add(self, piece: bytes) -> None:
        """Take the next piece."""
        self._size += len(piece)
        if self._end:
            self._end = (self._end + piece)[-END:]
            return
        self._kept += piece
        if len(self._kept) <= self._limit:
            return
        self._lists = self._lists or (self._may_list and _lists_tools(self._kept))
        if not self._lists or len(self._kept) > MAX_LISTING:
            self._drop_middle()

    def take(self) -> bytes:
        """Return the message, abridged if it is too long. The next piece begins another."""
        if self._lists and not self._end and _is_ours(_last_members(self._kept[-END:])[1]):
            self._drop_middle()  # the id at its end shows that it is the result of a call
        if self._end:
            message = abridged(bytes(self._kept), self._end, self._size, self._limit)
        else:
            message = bytes(self._kept)
        self._kept, self._end, self._size, self._lists = bytearray(), b"", 0, False
        return message

    def _drop_middle(self) -> None:
        self._end = bytes(self._kept[-END:])
        del self._kept[self._limit :]


@attrs.define(eq=False)
class BoundedLines:
    """Messages of one line each."""

    _message: BoundedMessage

    def feed(self, chunk: bytes | bytearray) -> Iterator[bytes]:
        """Take a chunk; yield the messages that it completed."""
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            self._message.add(bytes(chunk[begin:end]))
            yield self._message.take()
            begin = end + 1
        if begin < len(chunk):
            self._message.add(bytes(chunk[begin:]))


@attrs.define(eq=False)
class Body:
    """A message that is the body of a response."""

    _message: BoundedMessage

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return what can be passed on, which is nothing."""
        self._message.add(chunk)
        return b""

    def rest(self) -> bytes:
        """Return the message; the body has ended."""
        return self._message.take()


class Events:
    """Messages that are the data of server-sent events. Comments and unknown fields are dropped."""

    def __init__(self, message: BoundedMessage) -> None:
        self._parser = SseParser(message)

    def feed(self, chunk: bytes) -> bytes:
        """Take a chunk; return the events that it completed, encoded again.

        Raises:
            EventTooLarge: a line that is no data is longer than `MAX_EVENT_BYTES`.
        """
        return b"".join(map(_encoded, self._parser.feed(chunk)))

    def rest(self) -> bytes:
        """Return the last event, if the end of the stream completes one."""
        return b"".join(map(_encoded, self._parser.end()))


def _encoded(event: SseEvent) -> bytes:
    """Encode an event; one for each message if it has a batch. Its id stands for all of them."""
    data = event.data or b""
    *others, last = split_batch(data) or [data]
    events = [SseEvent(message, event.type) for message in others]
    return b"".join(map(_encoded_event, [*events, event._replace(data=event.data and last)]))


def _encoded_event(event: SseEvent) -> bytes:
    lines: list[bytes] = []
    if event.id is not None:
        lines.append(b"id: " + event.id.encode())
    if event.type != "message":
        lines.append(b"event: " + event.type.encode())
    if event.retry is not None:
        lines.append(b"retry: %d" % event.retry)
    if event.data is not None:
        lines += (b"data: " + line for line in event.data.split(b"\n"))
    return b"".join(line + b"\n" for line in lines) + b"\n"


def abridged(beginning: bytes, end: bytes, size: int, limit: int) -> bytes:
    """Return a short message in place of one that had `size` bytes. Input that is not a message stays one."""
    known = {**_first_members(beginning), **_partly(beginning)}
    failed, last = _last_members(end)
    known.update(last)
    message: dict[str, Any] = {"jsonrpc": "2.0"}
    if "id" in known:
        message["id"] = known["id"]
    if isinstance(known.get("method"), str):
        return to_json({**message, "method": known["method"]})
    if "id" not in known:
        return beginning[:MAX_LINE]
    note = f"it had {size} bytes, and {SETTING} is {limit}"
    error, result = known.get("error"), known.get("result")
    if error is not None or (isinstance(_lists(result), list) and not _is_ours(known)):
        error = error if isinstance(error, dict) else {}
        code, text = error.get("code"), error.get("message")
        # Its own text comes last, because masking looks for a secret that is cut off at the end of a text.
        text = f"[The error was too long: {note}] {text[:MAX_LINE] if isinstance(text, str) else ''}"
        message["error"] = {"code": code if isinstance(code, int) else ANY_ERROR, "message": text.strip()}
        return to_json(message)
    texts = _texts(result)
    note = f"[Note: the call was made, but its result was too long to be kept: {note}. "
    note += "Its text begins as follows.]" if texts else "Nothing of it could be kept.]"
    failed = failed or (isinstance(result, dict) and result.get("isError") is True)
    content = [{"type": "text", "text": text} for text in (note, *texts)]
    result = {"content": content, "isError": failed, "_meta": {ABRIDGED: True}}
    return to_json({**message, "result": result})


def _texts(result: object) -> list[str]:
    content = result.get("content") if isinstance(result, dict) else None
    blocks = content if isinstance(content, list) else []
    # The last block may have been cut off before its type.
    texts = [
        block.get("text")
        for block in blocks
        if isinstance(block, dict) and block.get("type", "text") == "text"
    ]
    return [text for text in texts if isinstance(text, str) and text]


def _lists_tools(kept: bytes | bytearray) -> bool:
    known = {**_first_members(bytes(kept[:END])), **_partly(bytes(kept))}
    return not _is_ours(known) and isinstance(_lists(known.get("result")), list)


def _lists(result: object) -> object:
    return result.get("tools") if isinstance(result, dict) else None


def _is_ours(known: Mapping[str, Any]) -> bool:
    """Whether the message is the reply to a tool call, and not to a request of the SDK's session."""
    try:
        return int(known.get("id") or 0) >= FIRST_ID
    except (TypeError, ValueError):
        return False


def _partly(beginning: bytes) -> dict[str, Any]:
    """Return method, error and result from the beginning of a message, as far as they were kept.

    The id is left out, because it may have been cut off.
    """
    text = beginning.decode("utf-8-sig", "replace").encode()
    try:
        found = from_json(text, allow_partial="trailing-strings")
    except ValueError:
        return {}
    found = found if isinstance(found, dict) else {}
    return {name: found[name] for name in ("method", "error", "result") if name in found}


def _first_members(beginning: bytes) -> dict[str, Any]:
    """Return the short members before the first long one, and the name of that one, with an empty value."""
    found = _FIRST_MEMBERS.match(beginning[:END])
    if found is None:
        return {}
    return {found[2].decode(): {}, **_members(found[1])}


def _last_members(end: bytes | bytearray) -> tuple[bool, dict[str, Any]]:
    """Return whether the result ends with `"isError": true`, and the short members at the end."""
    found = _LAST_MEMBERS.search(end)
    return (False, {}) if found is None else (found[1] == b"true", _members(found[2]))


def _members(text: bytes) -> dict[str, Any]:
    try:
        found: dict[str, Any] = from_json(b"{" + text.strip(b", \t\r\n") + b"}")
    except ValueError:
        return {}
    return found
