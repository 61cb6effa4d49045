"""Lines out of a stream of bytes, in time linear in their length."""

from __future__ import annotations

from collections.abc import Iterator


class LineFramer:
    """Collects chunks and gives back whole lines, without their newline."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    @property
    def pending(self) -> int:
        """Bytes held of a line whose end has not come; the caller bounds it."""
        return len(self._buffer)

    def feed(self, chunk: bytes | bytearray) -> Iterator[bytes]:
        """Add a chunk; yield the lines it completed."""
        self._buffer += chunk
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            yield line
        self._searched = len(self._buffer)

    def take_rest(self) -> bytes:
        """Give up waiting for the end of the line at hand, and return what there is of it."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest
