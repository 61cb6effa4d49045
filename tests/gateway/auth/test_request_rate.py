"""The count of requests in a minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.auth import request_rate
from stopgo.gateway.auth.request_rate import WINDOW, RequestRate


def test_requests_of_a_minute_are_counted() -> None:
    rate = RequestRate(3)
    assert [rate.admit("a", now) for now in (0.0, 0.9, 30.0)] == [None, None, None]
    assert rate.admit("b", 30.0) is None
    assert rate.admit("a", 30.5) == 31
    assert rate.admit("a", 60.9) == 1
    assert [rate.admit("a", now) for now in (61.0, 61.0, 61.0)] == [None, None, 30]


@given(st.integers(1, 5), st.lists(st.floats(0.0, 20.0), max_size=60))
def test_no_minute_has_more_than_the_limit(limit: int, pauses: list[float]) -> None:
    rate = RequestRate(limit)
    now, admitted = 1000.0, list[float]()
    for pause in pauses:
        now += pause
        wait = rate.admit("a", now)
        if wait is None:
            admitted.append(now)
        else:
            assert 1 <= wait <= WINDOW + 1
            assert len([at for at in admitted if at >= now - WINDOW - 1]) >= limit
        assert len([at for at in admitted if at > now - WINDOW]) <= limit


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_rate, "MOST_PRINCIPALS", 3)
    rate = RequestRate(1)
    for name in ("a", "b", "c"):
        assert rate.admit(name, 0.0) is None
    assert rate.admit("a", 1.0) == 60
    assert rate.admit("d", 1.0) is None
    assert len(rate._by_principal) == 3
    assert rate.admit("a", 1.0) == 60  # not the one that was idle longest
    for now in range(1000):
        rate.admit("e", now / 10)
    assert len(rate._by_principal["e"].seconds) == 1
