"""Conditions on arguments and session state, as tables and as rules that always hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate.conditions import (
    BLOCKED,
    MAX_TEXT,
    MISSING,
    MOST_READINGS,
    ConditionResult,
    Searches,
    evaluate,
    readings,
)
from stopgo.config.sections.approval import Condition

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


LONG = "x" * MAX_TEXT + "y"


@pytest.mark.parametrize(
    ("condition", "holds", "fails", "undecided"),
    [
        (Condition(equals="prod"), ["prod"], ["Prod", "prod ", "", None, MISSING], [["prod"], {"prod": 1}]),
        (Condition(equals=5), [5, 5.0, "5", "5.0", " 5 "], [6, None], [True, "five", "5x", [5], "５"]),
        (Condition(equals="5"), [5, 5.0, "5"], ["5.0", "05", 6, True], [[5]]),
        (Condition(equals=1), [1, "1"], [None, MISSING], [True, "true", ""]),
        (Condition(equals=0.1), [0.1, "0.10"], ["0.1000000000000000055"], []),
        (Condition(equals=True), [True, "true"], [False, "false", None], [1, "1", "True", "yes"]),
        (Condition(equals=False), [False, "false"], [True, None, MISSING], [0, ""]),
        (Condition(equals=""), [""], [None, 0, False, MISSING], [[]]),
        (Condition(one_of=("a", 1)), ["a", 1, "1"], [2, None, MISSING], ["b", True]),
        (Condition(matches="^prod-"), ["prod-1"], ["x prod-1", "prod", MISSING], [None, ["prod-1"]]),
        (Condition(matches="y$"), ["y", "é" * (MAX_TEXT // 2 - 1) + "y"], ["x"], [LONG, "é" * MAX_TEXT]),
        (Condition(matches="^1.?$"), [1, 12, "1"], [123, "x"], []),
        (Condition(matches="^true$"), [True, "true"], [1], []),
        (Condition(matches="^[0-9]+$"), [1, "1"], [1.5, "1.0"], [1.0, 1e16]),
        (
            Condition(above=10),
            [11, 10.5, "11", 10**400, "1e999", "10.00000000000000000001"],
            [10, "10", None, MISSING],
            [
                "ten",
                True,
                [11],
                {"value": 11},
                "5,000",
                "5000 USD",
                "1e9999",
                "５０００",
                "",
                "0x10",
                10**5000,
            ],
        ),
        (Condition(above=0), [5], [float("-0.0")], [float("nan"), float("inf"), "nan", "9" * (MAX_TEXT + 1)]),
        (Condition(below=0), [-1, "-1", -(10**400)], [0, "0", MISSING], ["", "nan", False]),
        (Condition(above=1, below=3), [2, "2.5"], [1, 3, 4], ["2 or 3"]),
        (Condition(exists=True), ["", 0, None, [], {}], [MISSING], [BLOCKED]),
        (Condition(exists=False), [MISSING], ["", 0, None, [], {}], [BLOCKED]),
        (Condition(exists=False, equals=1), [], [MISSING, 1, "x"], []),
        (Condition(exists=True, matches="a"), ["a"], ["b", MISSING], [["a"]]),
        (Condition(matches="^a", above=1), [], ["b", "2"], [["a"]]),
    ],
)
def test_answers_of_conditions_by_table(
    condition: Condition, holds: list[Any], fails: list[Any], undecided: list[Any]
) -> None:
    assert [value for value in holds if evaluate(condition, value) is not ConditionResult.MET] == []
    assert [value for value in fails if evaluate(condition, value) is not ConditionResult.FAILS] == []
    assert [value for value in undecided if evaluate(condition, value) is not ConditionResult.UNDECIDED] == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("a", [{"b": {"c": 1}, "b.c": 2}]),
        ("a.b", [{"c": 4}, {"c": 1}]),
        ("a.b.c", [5, 2, 1, 4]),
        ("list.0", ["first"]),
        ("list.1.x", [3]),
        ("list.2", [MISSING]),
        ("list.-1", [BLOCKED]),
        ("list.²", [BLOCKED]),
        ("list.x", [BLOCKED]),
        ("list.99999999999", [BLOCKED]),
        ("none", [None]),
        ("none.x", [MISSING]),
        ("text.0", [BLOCKED]),
        ("a.", [MISSING]),
        ("", [MISSING]),
        (".", [MISSING]),
        ("no", [MISSING]),
    ],
)
def test_readings_of_paths_by_table(path: str, expected: list[Any]) -> None:
    values = {
        "a.b.c": 5,
        "a": {"b": {"c": 1}, "b.c": 2},
        "a.b": {"c": 4},
        "list": ["first", {"x": 3}],
        "none": None,
        "text": "abc",
    }
    assert list(readings(values, path)) == expected


def test_too_many_readings_are_undecided() -> None:
    path = ".".join("abcdef")

    def under(path: str) -> dict[str, Any]:
        values: dict[str, Any] = {path: 1}
        for dot in (index for index, char in enumerate(path) if char == "."):
            values[path[:dot]] = under(path[dot + 1 :])
        return values

    found = readings(under(path), path)
    assert found == (*[1] * MOST_READINGS, BLOCKED)


@given(CONDITION, JSON)
def test_a_condition_has_an_answer_to_anything(condition: Condition, value: Any) -> None:
    assert evaluate(condition, value) in ConditionResult


@given(CONDITION)
def test_missing_value_satisfies_only_exists_false(condition: Condition) -> None:
    assert (evaluate(condition, MISSING) is ConditionResult.MET) == (condition == Condition(exists=False))


@given(SCALAR)
def test_a_value_equals_itself_and_its_text(value: Any) -> None:
    if value in (float("inf"), float("-inf")):
        return
    assert evaluate(Condition(equals=value), value) is ConditionResult.MET
    if isinstance(value, bool | int):
        assert evaluate(Condition(equals=value), str(value).lower()) is ConditionResult.MET


@given(JSON, st.text(st.sampled_from("ab.01"), max_size=6))
def test_a_path_always_leads_somewhere(value: Any, path: str) -> None:
    assert readings(value, path)


SLOW, TRAP = "^(?:a|aa)+$", "a" * 60 + "!"


def test_slow_patterns_hit_both_time_limits() -> None:
    searches = Searches()
    assert evaluate(Condition(matches=SLOW), TRAP, searches) is ConditionResult.UNDECIDED
    assert evaluate(Condition(matches="a"), "a", searches) is ConditionResult.MET
    for _ in range(100):
        assert evaluate(Condition(matches=SLOW), TRAP, searches) is ConditionResult.UNDECIDED
    assert evaluate(Condition(matches="a"), "a", searches) is ConditionResult.UNDECIDED


def test_end_of_a_pattern_is_the_end_of_the_text() -> None:
    condition = Condition(matches="^ls$")
    assert evaluate(condition, "ls") is ConditionResult.MET
    assert evaluate(condition, "ls\n") is ConditionResult.FAILS
