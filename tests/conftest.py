"""What all tests share."""

from __future__ import annotations

import pytest
from hypothesis import settings

# Wall time says nothing on a busy machine.
settings.register_profile("stopgo", deadline=None)
settings.load_profile("stopgo")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.repeat(n)`: trio shuffles ready tasks, so one run of a race proves little."""
    marker = metafunc.definition.get_closest_marker("repeat")
    if marker is not None:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(marker.args[0]))
