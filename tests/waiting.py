"""The waits of tests for what other processes, threads and real sockets do. Tests use no other.

None of them has a limit of its own, because a limit that suits a quiet machine fails on a busy one without a
defect. pytest limits each test: after `LIMIT` it prints all stacks and ends the process, which means "hangs".
Whatever runs on trio's virtual clock needs none of this; an event or `process.wait()` is better than a poll.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import IO

import trio
from trio.testing import MockClock

LIMIT = 300.0
"""Seconds after which a test hangs: `faulthandler_timeout` in pyproject.toml. What would happen later anyway,
and must not be waited for, happens later than this."""
POLL = 0.01


async def until(condition: Callable[[], bool | Awaitable[bool]]) -> None:
    """In a task of trio, on the real clock."""
    while not (await found if isinstance(found := condition(), Awaitable) else found):  # noqa: ASYNC110 - there is no event for it
        await trio.sleep(POLL)


def until_true(condition: Callable[[], bool]) -> None:
    """In a thread, or in a test without trio."""
    never = threading.Event()
    while not condition():
        never.wait(POLL)


@contextmanager
def virtual_limit(seconds: float) -> Iterator[None]:
    """On a clock that jumps, a test that waits for nothing fails at once; the real clock has no limit."""
    is_virtual = isinstance(trio.lowlevel.current_clock(), MockClock)
    with trio.fail_after(seconds if is_virtual else math.inf):
        yield


def line_with(text: str, stream: IO[str]) -> str:
    """The next line of a process's output with this text. Raises EOFError with the output if there is
    none."""
    lines: list[str] = []
    for line in stream:
        if text in line:
            return line
        lines.append(line)
    raise EOFError(f"the output ended without {text!r}:\n{''.join(lines)}")
