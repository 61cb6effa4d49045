"""Ends the stdio servers of a process that was killed, by means of a small process that outlives it.

A killed process cannot stop its servers. They see the end of their input, and a server that ignores that
would go on working on a call, while after the restart a person is asked about its outcome. So the watcher
process reads a pipe. It gets the number of each process group that starts or has ended. The pipe closes
however this process ends; then the watcher process ends the groups that are left.

A parent-death signal would not do: it exists on Linux only, follows the thread that started the child, and
does not reach the child's children (`npx` starts the actual server). The watcher does not reach a process
that leaves its server's group, nor a server between its start and the message about it; such a server has
been sent nothing yet.

This file is the program of the watcher process, too, so it imports little, and nothing of the package.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

START_TIMEOUT = 10.0
"""Seconds for the watcher process to start, which normally takes hundredths of a second."""
GRACE = 2.0
"""Seconds between SIGTERM and SIGKILL."""


class Watcher:
    """The process groups that must not outlive this process, and the pipe to the process that ends them."""

    def __init__(self, grace: float = GRACE) -> None:
        """`grace`: seconds between SIGTERM and SIGKILL for the groups that are left."""
        self._grace = grace
        self._groups: set[int] = set()
        self._pipe: int | None = None
        self._starting = threading.Lock()
        self._lock = threading.Lock()
        """Guards the groups and the pipe; not held while the watcher process starts."""
        self.lost = False
        """The watcher process has ended before this one, while groups are running: call `start` again."""

    def start(self) -> None:
        """Start the watcher process unless it runs. Blocks for some hundredths of a second.

        A failure is only logged, because the servers work without it.
        """
        import logging
        import subprocess

        with self._starting:
            if self._pipe is not None:
                return
            self.lost = False
            theirs, ours = os.pipe()
            try:
                subprocess.run(
                    [sys.executable, "-I", "-S", __file__, str(self._grace)],
                    stdin=theirs,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    env={},
                    start_new_session=True,
                    check=True,
                    timeout=START_TIMEOUT,
                )
            except (OSError, subprocess.SubprocessError) as error:
                os.close(ours)
                log = logging.getLogger(__name__)
                log.warning("tool servers may outlive this process should it be killed: %s", error)
                return
            finally:
                os.close(theirs)
            with self._lock:
                self._pipe = ours
                for group in self._groups:
                    self._send(b"+%d\n" % group)

    def add(self, group: int) -> None:
        """Watch this process group."""
        with self._lock:
            self._groups.add(group)
            self._send(b"+%d\n" % group)

    def remove(self, group: int) -> None:
        """Stop watching a process group: it is empty, and the system may reuse its number."""
        with self._lock:
            self._groups.discard(group)
            self._send(b"-%d\n" % group)

    def _send(self, line: bytes) -> None:
        if self._pipe is None:
            return
        try:
            os.write(self._pipe, line)
        except BrokenPipeError:  # the watcher was killed
            os.close(self._pipe)
            self._pipe = None
            self.lost = bool(self._groups)


watcher = Watcher()
"""The watcher of this process, for all its servers."""


def main() -> None:
    """Run the watcher process: an orphan in a session of its own, which ends when its input does."""
    if os.fork():
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    groups: set[int] = set()
    for line in sys.stdin:
        change = groups.add if line[0] == "+" else groups.discard
        change(int(line[1:]))
    deadline = time.monotonic() + float(sys.argv[1])
    groups = {group for group in groups if _reaches(group, signal.SIGTERM)}
    while groups and time.monotonic() < deadline:
        time.sleep(0.05)
        groups = {group for group in groups if _reaches(group, 0)}
    for group in groups:
        _reaches(group, signal.SIGKILL)


def _reaches(group: int, number: int) -> bool:
    """Signal a group; False when the group is empty."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main()
