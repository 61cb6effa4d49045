"""A `stopgo` process in a terminal with a screen: what a person sees, and what a person types."""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pyte

PROMPT = r"\n>"
"""Of `stopgo chat`, where a message can be typed."""


def _size(columns: int, rows: int) -> bytes:
    return struct.pack("HHHH", rows, columns, 0, 0)


@attrs.define(eq=False)
class Screen:
    """All three streams of the process are the terminal, as in a shell."""

    process: subprocess.Popen[bytes]
    terminal: int
    cells: pyte.HistoryScreen
    _stream: pyte.ByteStream
    raw: bytes = b""
    """Everything that was written, with its codes."""

    @classmethod
    def begin(
        cls,
        command: Sequence[str | Path],
        cwd: Path,
        env: Mapping[str, str],
        *,
        columns: int = 100,
        rows: int = 30,
    ) -> Screen:
        terminal, inside = os.openpty()
        fcntl.ioctl(inside, termios.TIOCSWINSZ, _size(columns, rows))
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | {"TERM": "xterm-256color", **env},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inside)
        screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=1)
        return cls(process, terminal, screen, pyte.ByteStream(screen))

    @property
    def text(self) -> str:
        """What can be seen, and what has scrolled away, without the spaces at the ends of lines."""
        above = [
            "".join(line[column].data for column in range(self.cells.columns))
            for line in self.cells.history.top
        ]
        return "\n".join(line.rstrip() for line in [*above, *self.cells.display]).rstrip()

    def see(self, pattern: str, *, last: bool = False) -> re.Match[str]:
        """Wait until it stands on the screen; `last`: as the last that stands there."""
        whole = re.compile(rf"(?:{pattern})\s*\Z" if last else pattern)
        while not (found := whole.search(self.text)):
            assert self._read(), f"it ended without {pattern!r}:\n{self.text}"
        return found

    def _read(self) -> bool:
        try:
            chunk = os.read(self.terminal, 65536)
        except OSError:  # the process has ended
            chunk = b""
        self.raw += chunk
        self._stream.feed(chunk)
        return bool(chunk)

    def read(self) -> None:
        """Wait until it writes something."""
        assert self._read(), f"it writes nothing more:\n{self.text}"

    def type(self, keys: str) -> None:
        """Press keys. Long text is read by the process while it is typed."""
        left = keys.encode()
        while left:
            readable, writable, _ = select.select([self.terminal], [self.terminal], [])
            if readable:
                self._read()
            if writable:
                left = left[os.write(self.terminal, left[:1024]) :]

    def say(self, line: str) -> None:
        """Type a line when the prompt is there."""
        self.see(PROMPT, last=True)
        self.type(f"{line}\r")

    def paste(self, text: str) -> None:
        """Paste, as terminals do that mark what is pasted."""
        self.type(f"\x1b[200~{text}\x1b[201~")

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, _size(columns, rows))
        self.process.send_signal(signal.SIGWINCH)
        self.cells.resize(rows, columns)

    def end(self) -> int:
        """Its exit code, once it has ended."""
        while self._read():
            pass
        code = self.process.wait()
        assert "Traceback" not in self.text, self.text
        return code

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.terminal)
