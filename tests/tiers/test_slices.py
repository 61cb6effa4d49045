"""A full pass of slices is the whole family, and each slice has its share."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as some

from tests.tiers.slices import Slice, chosen, deal, units_of, weights_of

weights = some.dictionaries(some.text(max_size=8), some.floats(0, 100), max_size=60)


@given(weights, some.integers(1, 20), some.integers(0, 1 << 32))
def test_slices_have_about_the_same_weight(units: dict[str, float], slices: int, seed: int) -> None:
    dealt = deal(units, slices, seed)
    assert dealt.keys() == units.keys()
    assert set(dealt.values()) <= set(range(1, slices + 1))
    heavy = [sum(units[unit] for unit, number in dealt.items() if number == n) for n in range(1, slices + 1)]
    assert max(heavy) - min(heavy) <= max(units.values(), default=0.0) + 1e-6


@given(some.integers(1, 200), some.integers(1, 20), some.integers(0, 1 << 32))
def test_units_of_one_weight_are_dealt_evenly(number: int, slices: int, seed: int) -> None:
    counted = Counter(deal({str(n): 1.0 for n in range(number)}, slices, seed).values())
    assert max(counted.values()) - min(counted[n] for n in range(1, slices + 1)) <= 1


def test_the_seed_decides_and_repeats() -> None:
    units = {f"tests/test_{number}.py": float(number % 7) for number in range(40)}
    assert deal(units, 8, 1) == deal(dict(reversed(units.items())), 8, 1)
    assert len({tuple(sorted(deal(units, 8, seed).items())) for seed in range(20)}) == 20


def test_a_heavy_file_is_dealt_by_its_cases() -> None:
    cases = ["a.py::one", "a.py::two[x::y]", "b.py::one", "b.py::two"]
    seconds = {"a.py": 5.0, "b.py": 0.5}
    units = units_of(cases, seconds, 2)
    assert units == {"a.py::one": "a.py::one", "a.py::two[x::y]": "a.py::two[x::y]", "b.py::one": "b.py"} | {
        "b.py::two": "b.py"
    }
    assert weights_of(units, seconds) == {"a.py::one": 5.0, "a.py::two[x::y]": 5.0, "b.py": 1.0}


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "1/0", "a/b", "1/9999", "-1/8", "1/8/9"])
def test_a_wrong_slice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a slice is K/N"):
        Slice.parse(text)


@pytest.mark.parametrize(("slices", "part"), [(8, "5/8"), (2, "1/2"), (6, "5/6"), (4, "1/4"), (1, "1/1")])
def test_a_family_with_fewer_slices_takes_its_turn(slices: int, part: str) -> None:
    assert str(Slice.parse("5/8").within(slices)) == part


def test_programs_take_slices_or_names() -> None:
    units = [f"unit {number}" for number in range(10)]
    parts = [chosen(units, [f"--slice={number}/4", "--seed=7"])[0] for number in range(1, 5)]
    assert sorted(unit for part in parts for unit in part) == units
    assert {len(part) for part in parts} == {2, 3}
    assert chosen(units, ["unit", "--all"]) == (units, ["unit", "--all"])
    assert [chosen(["a", "b"], [f"--slice={number}/8", "--seed=7"])[0] for number in (1, 2)] in (
        [["a"], ["b"]],
        [["b"], ["a"]],
    )
