"""Process groups end with the process that started them; `tests/e2e/test_crash.py` kills a real agent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from stopgo.actors.mcp.transports.watcher import Watcher
from tests.e2e.conftest import wait_until_gone
from tests.waiting import until_true

STUBBORN = """
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(flush=True)
signal.pause()
"""


class Group:
    """A process group of one process that ignores SIGTERM."""

    def __init__(self) -> None:
        command = [sys.executable, "-S", "-c", STUBBORN]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
        assert self._child.stdout is not None
        self._child.stdout.readline()
        self.id = self._child.pid

    def killed(self) -> bool:
        return self._child.wait() == -signal.SIGKILL

    @property
    def lives(self) -> bool:
        return self._child.poll() is None

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


@pytest.fixture
def groups() -> Iterator[list[Group]]:
    started = [Group(), Group()]
    yield started
    for group in started:
        group.close()


def process_of(watcher: Watcher) -> psutil.Process:
    """Return the process that reads the pipe."""
    assert watcher._pipe is not None
    pipe = f"pipe:[{os.fstat(watcher._pipe).st_ino}]"
    [found] = [pid for pid in psutil.pids() if pid != os.getpid() and _reads(pid) == pipe]
    return psutil.Process(found)


def _reads(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/fd/0")
    except OSError:
        return None


class WatchedLock:
    """A lock that tells whether a thread had to wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.awaited = False

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self.awaited = True
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def end(watcher: Watcher) -> None:
    """Close the pipe, as the system does when a process ends."""
    assert watcher._pipe is not None
    os.close(watcher._pipe)
    watcher._pipe = None


def test_groups_end_when_the_pipe_closes_and_no_other(
    groups: list[Group],
) -> None:
    watcher = Watcher(grace=0.1)
    watcher.start()
    watcher.start()
    left, over = groups
    for group in groups:
        watcher.add(group.id)
    watcher.remove(over.id)
    process = process_of(watcher)
    end(watcher)
    assert left.killed()
    wait_until_gone([process])
    assert over.lives


def test_watcher_ignores_termination_signals(groups: list[Group]) -> None:
    watcher = Watcher(grace=0.1)
    watcher.start()
    process = process_of(watcher)
    assert os.getsid(process.pid) not in (os.getsid(0), process.pid)
    assert process not in psutil.Process().children(recursive=True)
    assert process.environ() == {} or set(process.environ()) == {"LC_CTYPE"}  # nor has it our secrets
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    watcher.add(groups[0].id)
    end(watcher)
    assert groups[0].killed()
    wait_until_gone([process])


def test_killed_watcher_is_replaced_and_keeps_its_groups(groups: list[Group]) -> None:
    watcher = Watcher(grace=0.1)
    watcher.start()
    watcher.add(groups[0].id)
    killed = process_of(watcher)
    killed.kill()
    wait_until_gone([killed])
    watcher.add(groups[1].id)
    assert watcher.lost
    watcher.start()
    assert not watcher.lost
    end(watcher)
    assert all(group.killed() for group in groups)


def test_groups_may_start_and_end_while_it_starts(
    groups: list[Group], monkeypatch: pytest.MonkeyPatch
) -> None:
    watcher = Watcher(grace=0.1)
    first, second = groups
    adding = threading.Thread(target=watcher.add, args=[second.id])
    lock = WatchedLock()
    monkeypatch.setattr(watcher, "_lock", lock)
    write = os.write

    def slow(pipe: int, data: bytes) -> int:
        if not adding.ident:
            adding.start()
            until_true(lambda: lock.awaited or not adding.is_alive())
        return write(pipe, data)

    run = subprocess.run

    def meanwhile(*args: Any, **more: Any) -> object:
        change = threading.Thread(target=watcher.add, args=[first.id])
        change.start()
        change.join()  # the start, which may take seconds, does not hold it up
        return run(*args, **more)

    monkeypatch.setattr(subprocess, "run", meanwhile)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", slow)
        watcher.start()
        adding.join()
    end(watcher)
    assert all(group.killed() for group in groups)


def test_watcher_that_cannot_start_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    watcher = Watcher(grace=0.1)
    watcher.start()
    watcher.add(1)
    watcher.remove(1)
    assert "tool servers may outlive this process" in caplog.text
