"""Cut the body of a stream into events: server-sent events, lines of JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import attrs

from ...common.sse_parser import MAX_EVENT_BYTES, EventTooLarge, SseParser


class Framing(Protocol):
    """Cuts one body. Raises `EventTooLarge`; then it cannot be used any more."""

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
        return [_text(event.data) for event in self._parser.feed(chunk) if event.data is not None]

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


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
