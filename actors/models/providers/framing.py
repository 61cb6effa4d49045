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


def framing_of(content_type: str) -> Framing | None:
    """How a body of this type is cut; None: it is one JSON text."""
    if "event-stream" in content_type:
        return ServerSentEvents()
    if "ndjson" in content_type:
        return JsonLines()
    return None


@attrs.define(eq=False)
class ServerSentEvents:
    _parser: SseParser = attrs.field(factory=SseParser)

    def feed(self, chunk: bytes) -> Iterable[str]:
        # Some servers cut a character between two events.
        return [_text(event.data) for event in self._parser.feed(chunk) if event.data is not None]

    def end(self) -> Iterable[str]:
        return ()


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


def _text(raw: bytes) -> str:
    return raw.decode(errors="surrogateescape")
