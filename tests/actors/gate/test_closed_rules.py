"""Rules with `only_these_arguments`: no leaf of the arguments that the rule does not name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate.conditions import ConditionResult
from stopgo.actors.gate.explain import explain
from stopgo.actors.gate.gate import (
    Action,
    PolicyScope,
    ShadowVerdict,
    depends_on_arguments,
    fit,
    judge,
    matches,
    rule_text,
)
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from tests.actors.gate.test_conditions import CONDITION, SLOW, TRAP
from tests.actors.gate.test_oracle import every_name

TOOL = Tool("t", "", {}, "s", hints=Hints(destructive=True))
PLACE = PolicyScope()
GIVEN = Condition(exists=True)
SMALL = Condition(above=0, below=100)
WORD = Condition(matches="a|ab")
MET, FAILS, UNDECIDED = ConditionResult.MET, ConditionResult.FAILS, ConditionResult.UNDECIDED
NAN = float("nan")


def closed(then: Action = "run", **arguments: Condition) -> Rule:
    return of(arguments, then)


def of(arguments: Mapping[str, Condition], then: Action = "run") -> Rule:
    return Rule(then=then, arguments=arguments, only_these_arguments=True, place="rules[0]")


def result(rule: Rule, arguments: Mapping[str, Any]) -> ConditionResult:
    return fit(rule, TOOL, arguments, PLACE).result


@pytest.mark.parametrize("then", ["run", "ask", "deny"])
@pytest.mark.parametrize(
    ("paths", "met", "fails", "undecided"),
    [
        # Names
        ("", [{}], [{"a": 1}, {"a": None}, {"a": {}}, {"a": []}, {"": 1}], []),
        (
            "a",
            [
                {"a": 1},
                {"a": None},
                {"a": ""},
                {"a": False},
                {"a": {}},
                {"a": []},
                {"a": NAN},
                {"a": 10**400},
            ],
            [
                *({}, {"a": 1, "b": 1}, {"a": 1, "b": None}, {"a": 1, "b": {}}, {"a": 1, "b": []}),
                *({"a": 1, "A": 1}, {"a": 1, "a ": 1}, {"a": 1, "": 1}, {"a": 1, "а": 1}, {"a": 1, "ａ": 1}),
                *({"a": {"b": 1}}, {"a": {"": 1}}, {"a": [1]}, {"a": [[]]}, {"a": [None]}, {"а": 1}),
            ],
            [],
        ),
        ("é", [{"é": 1}], [{"e\u0301": 1}, {"é": 1, "e\u0301": 1}], []),
        # Objects
        (
            "a.b",
            [{"a": {"b": 1}}, {"a": {"b": {}}}],
            [
                {"a": {"b": 1, "c": 2}},
                {"a": {"b": 1, "c": {}}},
                {"a": {"b": {"c": 1}}},
                {"a": {"b": 1}, "c": 1},
            ],
            [{"a.b": 1}, {"a": {"b": 1}, "a.b": 1}],
        ),
        ("a.b.c", [{"a": {"b": {"c": 1}}}], [], [{"a.b": {"c": 1}}, {"a": {"b.c": 1}}, {"a.b.c": 1}]),
        ("a b.c", [{"a": 1, "b": {"c": 1}}], [{"a": 1, "b": {"c": 1, "a": 1}}], [{"a": 1, "b.c": 1}]),
        ("a.", [{"a": {"": 1}}], [{"a": {"": 1, "b": 1}}], [{"a.": 1}]),
        # Lists
        (
            "a.0",
            [{"a": [1]}, {"a": [{}]}],
            [{"a": [1, 2]}, {"a": [1, None]}, {"a": [1, []]}, {"a": [[1]]}, {"a": []}, {"a": ["x"], "b": 1}],
            [{"a": {"0": 1}}, {"a.0": 1}],
        ),
        ("a.0 a.1", [{"a": [1, 2]}], [{"a": [1]}, {"a": [1, 2, 3]}], [{"a": {"0": 1, "1": 1}}]),
        ("a.0.b", [{"a": [{"b": 1}]}], [{"a": [{"b": 1, "c": 1}]}, {"a": [{"b": 1}, {}]}], []),
        ("0", [{"0": 1}], [{"0": 1, "1": 1}], []),
    ],
)
def test_every_leaf_has_to_be_named(
    then: Action, paths: str, met: list[Any], fails: list[Any], undecided: list[Any]
) -> None:
    rule = of(dict.fromkeys(paths.split(), GIVEN), then)
    found = {
        each: [call for call in calls if result(rule, call) is not each]
        for each, calls in ((MET, met), (FAILS, fails), (UNDECIDED, undecided))
    }
    assert found == {MET: [], FAILS: [], UNDECIDED: []}


@pytest.mark.parametrize(
    ("condition", "met", "fails", "undecided"),
    [
        (WORD, ["a", "ab"], ["abc", "ba", "a\n", "a b", "", "аb"], [None]),
        (Condition(matches="^a$"), ["a"], ["a\n", "aa"], []),
        (Condition(matches="(?m)^a$"), ["a"], ["a\nb", "b\na"], []),
        (Condition(matches="(?i)A"), ["a"], ["ab"], []),
        (Condition(matches="[0-9]"), [5, "5"], [55, "55"], []),
        (Condition(matches="[0-9.]{3}|5"), ["5.0", 5], [50], []),
        (Condition(matches="5"), ["5", 5], ["5.0", 55.0], [5.0]),
        (Condition(matches=SLOW), ["a"], ["b"], [TRAP]),
        (
            SMALL,
            [5, "5", " 5.0 ", "5e0"],
            [-900, "-900", 100, 10**400, "1e400"],
            [True, "five", NAN, "NaN", "５"],
        ),
        (Condition(equals=5), [5, "5", 5.0, "5.0", "+5"], [6, "6", 50, 10**5, None], [True, "５", "5 USD"]),
        (Condition(equals=1), [1, "1"], [0], [True, "true"]),
        (Condition(equals=True), [True, "true"], [False], [1, "1", "True"]),
        (Condition(equals="prod"), ["prod"], ["prod ", "Prod", "prоd", None], []),
        (Condition(one_of=("a", "b")), ["a", "b"], ["ab", "A", None], []),
    ],
)
def test_conditions_have_to_fit_the_whole_value(
    condition: Condition, met: list[Any], fails: list[Any], undecided: list[Any]
) -> None:
    rule = closed(a=condition)
    assert [value for value in met if result(rule, {"a": value}) is not MET] == []
    assert [value for value in fails if result(rule, {"a": value}) is not FAILS] == []
    assert [value for value in undecided if result(rule, {"a": value}) is not UNDECIDED] == []


# ------------------------------------------------------------------- properties

NAME = st.sampled_from(["a", "b", "а", "A", "a.b", "0", "1", "", "a.0", "e\u0301", "é"])
LEAF: Any = st.sampled_from(
    [0, 5, -900, 10**400, 5.0, NAN, True, False, None, "5", "5.0", "true", "ab", "x", "５", {}, []]
)
INSIDE = st.recursive(
    LEAF,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=2) | st.dictionaries(NAME, inner, min_size=1, max_size=2)
    ),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(NAME, INSIDE, max_size=3)
PLAIN = st.sampled_from(["a", "b", "A", "c", "а"])
PLAIN_ARGUMENTS = st.dictionaries(
    PLAIN,
    st.recursive(
        LEAF,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(PLAIN, inner, max_size=2),
        max_leaves=4,
    ),
    max_size=3,
)
ANY_CONDITION = CONDITION | st.sampled_from([GIVEN, SMALL, WORD, Condition(exists=False)])


def leaves(arguments: Mapping[str, Any]) -> Sequence[str]:
    """The paths of all leaves, by the definition in docs/guides/gate-tools.md."""
    return [path for path, value in every_name(arguments) if not (isinstance(value, dict | list) and value)]


@st.composite
def rules_and_calls(draw: st.DrawFn) -> tuple[Rule, Mapping[str, Any]]:
    """A rule with the paths of a call, some left out and some added."""
    arguments = draw(ARGUMENTS)
    paths = {path for path in leaves(arguments) if draw(st.integers(0, 7))}
    paths |= draw(st.sets(st.sampled_from(["a", "a.b", "b.0", "c"]), max_size=1))
    conditions = {path: draw(st.just(GIVEN) | ANY_CONDITION) for path in sorted(paths)}
    return of(conditions, draw(st.sampled_from(["run", "run", "ask", "deny"]))), arguments


@given(rules_and_calls())
def test_closed_rule_matches_a_part_of_what_the_open_rule_matches(
    drawn: tuple[Rule, Mapping[str, Any]],
) -> None:
    rule, arguments = drawn
    was = fit(rule, TOOL, arguments, PLACE)
    same = attrs.evolve(rule, only_these_arguments=False)
    now = fit(same, TOOL, arguments, PLACE)
    assert was.result <= now.result
    assert not matches(rule, was) or matches(same, now)


@given(rules_and_calls())
def test_what_runs_has_each_of_its_leaves_named_once(drawn: tuple[Rule, Mapping[str, Any]]) -> None:
    rule, arguments = drawn
    found, paths = fit(rule, TOOL, arguments, PLACE), leaves(arguments)
    assert found.result is FAILS or set(paths) <= set(rule.arguments)
    if rule.then == "run" and matches(rule, found):
        assert len(set(paths)) == len(paths)


def with_another_leaf(value: Any, leaf: Any, name: str) -> Iterator[Any]:
    """The value with this leaf in each place where there can be another one."""
    if isinstance(value, dict):
        if name not in value:
            yield {**value, name: leaf}
            yield {name: leaf, **value}
        for key, inner in value.items():
            yield from ({**value, key: each} for each in with_another_leaf(inner, leaf, name))
    elif isinstance(value, list):
        yield [*value, leaf]
        yield [leaf, *value]
        for index, inner in enumerate(value):
            for each in with_another_leaf(inner, leaf, name):
                yield [*value[:index], each, *value[index + 1 :]]


@given(PLAIN_ARGUMENTS, LEAF, NAME, st.booleans())
def test_another_leaf_ends_the_match(arguments: dict[str, Any], leaf: Any, name: str, deny: bool) -> None:
    rule = of(dict.fromkeys(leaves(arguments), GIVEN))
    assert result(rule, arguments) is MET
    for call in with_another_leaf(arguments, leaf, name):
        found = result(rule, call)
        assert found is not MET
        if not set(leaves(call)) <= set(rule.arguments):
            assert found is FAILS
            assert result(attrs.evolve(rule, then="deny"), call) is FAILS


@given(rules_and_calls(), st.randoms())
def test_order_of_arguments_makes_no_difference(drawn: tuple[Rule, Mapping[str, Any]], random: Any) -> None:
    rule, arguments = drawn
    names, paths = [*arguments], [*rule.arguments]
    random.shuffle(names)
    random.shuffle(paths)
    other = attrs.evolve(rule, arguments={path: rule.arguments[path] for path in paths})
    assert result(other, {name: arguments[name] for name in names}) is result(rule, arguments)


def test_large_arguments_are_not_walked_through() -> None:
    class Watched(dict[str, Any]):
        looked = 0

        def items(self) -> Any:
            for each in super().items():
                Watched.looked += 1
                yield each

    inner: Any = Watched({str(index): index for index in range(1000)})
    for _ in range(5000):
        inner = Watched({"a": inner})
    assert result(closed(a=GIVEN), inner) is FAILS
    assert result(of({"a.a": GIVEN}), inner) is FAILS
    assert Watched.looked <= 3


# ------------------------------------------------------------------- verdicts


def scope(*rules: Rule) -> PolicyScope:
    return PolicyScope(policy=ApprovalConfig(rules=rules))


READER = attrs.evolve(TOOL, hints=Hints(read_only=True))


def test_verdicts_of_closed_rules() -> None:
    run = scope(closed(a=SMALL), Rule(then="deny", place="rules[1]"))
    deny = scope(closed("deny", a=SMALL))
    asks = scope(of({"a.b": SMALL}))
    assert [judge(TOOL, call, run).action for call in ({"a": 5}, {"a": 500}, {"a": 5, "b": 1})] == [
        "run",
        "deny",
        "deny",
    ]
    assert [judge(READER, call, deny).action for call in ({"a": 5}, {"a": 5, "b": 1})] == ["deny", "run"]
    verdict = judge(READER, {"a.b": 5}, asks)
    assert (verdict.action, verdict.undecided) == ("ask", True)
    denied = judge(READER, {"a.b": 5}, scope(of({"a.b": SMALL}, "deny")))
    assert denied.action == "deny"


def test_closed_rule_without_arguments_matches_only_calls_without_any() -> None:
    rules = scope(closed())
    assert [judge(TOOL, call, rules).action for call in ({}, {"a": 1})] == ["run", "ask"]
    assert depends_on_arguments(TOOL, rules)
    assert not depends_on_arguments(TOOL, scope(Rule(then="run")))


def test_closed_shadow_rule() -> None:
    rules = scope(attrs.evolve(closed(a=SMALL), shadow=True))
    assert judge(TOOL, {"a": 5}, rules).shadows == (ShadowVerdict("rules[0]", "run"),)
    assert judge(TOOL, {"a": 5, "b": {}}, rules).shadows == ()
    assert judge(READER, {"a.b": 5}, scope(attrs.evolve(of({"a.b": SMALL}), shadow=True))).shadows == (
        ShadowVerdict("rules[0]", "ask"),
    )


def test_closed_rule_is_explained() -> None:
    rule = of({"a.b": WORD})
    assert rule_text(rule) == "rules[0] (arguments: a.b; only_these_arguments: true): run"

    def why(call: Mapping[str, Any]) -> str:
        return explain(TOOL, call, scope(rule))[1][0].why

    assert [why({"a": {"b": each}}) for each in ("ab", "abc")] == [
        "matches",
        'arguments.a.b is "abc", which does not fit matches "a|ab"',
    ]
    assert why({"a": {"b": "a", "c\n\ud800": 1}}) == 'the rule does not name the argument "a.c\\n\\ud800"'
    assert why({"a.b": "a"}) == (
        'does not match, undecided: the argument "a.b" has a name with a dot, or a number as its name'
    )
    assert why({}) == "arguments.a.b is missing"
