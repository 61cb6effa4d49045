"""Virtual time: the clock jumps ahead when all tasks wait, so that long timeouts and expiries take no
time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from unittest.mock import patch

import trio
from trio.testing import MockClock

T = TypeVar("T")


def run_in_virtual_time(
    process: Callable[[], Awaitable[T]], clock: trio.abc.Clock | None = None, **options: Any
) -> T:
    """Like `trio.run`, with a clock that jumps unless `clock` is given."""
    with without_threads():
        return trio.run(process, clock=clock or MockClock(autojump_threshold=0), **options)


@contextmanager
def without_threads() -> Iterator[None]:
    """Run the work of `trio.to_thread` in trio's thread, because a clock that jumps does not wait for
    threads."""

    async def here(work: Callable[..., object], *args: object, **_: object) -> object:
        await trio.lowlevel.checkpoint()
        return work(*args)

    with patch.object(trio.to_thread, "run_sync", here):
        yield
