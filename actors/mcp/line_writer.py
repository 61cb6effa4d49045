"""Lines into a pipe, each whole, from any task."""

from __future__ import annotations

from itertools import count

import trio


class LineWriter:
    """Writes lines in their order, in a task of its own: a line that is begun must be ended, whoever stops
    waiting for it meanwhile."""

    def __init__(self) -> None:
        self._lines: dict[int, bytes] = {}
        """Those that are not begun, by ticket."""
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
        if not self._ended:
            self._lines[ticket] = line + b"\n"
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

    async def run(self, pipe: trio.abc.SendStream) -> None:
        """Write what there is and what comes, until cancelled.

        Raises:
            trio.BrokenResourceError: nobody reads any more.
            trio.ClosedResourceError: the pipe was closed on our side.
        """
        try:
            while True:
                await self._more.wait()
                self._more = trio.Event()
                lines = b"".join(self._lines.values())
                self._lines.clear()
                await pipe.send_all(lines)
                self._written.set()
                self._written = trio.Event()
        finally:
            self._ended = True
            self._lines.clear()
            self._written.set()
