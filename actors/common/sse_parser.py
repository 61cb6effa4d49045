"""Server-sent events as they arrive, https://html.spec.whatwg.org/multipage/server-sent-events.html. Pure."""

from __future__ import annotations

MAX_EVENT_BYTES = 4 * 1024 * 1024

_LINE = 8
"""Bytes that a line of data takes at least, however short it is."""


class EventTooLarge(Exception):
    """An event of more than `MAX_EVENT_BYTES`."""


class SseParser:
    """Fed with bytes however they were cut; gives the data of the events that are complete.

    As the specification wants it, an event without its closing blank line does not count. Providers say
    in the data what it is, so an event's type is passed over.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._scanned = 0
        self._data: list[str] = []
        self._size = 0
        self._begun = False

    def feed(self, chunk: bytes) -> list[str]:
        """Raises `EventTooLarge`."""
        pending = self._pending
        pending += chunk
        if not self._begun and len(pending) >= 3:
            self._begun = True
            if pending.startswith(b"\xef\xbb\xbf"):
                del pending[:3]
        events: list[str] = []
        # A carriage return at the very end may be half of a line end.
        last = max(pending.rfind(b"\n", self._scanned), pending.rfind(b"\r", self._scanned, -1))
        for line in bytes(pending[: last + 1]).splitlines():
            self._line(line, events)
        del pending[: last + 1]
        # What was looked at holds no line end; only a last carriage return may still become one.
        self._scanned = max(0, len(pending) - 1)
        if len(pending) + self._size > MAX_EVENT_BYTES:
            raise EventTooLarge
        return events

    def _line(self, line: bytes, events: list[str]) -> None:
        if not line:
            if self._data:
                events.append("\n".join(self._data))
            self._data, self._size = [], 0
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value.decode(errors="replace"))
            self._size += len(value) + _LINE
