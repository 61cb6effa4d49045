"""Lines into a pipe, each whole, from any task."""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count

import trio


class LineWriter:
    """Writes lines in their order. What a pipe does not take at once is written in a task of its own: a line
    that is begun must be ended, whoever stops waiting for it meanwhile."""

    def __init__(self) -> None:
        self._pipe: trio.lowlevel.FdStream | None = None
        self._rest = b""
        """Of what is begun."""
        self._lines: dict[int, bytes] = {}
        """Those that are not, by ticket."""
        self._tickets = count()
        self._more = trio.Event()
        self._written = trio.Event()
        """Set when what was begun is written, or nothing will be any more."""
        self._ended = False

    def put(self, line: bytes) -> int:
        """Have a line written, without waiting for it; returns the ticket to withdraw it by.

        The caller bounds how many lines wait.
        """
        ticket = next(self._tickets)
        line += b"\n"
        if self._ended:
            return ticket
        if self._pipe is None or self._rest or self._lines:
            self._lines[ticket] = line
        elif not (rest := _without_waiting(self._pipe, line)):
            return ticket
        elif len(rest) == len(line):
            self._lines[ticket] = line
        else:
            self._rest = rest
        self._more.set()
        return ticket

    def withdraw(self, ticket: int) -> bool:
        """Whether the line had not been begun; then it will not be."""
        return self._lines.pop(ticket, None) is not None

    async def write(self, line: bytes) -> None:
        """Have a line written, and wait for its turn."""
        ticket = self.put(line)
        try:
            while ticket in self._lines:
                await self._written.wait()
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
                self._rest += b"".join(self._lines.values())
                self._lines.clear()
                if not self._rest:
                    continue  # all withdrawn; to wait for nothing to be sent would let a line begin meanwhile
                await pipe.send_all(self._rest)
                self._rest = b""
                self._written.set()
                self._written = trio.Event()
        finally:
            self._ended = True
            self._lines.clear()
            self._written.set()


def _without_waiting(pipe: trio.lowlevel.FdStream, line: bytes) -> bytes:
    """Write what the pipe takes, and return the rest; why it takes nothing is for who waits to find out."""
    with suppress(OSError):
        return line[os.write(pipe.fileno(), line) :]
    return line
