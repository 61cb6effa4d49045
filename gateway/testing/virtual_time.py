"""Time that passes as soon as every task waits: a day of timeouts and expiries takes no time."""

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
    """As `trio.run`, by a clock that jumps, unless another one is given."""
    with without_threads():
        return trio.run(process, clock=clock or MockClock(autojump_threshold=0), **options)


@contextmanager
def without_threads() -> Iterator[None]:
    """Have trio do here what it is to do in another thread: a clock that jumps would not wait for that."""

    async def here(work: Callable[..., object], *args: object, **_: object) -> object:
        await trio.lowlevel.checkpoint()
        return work(*args)

    with patch.object(trio.to_thread, "run_sync", here):
        yield
