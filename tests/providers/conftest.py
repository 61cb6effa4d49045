from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
import trio
from trio.testing import MockClock

from tests.canary import KEY
from tests.providers.story import KEYS

T = TypeVar("T")


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key for all, to be looked for afterwards."""
    for name in KEYS:
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anthropic's SDK looks up the platform in a thread, and virtual time does not wait for threads."""
    import anthropic._base_client

    def asyncify(work: Callable[[], T]) -> Callable[[], Awaitable[T]]:
        async def in_this_thread() -> T:
            await trio.lowlevel.checkpoint()
            return work()

        return in_this_thread

    monkeypatch.setattr(anthropic._base_client, "asyncify", asyncify)


@pytest.fixture
def patient_clock() -> MockClock:
    """Virtual time that only passes when nothing has come over the sockets for a while."""
    return MockClock(autojump_threshold=0.005)
