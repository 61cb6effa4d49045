"""What all tests share."""

from __future__ import annotations

import pytest


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`@pytest.mark.repeat(n)`: trio shuffles ready tasks, so one run of a race proves little."""
    marker = metafunc.definition.get_closest_marker("repeat")
    if marker is not None:
        metafunc.fixturenames.append("repetition")
        metafunc.parametrize("repetition", range(marker.args[0]))
