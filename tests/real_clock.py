"""No test waits for the real clock: what it waits for tells when it has happened (`tests/waiting.py`).

A sleep or a time limit of trio in a file of the tests is refused while trio's clock is the real one. A check
of the source could not tell, because most tests run on a clock that jumps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import trio
from trio._core._run import SystemClock

TESTS = str(Path(__file__).parent)
WAITS = str(Path(__file__).with_name("waiting.py"))
PAUSING = ("bench/", "actors/world.py", "providers/servers/http.py", "streams/watchers.py")
"""Figures, doubles of models and tools that take their time, and clients that try again."""
ALLOWED = (WAITS, *(f"{TESTS}/{each}" for each in PAUSING))
NAMES = ("sleep", "sleep_until", "fail_after", "fail_at", "move_on_after", "move_on_at")


class RealClock(AssertionError):
    """A test would wait for the real clock."""


def install_guard() -> None:
    for name in NAMES:
        setattr(trio, name, guarded(name, getattr(trio, name)))


def guarded(name: str, wait: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(wait)
    def check(seconds: float, /, *args: Any, **options: Any) -> Any:
        caller = sys._getframe(1)
        file = caller.f_code.co_filename
        if file.startswith(TESTS) and seconds not in (0, float("inf")) and is_real(file):
            raise RealClock(f"{file}:{caller.f_lineno}: trio.{name}({seconds:g}) on the real clock")
        return wait(seconds, *args, **options)

    return check


def is_real(file: str) -> bool:
    if file.startswith(ALLOWED):
        return False
    return isinstance(trio.lowlevel.current_clock(), SystemClock)
