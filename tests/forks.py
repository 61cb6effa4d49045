"""`stopgo` processes that start in a tenth of a second, as forks of a process that has imported all modules.

A fork has a pid, signals, an environment and standard streams of its own, and ends like any process.
Only the imports are shared, which take a second or two. Tests of the start itself run the command instead.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

MESSAGE = 1 << 20
"""Maximum length of a command with its environment, in bytes."""


class Fork:
    """The part of `subprocess.Popen` that tests use."""

    def __init__(self, pid: int, status: socket.socket, stdout: IO[str]) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._status = status

    def poll(self) -> int | None:
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._status.settimeout(timeout)
            try:
                answer = self._status.recv(16)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired("stopgo", timeout or 0) from None
            self.returncode = int(answer)
            self._status.close()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def end(self) -> str:
        """Wait for its end. Returns the rest of its output."""
        with self.stdout:
            rest = self.stdout.read()
        self.wait()
        return rest

    def close(self) -> None:
        """Leave nothing running."""
        self.send_signal(signal.SIGKILL)
        self.wait()
        self.stdout.close()


class Forks:
    """A process that forks. It is no child of the tests, and ends with them."""

    def __init__(self) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno())]
            subprocess.run(command, pass_fds=[theirs.fileno()], check=True)

    def start(
        self,
        *args: str | Path,
        cwd: Path,
        env: Mapping[str, str] = os.environ,
        stderr: int | None = None,
    ) -> Fork:
        """Run `stopgo` with these arguments; or Python, if the first is "-c".

        `stderr` is a descriptor, which is left open; None: where `stdout` is.
        """
        status, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        reader, writer = os.pipe()
        with theirs, open(os.devnull) as stdin, open(writer, "wb") as pipe:
            streams = (stdin.fileno(), pipe.fileno(), pipe.fileno() if stderr is None else stderr)
            message = json.dumps([[str(each) for each in args], str(cwd), dict(env)]).encode()
            socket.send_fds(self._requests, [message], [*streams, theirs.fileno()])
        return Fork(int(status.recv(16)), status, open(reader, encoding="utf-8"))


@cache
def forks() -> Forks:
    return Forks()


def main(requests: socket.socket) -> int:
    """Fork for each request until there are no more. Returns the exit code of this process, or of a fork."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # they need no wait()
    while True:
        message, fds, _, _ = socket.recv_fds(requests, MESSAGE, 4)
        if not message:
            return 0
        if os.fork() == 0:
            break
        for fd in fds:
            os.close(fd)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the tests may run under nohup, and the forks do not
    # A second fork, so that this process can wait for it, and tell how it ended.
    with socket.socket(fileno=fds.pop()) as status:
        pid = os.fork()
        for number, fd in enumerate(fds):
            if pid == 0:
                os.dup2(fd, number)
            os.close(fd)
        if pid != 0:
            status.send(str(pid).encode())
            status.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
            os._exit(0)
    args, cwd, env = json.loads(message)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    if args[0] == "-c":
        sys.argv = ["-c", *args[2:]]
        exec(args[1], {"__name__": "__main__"})
        return 0
    sys.argv = ["stopgo", *args]
    return run_stopgo(args)


if __name__ == "__main__":
    if os.fork() != 0:
        os._exit(0)
    sys.path.pop(0)  # the folder of this file
    # What a server needs: its own modules, and those that it imports when it has to.
    import stopgo.actors.mcp.wire.sdk
    import stopgo.gateway.serve_process  # noqa: F401
    from stopgo.gateway.cli.main import main as run_stopgo

    gc.freeze()
    sys.exit(main(socket.socket(fileno=int(sys.argv[1]))))
