"""Splits a stream of bytes into lines, and writes lines to a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import trio


class LineFramer:
    """Splits chunks into lines without their newline, in time linear in their length."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0

    @property
    def pending(self) -> int:
        """Bytes of the incomplete line; the caller must limit it."""
        return len(self._buffer)

    def feed(self, chunk: bytes | bytearray) -> Iterator[bytes]:
        """Add a chunk; yield the lines that it completes."""
        self._buffer += chunk
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._searched = 0
            yield line
        self._searched = len(self._buffer)

    def take_rest(self) -> bytes:
        """Return the incomplete line and forget it."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return rest


class LineWriter:
    """Writes lines to a pipe, in order.

    `put` writes a line at once if the pipe is free. Otherwise the task in `run` writes it: a line that is
    partly written must be completed, even if its sender is cancelled. A line that is not begun can be
    withdrawn.
    """

    def __init__(self) -> None:
        self._pipe: trio.lowlevel.FdStream | None = None
        """None before `run` begins and after it ends."""
        self._rest = memoryview(b"")
        """The unwritten part of the line that is begun."""
        self._lines: dict[int, bytes] = {}
        """The lines that are not begun, by ticket."""
        self._tickets = count()
        self._more = trio.Event()
        self._begun = trio.Event()
        """Set when lines are begun, and when none will be begun any more; then replaced."""
        self._ended = False

    def put(self, line: bytes) -> int:
        """Write a line without waiting; return the ticket with which it can be withdrawn.

        The caller must limit the number of lines.
        """
        ticket = next(self._tickets)
        self._lines[ticket] = line + b"\n"
        if self._pipe is not None and not self._rest and len(self._lines) == 1:
            # `run` meets the same error and raises it.
            with suppress(OSError):
                self._begin(self._pipe, ticket)
        if self._rest or ticket in self._lines:
            self._more.set()
        return ticket

    def withdraw(self, ticket: int) -> bool:
        """Withdraw a line; return False if it is begun already."""
        return self._lines.pop(ticket, None) is not None

    async def write(self, line: bytes) -> None:
        """Write a line; wait until it is begun, or the pipe has ended."""
        ticket = self.put(line)
        try:
            while ticket in self._lines and not self._ended:
                await self._begun.wait()
        finally:
            self.withdraw(ticket)

    async def run(self, pipe: trio.lowlevel.FdStream) -> None:
        """Write lines until cancelled.

        Raises:
            trio.BrokenResourceError: the pipe was closed at the other end.
            trio.ClosedResourceError: the pipe was closed at this end.
        """
        self._pipe = pipe
        try:
            while True:
                await self._more.wait()
                self._more = trio.Event()
                await self._write_all(pipe)
        except OSError as error:
            raise trio.BrokenResourceError from error
        finally:
            self._pipe = None
            self._ended = True
            self._begun.set()

    async def _write_all(self, pipe: trio.lowlevel.FdStream) -> None:
        while self._rest or self._lines:
            try:
                if self._rest:
                    self._rest = self._rest[os.write(pipe.fileno(), self._rest) :]
                else:
                    self._begin(pipe, next(iter(self._lines)))
                    self._begun.set()
                    self._begun = trio.Event()
                await trio.lowlevel.checkpoint()
            except BlockingIOError:
                await trio.lowlevel.wait_writable(pipe.fileno())

    def _begin(self, pipe: trio.lowlevel.FdStream, ticket: int) -> None:
        """Write as much of a line as the pipe accepts. Raises `OSError` if nothing was written."""
        line = memoryview(self._lines[ticket])
        self._rest = line[os.write(pipe.fileno(), line) :]
        del self._lines[ticket]
