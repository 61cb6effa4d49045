"""Single keys of the terminal, for questions that one key answers."""

from __future__ import annotations

import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import attrs
import trio

END_OF_INPUT = "\x04"
"""Ctrl-D."""
_CHUNK = 4096
_PASTE, _PASTED = "\x1b[200~", "\x1b[201~"
_CONTROL_CHARACTERS = 6
"""The index of the control characters in what `termios.tcgetattr` returns."""


@contextmanager
def quiet_keys() -> Iterator[KeyReader]:
    """Keys arrive one by one, and are not shown. Ctrl-C still sends its signal; Ctrl-Z does nothing."""
    stdin = sys.stdin.fileno()
    before = termios.tcgetattr(stdin)
    now = termios.tcgetattr(stdin)
    now[3] &= ~(termios.ICANON | termios.ECHO)
    now[_CONTROL_CHARACTERS][termios.VSUSP] = b"\x00"
    termios.tcsetattr(stdin, termios.TCSANOW, now)
    _write("\x1b[?2004h")  # pasted text is marked as such
    try:
        yield KeyReader(stdin)
    finally:
        _write("\x1b[?2004l")
        with suppress(termios.error):  # the terminal was closed
            termios.tcsetattr(stdin, termios.TCSANOW, before)


@attrs.define(eq=False)
class KeyReader:
    _stdin: int
    _pasting: bool = False

    async def key(self) -> str:
        """The next key that is pressed alone. Pasted text and arrow keys are passed over: no part of them is
        an answer. `END_OF_INPUT` also when the terminal was closed."""
        while True:
            await trio.lowlevel.wait_readable(self._stdin)
            try:
                chunk = os.read(self._stdin, _CHUNK).decode("utf-8", "replace")
            except OSError:  # the terminal was closed
                chunk = ""
            if not chunk:
                return END_OF_INPUT
            if (key := self._alone(chunk)) is not None:
                return key

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
