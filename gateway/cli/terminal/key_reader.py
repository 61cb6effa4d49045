"""Reads single keys of the terminal, for questions that one key answers."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
import trio

END_OF_INPUT = "\x04"
"""Ctrl-D."""
_CHUNK = 4096
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_LOCAL_MODES, _CHARACTERS = 3, 6
"""Indices in the result of `termios.tcgetattr`."""


@contextmanager
def quiet_keys() -> Iterator[KeyReader]:
    """Make keys arrive one by one and without echo. Ctrl-C still sends its signal; Ctrl-Z does nothing."""
    reader = KeyReader(sys.stdin.fileno(), termios.tcgetattr(sys.stdin))
    reader.make_quiet()
    try:
        yield reader
    finally:
        reader.restore()


@attrs.define(eq=False)
class KeyReader:
    """Made by `quiet_keys`."""

    _stdin: int
    _before: list[Any]
    """The original attributes of the terminal."""
    _pasting: bool = False

    def make_quiet(self) -> None:
        quiet = [*self._before]
        quiet[_LOCAL_MODES] &= ~(termios.ICANON | termios.ECHO)
        quiet[_CHARACTERS] = [*quiet[_CHARACTERS]]
        quiet[_CHARACTERS][termios.VSUSP] = b"\x00"
        self._set(quiet)

    def restore(self) -> None:
        self._set(self._before)

    @contextmanager
    def lent(self) -> Iterator[None]:
        """Restore the terminal in the block, for another program."""
        self.restore()
        try:
            yield
        finally:
            self.make_quiet()

    def _set(self, attributes: list[Any]) -> None:
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(self._stdin, termios.TCSANOW, attributes)

    async def key(self) -> str:
        """The next single key, or `END_OF_INPUT` if the terminal was closed. Pasted text and arrow keys are
        discarded, because no part of them is an answer."""
        _write("\x1b[?2004h")  # the terminal marks pasted text
        try:
            while (key := self._alone(await self._read())) is None:
                pass
            return key
        finally:
            _write("\x1b[?2004l")

    async def _read(self) -> str:
        await trio.lowlevel.wait_readable(self._stdin)
        try:
            chunk = os.read(self._stdin, _CHUNK).decode("utf-8", "replace")
        except OSError:  # the terminal was closed
            chunk = ""
        return chunk or END_OF_INPUT

    def _alone(self, chunk: str) -> str | None:
        if _PASTE in chunk:
            self._pasting = True
        if self._pasting:
            self._pasting = _PASTED not in chunk
            return None
        key = chunk.rstrip("\r\n")
        return key if len(key) == 1 and (key.isprintable() or key == END_OF_INPUT) else None


def _write(codes: str) -> None:
    sys.stdout.write(codes)
    sys.stdout.flush()
