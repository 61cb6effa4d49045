"""The decoder of server-sent events, https://html.spec.whatwg.org/multipage/server-sent-events.html. Pure.

It decodes the streams of providers, remote agents and tool servers. How it works:

* `feed` takes bytes however they were cut and handles each line once its end has arrived. A carriage return
  at the end of a chunk waits for the next one, because a newline that belongs to it may follow.
* A line of data is the exception: its value goes to the data buffer as it arrives. So a buffer may drop what
  is too long for it while the line is still being read (`actors/mcp/wire/message_bound.py`).
* An empty line completes an event. An event without it does not count, as the specification says.

Two differences from the specification: an event that has fields but no data is returned too, because MCP
servers send ids in such events, and an id holds for its own event only.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import attrs

MAX_EVENT_BYTES = 4 * 1024 * 1024
_MAX_DIGITS = 18
"""Digits of `retry` that count: more of them would cost time, and the delay is years anyway."""


class EventTooLarge(Exception):
    """An event is larger than the limit of its decoder."""


class SseEvent(NamedTuple):
    """One event."""

    data: bytes | None
    """Its lines of data, joined with newlines; None: it has none."""
    type: str = "message"
    id: str | None = None
    retry: int | None = None
    """Milliseconds before the client reconnects."""


class DataBuffer(Protocol):
    """Collects the data of one event after the other."""

    def add(self, piece: bytes) -> None:
        """Take the next piece of the event's data."""
        ...

    def take(self) -> bytes:
        """Return the data of the event, which is complete. The next piece begins another."""
        ...


class SseParser:
    """Decodes one stream."""

    def __init__(self, buffer: DataBuffer | None = None, *, limit: int | None = None) -> None:
        """
        Args:
            buffer: for the data; without one, data counts towards the limit.
            limit: bytes of an event, or of a line; `MAX_EVENT_BYTES` if not given.
        """
        self._limit = MAX_EVENT_BYTES if limit is None else limit
        self._data = _Whole(self._limit) if buffer is None else buffer
        self._pending = bytearray()
        """The beginning of a line whose end has not arrived, less the data that the buffer has."""
        self._scanned = 0
        """Bytes of `_pending` that are known to hold no line end."""
        self._begun = False
        """The stream's first bytes were searched for a byte order mark."""
        self._in_data = False
        """`_pending` continues a line of data."""
        self._data_lines = 0
        self._type = ""
        self._id: str | None = None
        self._retry: int | None = None

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Decode the next bytes; return the events that they complete.

        Raises:
            EventTooLarge: the decoder cannot be used any more.
        """
        pending = self._pending
        pending += chunk
        if not self._begun and len(pending) >= 3:
            self._begun = True
            if pending.startswith(b"\xef\xbb\xbf"):
                del pending[:3]
        events: list[SseEvent] = []
        last = max(pending.rfind(b"\n", self._scanned), pending.rfind(b"\r", self._scanned, -1))
        if last >= 0:
            lines = bytes(pending[: last + 1]).splitlines()
            del pending[: last + 1]
            for line in lines:
                self._line(line, events)
        if self._begun and pending:
            self._pass_on_data()
        if len(pending) > self._limit:
            raise EventTooLarge
        self._scanned = max(0, len(pending) - 1)
        return events

    def texts(self, chunk: bytes) -> list[str]:
        """Like `feed`, for streams whose data says everything: the data of each event that has any."""
        return [event.data.decode(errors="replace") for event in self.feed(chunk) if event.data is not None]

    def end(self) -> list[SseEvent]:
        """Return the event, if any, that a carriage return at the very end of the stream completes."""
        return self.feed(b"\n") if self._pending.endswith(b"\r") else []

    def _pass_on_data(self) -> None:
        """Give the buffer what has arrived of a line of data."""
        pending = self._pending
        if not self._in_data:
            # With the byte after the colon, because a space there is not part of the value.
            if len(pending) < len(b"data: ") or not pending.startswith(b"data:"):
                return
            self._begin_data()
            del pending[: 6 if pending.startswith(b"data: ") else 5]
        piece = bytes(pending.removesuffix(b"\r"))
        del pending[: len(piece)]
        self._data.add(piece)

    def _begin_data(self) -> None:
        if self._data_lines:
            self._data.add(b"\n")
        self._data_lines += 1
        self._in_data = True

    def _line(self, line: bytes, events: list[SseEvent]) -> None:
        """Handle a line, or the rest of one of data."""
        if self._in_data:
            self._data.add(line)
            self._in_data = False
            return
        if not line:
            self._complete(events)
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._begin_data()
                self._data.add(value)
                self._in_data = False
            case b"event":
                self._type = value.decode(errors="replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode(errors="replace")
            case b"retry" if value.isdigit():
                self._retry = int(value[:_MAX_DIGITS])
            case _:
                pass

    def _complete(self, events: list[SseEvent]) -> None:
        if self._data_lines:
            data = self._data.take()
            events.append(SseEvent(data, self._type or "message", self._id, self._retry))
        elif self._type or self._id is not None or self._retry is not None:
            events.append(SseEvent(None, self._type or "message", self._id, self._retry))
        self._data_lines, self._type, self._id, self._retry = 0, "", None, None


@attrs.define(eq=False)
class _Whole:
    """Keeps all data of an event, up to a limit."""

    _limit: int
    _kept: bytearray = attrs.field(factory=bytearray)

    def add(self, piece: bytes) -> None:
        self._kept += piece
        if len(self._kept) > self._limit:
            raise EventTooLarge

    def take(self) -> bytes:
        data = bytes(self._kept)
        self._kept.clear()
        return data
