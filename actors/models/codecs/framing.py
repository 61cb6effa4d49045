"""Cut the body of a stream into events: server-sent events, lines of JSON, frames of AWS. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import Protocol
from zlib import crc32

import attrs

from ....runtime.json_text import dump
from ...common.sse_parser import MAX_EVENT_BYTES, EventTooLarge, SseParser
from ..messages.messages import ModelFailed


class Framing(Protocol):
    """Cuts one body. Raises `EventTooLarge` or `ModelFailed`; then it cannot be used any more."""

    def feed(self, chunk: bytes) -> Iterable[str]:
        """The events that these bytes complete."""
        ...

    def end(self) -> Iterable[str]:
        """The event that only the end of the body completes."""
        ...

    def whole(self) -> bytes:
        """The body, if it is one JSON text and no stream, whatever its type is; else empty."""
        ...


def framing_of(content_type: str) -> Framing | None:
    """How a body of this type is cut; None: it is one JSON text, or of another type than it says."""
    if "event-stream" in content_type.lower():
        return ServerSentEvents()
    if "ndjson" in content_type.lower():
        return JsonLines()
    if "vnd.amazon.eventstream" in content_type.lower():
        return AwsFrames()
    return None


def framing_in(body: bytes) -> Framing:
    """How a body is cut that is not one JSON text, whatever its type is."""
    return JsonLines() if body.lstrip().startswith(b"{") else ServerSentEvents()


@attrs.define(eq=False)
class ServerSentEvents:
    _parser: SseParser = attrs.field(factory=SseParser)
    _begun: bool = False
    _whole: bytearray | None = None
    """The body so far, if it is a JSON text: 9router#3492."""

    def feed(self, chunk: bytes) -> Iterable[str]:
        if not self._begun and chunk.strip():
            self._begun = True
            self._whole = bytearray() if chunk.lstrip().startswith(b"{") else None
        if self._whole is not None:
            self._whole += chunk
            return ()
        # Some servers cut a character between two events.
        return [
            event.data.decode("utf-8", "surrogateescape")
            for event in self._parser.feed(chunk)
            if event.data is not None
        ]

    def end(self) -> Iterable[str]:
        return ()

    def whole(self) -> bytes:
        # Some gateways put the mark of a stream's end after it.
        return bytes(self._whole or b"").partition(b"\ndata:")[0]


@attrs.define(eq=False)
class JsonLines:
    """One JSON text a line, https://github.com/ndjson/ndjson-spec. The last line may have no end."""

    _pending: bytearray = attrs.field(factory=bytearray)
    _scanned: int = 0
    """Bytes of `_pending` that are known to hold no line end."""

    def feed(self, chunk: bytes) -> Iterable[str]:
        self._pending += chunk
        last = self._pending.rfind(b"\n", self._scanned)
        lines = bytes(self._pending[: last + 1]).split(b"\n")
        del self._pending[: last + 1]
        self._scanned = len(self._pending)
        if max(self._scanned, *map(len, lines)) > MAX_EVENT_BYTES:
            raise EventTooLarge
        return [_text(line) for line in lines if line.strip()]

    def end(self) -> Iterable[str]:
        return [_text(bytes(self._pending))] if self._pending.strip() else []

    def whole(self) -> bytes:
        return b""


_PRELUDE = 12
"""Bytes before the headers of a frame: its length, that of its headers, and the checksum of both."""
_AROUND = _PRELUDE + 4
"""Bytes of a frame around headers and payload: a checksum of everything is at its end."""
_SIZES: Mapping[int, int] = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""Bytes of the value of a header, by its type; types 6 and 7 have a length before it."""


@attrs.define(eq=False)
class AwsFrames:
    """Frames of `application/vnd.amazon.eventstream`, https://smithy.io/2.0/aws/amazon-eventstream.html.

    Each becomes a JSON text, `{KIND: NAME, "payload": ...}`. KIND is "event", "exception" or "error"."""

    _pending: bytearray = attrs.field(factory=bytearray)

    def feed(self, chunk: bytes) -> Iterable[str]:
        self._pending += chunk
        found: list[str] = []
        begin = 0
        while len(self._pending) - begin >= _PRELUDE:
            length, headers, checksum = struct.unpack_from(">III", self._pending, begin)
            if crc32(self._pending[begin : begin + 8]) != checksum or length < headers + _AROUND:
                raise _damaged()
            if length > MAX_EVENT_BYTES:
                raise EventTooLarge
            if len(self._pending) - begin < length:
                break
            found.append(_opened(bytes(self._pending[begin : begin + length]), headers))
            begin += length
        del self._pending[:begin]
        return found

    def end(self) -> Iterable[str]:
        return ()

    def whole(self) -> bytes:
        return b""


def _opened(frame: bytes, length: int) -> str:
    if crc32(frame[:-4]) != int.from_bytes(frame[-4:], "big"):
        raise _damaged()
    headers = _headers(frame[_PRELUDE : _PRELUDE + length])
    payload = _text(frame[_PRELUDE + length : -4]).strip() or "{}"
    kind = headers.get(":message-type", "event")
    name = headers.get(":error-code" if kind == "error" else f":{kind}-type", "")
    if kind == "error":
        payload = dump({"message": headers.get(":error-message", "")})
    return f'{{{dump(kind)}: {dump(name)}, "payload": {payload}}}'


def _headers(raw: bytes) -> dict[str, str]:
    """The headers whose values are texts. Raises `ModelFailed`."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(raw):
            name = raw[at + 1 : at + 1 + raw[at]].decode()
            at += 1 + raw[at]
            kind, at = raw[at], at + 1
            if kind in (6, 7):
                size = int.from_bytes(raw[at : at + 2], "big")
                at += 2
            else:
                size = _SIZES[kind]
            if kind == 7:
                found[name] = raw[at : at + size].decode()
            at += size
    except (IndexError, KeyError, UnicodeDecodeError):
        raise _damaged() from None
    return found


def _damaged() -> ModelFailed:
    return ModelFailed("a frame of the answer is damaged", retryable=True)


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
