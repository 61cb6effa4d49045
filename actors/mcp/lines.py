"""Lines out of a stream of bytes, and lines into a pipe."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import count

import trio


class LineFramer:
    """Collects chunks and gives back whole lines, without their newline, in time linear in their length."""

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


class LineWriter:
    """Writes lines in their order. What a pipe does not take at once is written in a task of its own: a line
    that is begun must be ended, whoever stops waiting for it meanwhile."""

    def __init__(self) -> None:
        self._pipe: trio.lowlevel.FdStream | None = None
        """None: nothing is written, not yet or not any more."""
        self._rest = memoryview(b"")
        """Of what is begun."""
        self._lines: dict[int, bytes] = {}
        """Those that are not, by ticket."""
        self._tickets = count()
        self._more = trio.Event()
        self._begun = trio.Event()
        """Set when lines were, or none will be any more."""
        self._ended = False

    def put(self, line: bytes) -> int:
        """Have a line written, without waiting for it; returns the ticket to withdraw it by.

        The caller bounds how many lines wait.
        """
        ticket = next(self._tickets)
        self._lines[ticket] = line + b"\n"
        if self._pipe is not None and not self._rest and len(self._lines) == 1:
            # Why it takes nothing is for who waits to find out.
            with suppress(OSError):
                self._begin(self._pipe, ticket)
        if self._rest or ticket in self._lines:
            self._more.set()
        return ticket

    def withdraw(self, ticket: int) -> bool:
        """Whether the line had not been begun; then it will not be."""
        return self._lines.pop(ticket, None) is not None

    async def write(self, line: bytes) -> None:
        """Have a line written, and wait for its turn, or for the end."""
        ticket = self.put(line)
        try:
            while ticket in self._lines and not self._ended:
                await self._begun.wait()
        finally:
            self.withdraw(ticket)

    async def run(self, pipe: trio.lowlevel.FdStream) -> None:
        """Write what there is and what comes, until cancelled.

        Raises:
            trio.BrokenResourceError: nobody reads any more.
            trio.ClosedResourceError: the pipe was closed on our side.
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
        """Write what the pipe takes of a line. Raises OSError: nothing."""
        line = memoryview(self._lines[ticket])
        self._rest = line[os.write(pipe.fileno(), line) :]
        del self._lines[ticket]
