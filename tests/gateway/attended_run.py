"""A `stopgo` process with somebody at its terminal."""

from __future__ import annotations

import os
import re
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import attrs

from tests.waiting import PATIENCE

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
        )
        os.close(stdin)
        return cls(process, keyboard)

    def see(self, pattern: str) -> re.Match[str]:
        """Wait until it says something that it has not said before."""
        deadline = time.monotonic() + PATIENCE
        while not (found := re.compile(pattern).search(self.seen, self._at)):
            assert time.monotonic() < deadline, f"no {pattern!r} in {self.seen}"
            assert self._read(deadline), f"it ended without {pattern!r}: {self.seen}"
        self._at = found.end()
        return found

    def _read(self, deadline: float) -> bool:
        assert self.process.stderr
        ready, _, _ = select.select([self.process.stderr], [], [], deadline - time.monotonic())
        chunk = os.read(self.process.stderr.fileno(), 65536) if ready else b""
        self.seen += chunk.decode()
        return bool(chunk)

    def type(self, line: str) -> None:
        os.write(self.keyboard, f"{line}\n".encode())

    def reply(self, line: str, question: str = TOOL_QUESTION) -> None:
        self.see(question)
        self.type(line)

    def end(self) -> tuple[int, str]:
        """Its exit code and what it said on stdout."""
        out, err = self.process.communicate(timeout=PATIENCE)
        self.seen += err.decode()
        assert "Traceback" not in self.seen, self.seen
        return self.process.returncode, out.decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
        os.close(self.keyboard)
