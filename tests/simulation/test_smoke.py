"""A few seeds of the simulation. `make simulate` runs two thousand."""

from __future__ import annotations

from pathlib import Path

import pytest

from .fleet import simulate_fleet
from .lives import simulate
from .plan import FIRST_WITH_HALTS, FIRST_WITH_MEMBERS, FIRST_WITH_PEER
from .simulate import how_to_repeat


@pytest.mark.parametrize(
    "seed",
    [
        *range(100, 160),
        202,
        4_255,
        700_536,
        3_010_100,
        5_002_146,
        5_003_471,
        6_001_439,
        6_001_563,
        6_007_066,
        6_009_230,
        6_009_795,
        *range(FIRST_WITH_PEER, FIRST_WITH_PEER + 20),
        *range(FIRST_WITH_HALTS, FIRST_WITH_HALTS + 10),
        *range(FIRST_WITH_MEMBERS, FIRST_WITH_MEMBERS + 10),
    ],
)
def test_random_story_has_no_violations(seed: int, tmp_path: Path) -> None:
    try:
        tell = simulate_fleet if seed >= FIRST_WITH_MEMBERS else simulate
        tell(seed, None if seed % 20 else tmp_path)
    except AssertionError as wrong:
        wrong.add_note(f"To repeat it: {how_to_repeat(seed)}")
        raise
