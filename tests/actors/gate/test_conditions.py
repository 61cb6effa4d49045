"""Conditions on arguments and session state, as tables and as rules that always hold."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate.conditions import MISSING, Undecided, all_hold, first_failing, holds, look_up
from stopgo.config.approval import Condition

JSON: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SCALAR = st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
PATTERN = st.sampled_from(["^a", "[0-9]+", "x|y", "."])
CONDITION = st.builds(
    Condition,
    equals=st.none() | SCALAR,
    one_of=st.none() | st.lists(SCALAR, min_size=1, max_size=3).map(tuple),
    matches=st.none() | PATTERN,
    above=st.none() | st.floats(allow_nan=False),
    below=st.none() | st.floats(allow_nan=False),
    exists=st.none() | st.booleans(),
)


@pytest.mark.parametrize(
    ("condition", "yes", "no"),
    [
        (Condition(equals="prod"), ["prod"], ["Prod", "prod ", "", None, ["prod"], {"prod": 1}, MISSING]),
        (Condition(equals=5), [5, 5.0, "5", "5.0", " 5 "], [6, True, "five", "5x", None, [5], MISSING]),
        (Condition(equals="5"), [5, "5"], ["5.0", "05", 6, True]),
        (Condition(equals=1), [1, "1"], [True, "true"]),
        (Condition(equals=True), [True, "true"], [1, "1", "True", "yes", False, None]),
        (Condition(equals=False), [False, "false"], [0, "", None, MISSING]),
        (Condition(equals=""), [""], [None, 0, False, MISSING]),
        (Condition(one_of=("a", 1)), ["a", 1, "1"], ["b", 2, True, None, MISSING]),
        (Condition(matches="^prod-"), ["prod-1"], ["x prod-1", "prod", None, ["prod-1"], MISSING]),
        (Condition(matches="od"), ["prod"], ["pro"]),
        (Condition(matches="^1.?$"), [1, 12, "1"], [123, "x"]),
        (Condition(matches="^true$"), [True, "true"], [1]),
        (Condition(above=10), [11, 10.5, "11", 10**400], [10, "10", "ten", True, None, [11], MISSING]),
        (Condition(below=0), [-1, "-1", -(10**400)], [0, "0", "", "nan", False, MISSING]),
        (Condition(above=1, below=3), [2, "2.5"], [1, 3, 4]),
        (Condition(exists=True), ["", 0, None, [], {}], [MISSING]),
        (Condition(exists=False), [MISSING], ["", 0, None, [], {}]),
        (Condition(exists=False, equals=1), [], [MISSING, 1]),
        (Condition(exists=True, matches="a"), ["a"], ["b", MISSING]),
    ],
)
def test_what_a_condition_holds_for(condition: Condition, yes: list[Any], no: list[Any]) -> None:
    assert [value for value in yes if not holds(condition, value)] == []
    assert [value for value in no if holds(condition, value)] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", {"b": {"c": 1}, "b.c": 2}),
        ("a.b", {"c": 1}),
        ("a.b.c", 2),
        ("list.0", "first"),
        ("list.1.x", 3),
        ("list.2", MISSING),
        ("list.-1", MISSING),
        ("list.²", MISSING),
        ("list.99999999999", MISSING),
        ("none", None),
        ("none.x", MISSING),
        ("text.0", MISSING),
        ("a.", MISSING),
        ("", MISSING),
        (".", MISSING),
        ("no", MISSING),
    ],
)
def test_where_a_path_leads(path: str, expected: Any) -> None:
    values = {"a": {"b": {"c": 1}, "b.c": 2}, "list": ["first", {"x": 3}], "none": None, "text": "abc"}
    assert look_up(values, path) == expected


def test_the_first_that_does_not_hold_is_named() -> None:
    conditions = {"a": Condition(equals=1), "b.c": Condition(above=2), "d": Condition(exists=False)}
    assert first_failing(conditions, {"a": 1, "b": {"c": 3}}) is None
    assert first_failing(conditions, {"a": 1, "b": {"c": 2}, "d": 1}) == "b.c"
    assert all_hold({}, {})
    assert not all_hold(conditions, {})


@given(CONDITION, JSON)
def test_a_condition_says_yes_or_no_to_anything(condition: Condition, value: Any) -> None:
    assert holds(condition, value) in (True, False)


@given(CONDITION)
def test_what_is_missing_satisfies_only_that_it_is(condition: Condition) -> None:
    assert holds(condition, MISSING) == (condition == Condition(exists=False))


@given(SCALAR)
def test_a_value_equals_itself_and_its_text(value: Any) -> None:
    assert holds(Condition(equals=value), value)
    if isinstance(value, bool | int):
        assert holds(Condition(equals=value), str(value).lower())


@given(CONDITION, CONDITION, JSON)
def test_all_that_is_given_must_hold(one: Condition, other: Condition, value: Any) -> None:
    both = Condition(equals=one.equals, above=other.above)
    parts = holds(Condition(equals=one.equals), value), holds(Condition(above=other.above), value)
    assert holds(both, value) == all(parts)


@given(JSON, st.text(st.sampled_from("ab.01"), max_size=6))
def test_a_path_always_leads_somewhere(value: Any, path: str) -> None:
    look_up(value, path)


SLOW, TRAP = "^(?:a|aa)+$", "a" * 60 + "!"


def test_a_pattern_that_takes_too_long_is_given_up() -> None:
    began = time.process_time()
    with pytest.raises(Undecided):
        holds(Condition(matches=SLOW), TRAP)
    assert time.process_time() - began < 5
