from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.canary import KEY
from tests.providers.story import KEYS


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same key for all, to be looked for afterwards."""
    for name in KEYS:
        monkeypatch.setenv(name, KEY)


@pytest.fixture
def patient_clock() -> MockClock:
    """Virtual time that only passes when nothing has come over the sockets for a while."""
    return MockClock(autojump_threshold=0.02)
