"""A `stopgo` process with somebody at its terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs

TOOL_QUESTION = r"Run it\? .* >"


@attrs.define(eq=False)
class AttendedRun:
    """A process whose stdin is a terminal."""

    process: subprocess.Popen[bytes]
    keyboard: int
    seen: str = ""
    """Of stderr, so far."""
    _at: int = 0

    @classmethod
    def begin(cls, command: Sequence[str | Path], cwd: Path, **env: str) -> AttendedRun:
        keyboard, stdin = os.openpty()
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=os.environ | env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),  # the tests may run under nohup
        )
        os.close(stdin)
        return cls(process, keyboard)

    def see(self, pattern: str) -> re.Match[str]:
        """Wait until it says something that it has not said before."""
        while not (found := re.compile(pattern).search(self.seen, self._at)):
            assert self._read(), f"it ended without {pattern!r}: {self.seen}"
        self._at = found.end()
        return found

    def _read(self) -> bool:
        assert self.process.stderr
        chunk = os.read(self.process.stderr.fileno(), 65536)
        self.seen += chunk.decode()
        return bool(chunk)

    def type(self, line: str) -> None:
        os.write(self.keyboard, f"{line}\n".encode())

    def reply(self, line: str, question: str = TOOL_QUESTION) -> None:
        self.see(question)
        self.type(line)

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said on stdout."""
        out, err = self.process.communicate()
        self.seen += err.decode()
        assert "Traceback" not in self.seen, self.seen
        return self.process.returncode, out.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        os.close(self.keyboard)
