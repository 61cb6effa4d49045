from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.runtime.restart import Backoff, Intensity, RestartWindow, Streak

chance = st.floats(0, 1, exclude_max=True)
backoffs = st.builds(
    Backoff,
    first=st.floats(0, 10),
    factor=st.floats(1, 10),
    limit=st.floats(0, 100),
    jitter=st.floats(0, 1),
    random=chance.map(lambda number: lambda: number),
)


@given(backoffs, st.integers(1, 10_000))
def test_a_delay_is_never_negative_and_never_beyond_the_limit(backoff: Backoff, failures: int) -> None:
    assert 0 <= backoff.delay(failures) <= backoff.limit


@given(backoffs, st.integers(1, 1000))
def test_without_jitter_delays_never_shrink(backoff: Backoff, failures: int) -> None:
    even = Backoff(first=backoff.first, factor=backoff.factor, limit=backoff.limit, jitter=0)
    assert even.delay(failures) <= even.delay(failures + 1)


@given(chance, st.floats(0, 1))
def test_jitter_takes_away_at_most_its_part(number: float, jitter: float) -> None:
    delay = Backoff(first=8, jitter=jitter, random=lambda: number).delay(1)
    assert delay == 8 * (1 - jitter * number)


def test_delays_grow_by_the_factor_up_to_the_limit() -> None:
    backoff = Backoff(first=1, factor=3, limit=20, jitter=0)
    assert [backoff.delay(n) for n in range(1, 6)] == [1, 3, 9, 20, 20]


@pytest.mark.parametrize(
    "wrong", [{"first": -1.0}, {"factor": 0.5}, {"limit": -1.0}, {"jitter": 1.5}, {"healthy": 0.0}]
)
def test_a_senseless_back_off_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Backoff(**wrong)  # type: ignore[arg-type]


@given(st.lists(st.floats(0, 100), max_size=30))
def test_a_streak_counts_failures_since_the_last_healthy_life(lives: list[float]) -> None:
    backoff = Backoff(first=1, factor=2, limit=2**40, jitter=0, healthy=50)
    streak = Streak(backoff)
    for index, served in enumerate(lives):
        since_healthy = next((n for n in range(index + 1) if lives[index - n] >= 50), index)
        assert streak.fail(served) == 2**since_healthy


@given(st.integers(0, 5), st.lists(st.floats(0, 20), max_size=60))
def test_no_window_ever_holds_more_restarts_than_the_intensity(restarts: int, gaps: list[float]) -> None:
    window = RestartWindow(Intensity(restarts=restarts, period=10))
    now, admitted = 0.0, list[float]()
    for gap in gaps:
        now += gap
        recent = [time for time in admitted if time > now - 10]
        assert window.admit(now) == (len(recent) < restarts)
        if len(recent) < restarts:
            admitted.append(now)
