"""Processes of `make neighbours`: installations, which are kept, and servers, which end with their use.

Every wait has a bound, and every process is the head of a group that is ended with it, also after Ctrl-C.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import attrs

from tests.http_client import get, post
from tests.waiting import until_true

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "testdata" / "neighbours"
BUILD = ROOT / "build" / "neighbours"
BIN = Path(sys.executable).parent
INSTALLING = 900
"""Seconds that the installation of one neighbour may take."""
USING = 300
"""Seconds that the use of one neighbour may take."""
ENDING = 20
"""Seconds from SIGTERM to SIGKILL."""


@contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raises TimeoutError in the block after that time. For the main thread."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"no end after {seconds} seconds")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


@contextmanager
def running(argv: Sequence[str], **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A process without standard input, which ends with the block, and with it all of its group."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, text=True, process_group=0, **options)
    try:
        yield process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(argv: Sequence[str], folder: Path) -> None:
    """Raises RuntimeError with the end of the output if the command fails."""
    log = folder / "install.log"
    with log.open("w") as out, running(argv, cwd=folder, stdout=out, stderr=out) as process:
        if process.wait():
            raise RuntimeError(f"{' '.join(argv)}: {log.read_text()[-400:]}")


@contextmanager
def fresh(folder: Path) -> Iterator[bool]:
    """Whether the block has to install into the folder, which is then empty, even after a failure."""
    done = folder / ".installed"
    if done.exists():
        yield False
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with limited(INSTALLING):
        yield True
    done.touch()


def python_with(name: str, *packages: str) -> str:
    """A Python of its own that has these packages."""
    folder = BUILD / name
    python = str(folder / "bin" / "python")
    with fresh(folder) as needed:
        if needed:
            venv.create(folder, with_pip=True)
            run([python, "-m", "pip", "install", "--quiet", *packages], folder)
    return python


def script_with(script: Path, *packages: str) -> str:
    """A copy of a script for node, beside these packages of npm."""
    folder = BUILD / script.stem
    with fresh(folder) as needed:
        if needed:
            options = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", "."]
            run(["npm", "install", *options, *packages], folder)
    return str(shutil.copy(script, folder))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


@attrs.define
class Agent:
    """A `stopgo serve`, and requests to it."""

    url: str = ""
    lines: list[str] = attrs.field(factory=list)

    def read(self, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self.lines.append(line)
            if found := re.search(r'listening on (http://[^\s"]+)', line):
                self.url = found[1]

    def get(self, path: str) -> Any:
        return get(self.url + path).json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        return post(self.url + path, json=body).json()


@contextmanager
def serving(folder: Path) -> Iterator[Agent]:
    """The agent of `agent.yaml` in the folder. Raises RuntimeError with its output if it does not start."""
    argv = [str(BIN / "stopgo"), "serve", "--config", "agent.yaml", "--port", "0", "--data-dir", "data"]
    agent = Agent()
    with running(argv, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        threading.Thread(target=agent.read, args=(process,), daemon=True).start()
        until_true(lambda: bool(agent.url) or process.poll() is not None)
        if not agent.url:
            raise RuntimeError("".join(agent.lines[-10:]))
        yield agent
