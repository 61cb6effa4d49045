"""No mutated stream sends a call that the model did not write. `mutated_streams` runs as many as you like."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .mutated_streams import DIALECTS, Dialect, judge


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
@given(st.integers(0))
def test_mutated_stream_sends_only_calls_of_the_model(dialect: Dialect, seed: int) -> None:
    wrong = judge(dialect, Random(seed))
    assert wrong is None, wrong
