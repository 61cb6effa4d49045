"""Shadow rules: evaluated in their place, and never deciding."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stopgo.actors.gate.explain import explain
from stopgo.actors.gate.gate import Action, PolicyScope, ShadowVerdict, Verdict, judge
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule
from tests.actors.gate.test_oracle import LEAF, PLACE, SLOW, STUCK, TOOL

READER = Tool("t", "", {}, "s", hints=Hints(read_only=True))
UNDECIDED = {"a": Condition(above=1)}


def placed(scope: PolicyScope, shadows: list[bool]) -> PolicyScope:
    rules = (
        attrs.evolve(rule, place=f"rules[{index}]", shadow=shadow)
        for index, (rule, shadow) in enumerate(zip(scope.policy.rules, shadows, strict=False))
    )
    return attrs.evolve(scope, policy=attrs.evolve(scope.policy, rules=tuple(rules)))


def only(scope: PolicyScope, *, also: str = "") -> PolicyScope:
    """The scope without its shadow rules, but for one, which counts."""
    rules = tuple(
        attrs.evolve(rule, shadow=False)
        for rule in scope.policy.rules
        if not rule.shadow or rule.place == also
    )
    return attrs.evolve(scope, policy=attrs.evolve(scope.policy, rules=rules))


@settings(max_examples=300)
@given(
    tool=TOOL,
    arguments=st.fixed_dictionaries({}, optional={"a": LEAF, "b": LEAF}),
    scope=PLACE,
    shadows=st.lists(st.booleans(), min_size=4, max_size=4),
)
def test_file_with_shadow_rules_gives_the_verdicts_of_the_file_without_them(
    tool: Tool, arguments: dict[str, Any], scope: PolicyScope, shadows: list[bool]
) -> None:
    scope = placed(scope, shadows)
    verdict, without = judge(tool, arguments, scope), judge(tool, arguments, only(scope))
    assert (verdict, verdict.place) == (without, without.place)
    expected = []
    for rule in scope.policy.rules:
        alone = judge(tool, arguments, only(scope, also=rule.place))
        if rule.shadow and alone.place == rule.place:
            expected.append(ShadowVerdict(rule.place, alone.action))
    assert list(verdict.shadows) == expected
    explained, steps = explain(tool, arguments, scope)
    assert (explained, explained.shadows) == (verdict, verdict.shadows)
    [decisive] = [step for step in steps if step.decides]
    assert decisive.text.startswith(verdict.rule)
    assert len([step for step in steps if "; if it counted, " in step.why]) == len(expected)


def at(*rules: Rule) -> PolicyScope:
    named = (attrs.evolve(rule, place=f"rules[{index}]") for index, rule in enumerate(rules))
    return PolicyScope(node="n", policy=ApprovalConfig(rules=tuple(named)))


@pytest.mark.parametrize(
    ("rules", "arguments", "action", "shadows"),
    [
        ((Rule(then="deny", shadow=True),), {}, "run", {0: "deny"}),
        ((Rule(then="ask"), Rule(then="deny", shadow=True)), {}, "ask", {}),  # behind the one that decides
        ((Rule(then="run", shadow=True), Rule(then="deny")), {}, "deny", {0: "run"}),
        ((Rule(then="deny", shadow=True), Rule(then="ask", shadow=True)), {}, "run", {0: "deny", 1: "ask"}),
        ((Rule(then="run", arguments=UNDECIDED, shadow=True),), {"a": "5 USD"}, "run", {0: "ask"}),
        (
            (Rule(then="run", arguments=UNDECIDED), Rule(then="run", shadow=True)),
            {"a": "5 USD"},
            "ask",
            {},
        ),
        ((Rule(then="deny", arguments=UNDECIDED, shadow=True),), {"a": "5 USD"}, "run", {0: "deny"}),
    ],
)
def test_shadow_rule_is_evaluated_in_its_place(
    rules: tuple[Rule, ...], arguments: dict[str, Any], action: Action, shadows: dict[int, Action]
) -> None:
    verdict = judge(READER, arguments, at(*rules))
    assert verdict.action == action
    assert {each.place: each.action for each in verdict.shadows} == {
        f"rules[{index}]": each for index, each in shadows.items()
    }


def test_slow_search_of_a_shadow_rule_takes_no_time_from_the_others() -> None:
    slow = [
        Rule(then="deny", arguments={"a": Condition(matches=f"(?:{index})?{SLOW}")}, shadow=True)
        for index in range(4)
    ]
    last = Rule(then="run", arguments={"b": Condition(matches="^x$")})
    verdict = judge(
        Tool("t", "", {}, "s", hints=Hints(destructive=True)), {"a": STUCK, "b": "x"}, at(*slow, last)
    )
    assert (verdict.action, verdict.undecided) == ("run", False)


def test_explained_shadow_rule_says_what_it_would_do() -> None:
    scope = at(Rule(then="deny", tool="t", shadow=True), Rule(then="ask", tool="u", shadow=True))
    verdict, steps = explain(READER, {}, scope)
    assert verdict == Verdict("run", "readOnlyHint: true")
    assert [(step.text, step.why) for step in steps[:2]] == [
        ("rules[0] (tool: t; shadow: true): deny", "matches; if it counted, the call would be denied"),
        ("rules[1] (tool: u; shadow: true): ask", 'the tool is "t"'),
    ]
