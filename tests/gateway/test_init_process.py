"""Process 1 of a container, played by a process that gets the orphans below it."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import line_with, until_true

# PR_SET_CHILD_SUBREAPER (prctl(2)) makes a process the parent of orphans, as process 1 of a container is.
PROGRAM = """
import ctypes, os, signal, subprocess, sys
from stopgo.gateway.cli.process.init_process import leave_init

assert ctypes.CDLL(None).prctl(36, 1, 0, 0, 0) == 0
leave_init()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
signal.signal(signal.SIGHUP, lambda *_: print("hung up", flush=True))
for _ in range(3):
    subprocess.run(["sh", "-c", "cat <&0 & true"], stdin=subprocess.PIPE, check=True)
print(os.getpid(), flush=True)
exec(sys.stdin.read())
"""


def start() -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    # Three helpers have outlived their launchers, and no zombie is left of them (Memoh#209, notemesh#43).
    leaf = process.stdout.readline().strip()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until_true(lambda: children.read_text().split() == [leaf])
    return process


def test_signals_are_passed_on_and_the_exit_code_is_that_of_the_child() -> None:
    with start() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("while True: signal.pause()")
        process.stdin.close()
        process.send_signal(signal.SIGHUP)
        line_with("hung up", process.stdout)
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 7


@pytest.mark.parametrize(
    ("end", "code"), [("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)]
)
def test_it_ends_like_its_child(end: str, code: int) -> None:
    with start() as process:
        process.communicate(end)
    assert process.returncode == code
