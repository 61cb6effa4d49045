from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.conversation.result import Result
from stopgo.actors.models.messages.messages import Usage
from stopgo.actors.models.messages.usage import NOTHING, Spent, spent_by
from stopgo.config.sections.models import Prices

PRICES = Prices(input=3.0, output=15.0, cached_input=0.3, cache_write=3.75)


@pytest.mark.parametrize(
    ("usage", "prices", "dollars"),
    [
        (Usage(1_000_000, 0), PRICES, 3.0),
        (Usage(0, 1_000_000), PRICES, 15.0),
        (Usage(1_000_000, 0, 1_000_000), PRICES, 0.3),
        (Usage(1_000_000, 0, 0, 1_000_000), PRICES, 3.75),
        (Usage(1_000_000, 200_000, 500_000, 400_000), PRICES, 0.3 + 0.15 + 1.5 + 3.0),
        (Usage(1_000_000, 0, 500_000, 500_000), Prices(2.0, 0.0), 2.0),
        (Usage(10, 0, 30), PRICES, 30 * 0.3 / 1e6),  # a provider that counts cached tokens apart
        (Usage(1, 0), Prices(0.0001, 0.0), 0.0),
    ],
)
def test_what_a_call_costs(usage: Usage, prices: Prices, dollars: float) -> None:
    assert spent_by(usage, prices).cost_usd == pytest.approx(dollars, abs=1e-9)


def test_unknown_cost_is_left_out() -> None:
    known, unknown = spent_by(Usage(1000, 100), PRICES), spent_by(Usage(10, 1), None)
    assert known.to_json() == {"input_tokens": 1000, "output_tokens": 100, "cost_usd": 0.0045}
    assert unknown.to_json() == {"input_tokens": 10, "output_tokens": 1}
    both = known.plus(unknown.usage)
    assert both.to_json() == {"input_tokens": 1010, "output_tokens": 101}
    assert both.cost_usd == 0.0045  # the known cost, for limits
    assert unknown.plus(known.usage) == both


def test_call_without_tokens_keeps_the_cost_known() -> None:
    known = spent_by(Usage(1000, 100), PRICES)
    assert spent_by(Usage(), None) == spent_by(Usage(), PRICES) == NOTHING
    assert known.plus(NOTHING.usage) == known


calls = st.builds(
    spent_by,
    st.builds(Usage, *[st.integers(0, 10**7)] * 4),
    st.none() | st.just(PRICES) | st.just(Prices(0.0, 0.0)),
)


@given(st.lists(calls, max_size=6), st.randoms())
def test_order_of_calls_does_not_change_the_sum(spent: list[Spent], random: Random) -> None:
    def total(each: list[Spent]) -> Spent:
        sum_ = NOTHING
        for one in each:
            sum_ = sum_.plus(one.usage)
        return sum_

    shuffled = list(spent)
    random.shuffle(shuffled)
    one, other = total(spent), total(shuffled)
    assert one[:4] == other[:4]
    assert one.unpriced == other.unpriced
    assert one.cost_usd == pytest.approx(other.cost_usd, abs=1e-6)


def test_stored_usage_is_read_in_both_forms() -> None:
    result = Result("said", "finished", "r", usage=Spent(1, 2, 1, 0, 0.5))
    assert Result.from_json(result.to_json()) == result
    older = {"response": "said", "state": "finished", "approvals": [], "input_tokens": 1, "output_tokens": 2}
    assert Result.from_json(older) == Result("said", "finished", usage=Spent(1, 2))
