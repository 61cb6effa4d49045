from __future__ import annotations

from pathlib import Path

import pytest

from tests.actors.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nothing in it yet. Whoever runs an agent in it asks for `autojump_clock` too."""
    return World(tmp_path)
