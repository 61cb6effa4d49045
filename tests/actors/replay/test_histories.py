"""Some of the histories of `make replays`."""

import pytest

from tests.actors.replay.histories import check


@pytest.mark.parametrize("start", range(0, 40, 8))
def test_exact_verdicts_are_those_of_a_second_life(start: int) -> None:
    for seed in range(start, start + 8):
        check(seed)
