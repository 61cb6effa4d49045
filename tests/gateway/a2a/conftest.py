from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from trio.testing import MockClock

from tests.actors.world import World

from .talk import Talk, furnish, talking


@pytest.fixture
async def talk(tmp_path: Path, autojump_clock: MockClock) -> AsyncIterator[Talk]:
    """An agent with clients. Use it together with `autojump_clock`."""
    async with talking(furnish(World(tmp_path))) as talk:
        yield talk
