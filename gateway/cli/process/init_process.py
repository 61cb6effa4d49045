"""Process 1 of a container: it passes on signals, and reaps processes whose parents have ended.

The kernel gives such orphans to process 1: helpers that launchers of browsers, wrappers of npx and git leave
behind. If it did not reap them, they would stay as zombies until the container has no process ids left.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

PASSED_ON = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
FROM_TERMINAL = 0x80
"""`SI_KERNEL` of Linux: the keys of a terminal send signals to the child, too."""


def leave_init() -> None:
    """Continue in a child; this process stays as its parent until the child ends, and ends like it."""
    awaited = (*PASSED_ON, signal.SIGCHLD)
    # Blocked before the child exists, so that no signal is lost.
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)
        return
    while True:
        found = signal.sigwaitinfo(awaited)
        if found.si_signo == signal.SIGCHLD:
            if (code := _reap(child)) is not None:
                os._exit(code)
        elif found.si_code != FROM_TERMINAL:
            with suppress(ProcessLookupError):
                os.kill(child, found.si_signo)


def _reap(child: int) -> int | None:
    """Reap what has ended, and return the exit code if the child has."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        if ended == 0:
            return None
