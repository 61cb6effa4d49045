"""The explanation of a verdict names the step that decided."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate import conditions
from stopgo.actors.gate.explain import PolicyStep, explain
from stopgo.actors.gate.gate import PolicyScope, judge
from stopgo.actors.tools.tool import Hints, Tool
from stopgo.config.sections.approval import ApprovalConfig, Condition, Rule

HINT = st.sampled_from([None, True, False])
NAME = st.sampled_from(["a", "ab", "b"])
TOOL = st.builds(
    lambda name, server, hints: Tool(name, "", {}, server, hints=hints),
    NAME,
    NAME,
    st.builds(Hints, HINT, HINT, HINT),
)
VALUE = st.sampled_from(["x", 1, True, None, {"z": 1}, "\ud800"])
CONDITION = st.builds(
    Condition,
    equals=st.none() | st.sampled_from(["x", 1, True]),
    matches=st.none() | st.just("^x"),
    above=st.none() | st.just(0.5),
    exists=st.none() | st.booleans(),
)
GLOB = st.none() | st.sampled_from(["a*", "b"])
RULE = st.builds(
    Rule,
    then=st.sampled_from(["run", "ask", "deny"]),
    server=GLOB,
    tool=GLOB,
    node=GLOB,
    effect=st.sampled_from([None, "read", "once"]),
    arguments=st.dictionaries(st.sampled_from(["x", "y.z"]), CONDITION, max_size=2),
    only_these_arguments=st.booleans(),
)
ASK = st.sampled_from(["run", "ask"])
POLICY = st.builds(
    lambda rules, *asks: ApprovalConfig(
        rules=tuple(attrs.evolve(rule, place=f"rules[{index}]") for index, rule in enumerate(rules)),
        unannotated=asks[0],
        in_parallel=asks[1],
        in_loop=asks[2],
    ),
    st.lists(RULE, max_size=3),
    ASK,
    ASK,
    ASK,
)
PLACE = st.builds(PolicyScope, node=NAME, policy=POLICY, in_parallel=st.booleans(), in_loop=st.booleans())


@given(TOOL, PLACE, st.dictionaries(st.sampled_from(["x", "y"]), VALUE))
def test_exactly_one_step_decides_as_the_gate_says(
    tool: Tool, scope: PolicyScope, arguments: dict[str, Any]
) -> None:
    verdict, steps = explain(tool, arguments, scope)
    assert verdict == judge(tool, arguments, scope)
    [decisive] = [step for step in steps if step.decides]
    assert decisive.text.startswith(verdict.rule)
    assert all(step.text and step.why and step.why.encode() for step in steps)
    before = steps[: steps.index(decisive)]
    assert len(before) <= len(scope.policy.rules) + 4


def test_every_key_of_a_rule_that_does_not_match_is_explained() -> None:
    policy = ApprovalConfig(
        rules=(
            Rule(then="deny", server="x"),
            Rule(then="deny", tool="x"),
            Rule(then="deny", node="x"),
            Rule(then="deny", effect="read"),
            Rule(then="deny", arguments={"no": Condition(equals=1)}),
            Rule(then="deny", arguments={"m": Condition(equals=1, above=3.5, exists=True)}),
            Rule(then="deny", arguments={"n": Condition(exists=False)}),
            Rule(then="ask", arguments={"n": Condition(equals="web")}),
            Rule(then="deny"),
        )
    )
    tool = Tool("t", "", {}, "s", hints=Hints(read_only=False))
    verdict, steps = explain(tool, {"n": "web", "m": 2}, PolicyScope(node="n", policy=policy))
    assert verdict.action == "ask"
    assert [step.why for step in steps] == [
        'the server is "s"',
        'the tool is "t"',
        'the node is "n"',
        "the tool's effect is once",
        "arguments.no is missing",
        "arguments.m is 2, which does not fit equals 1 and above 3.5",
        'arguments.n is "web", which does not fit exists false',
        "matches",
    ]


@pytest.mark.parametrize(
    ("hints", "scope", "expected"),
    [
        (
            Hints(read_only=True),
            PolicyScope(),
            [PolicyStep("readOnlyHint: true runs", True, "readOnlyHint is true")],
        ),
        (
            Hints(),
            PolicyScope(),
            [
                PolicyStep("readOnlyHint: true runs", False, "readOnlyHint is not given"),
                PolicyStep(
                    "destructiveHint: true asks, destructiveHint: false runs",
                    False,
                    "destructiveHint is not given",
                ),
                PolicyStep("approval.unannotated: run", True, "destructiveHint is not given"),
            ],
        ),
        (
            Hints(destructive=True),
            PolicyScope(in_loop=True, policy=ApprovalConfig(in_loop="ask")),
            [
                PolicyStep("readOnlyHint: true runs", False, "readOnlyHint is not given"),
                PolicyStep("destructiveHint: true asks", True, "destructiveHint is true"),
                PolicyStep("approval.in_loop: ask", False, "the call would ask below a loop, and still does"),
            ],
        ),
    ],
)
def test_hints_are_explained_in_order(hints: Hints, scope: PolicyScope, expected: list[PolicyStep]) -> None:
    assert list(explain(Tool("t", "", {}, "s", hints=hints), {}, scope)[1]) == expected


def test_a_long_value_is_cut() -> None:
    policy = ApprovalConfig(rules=(Rule(then="deny", arguments={"n": Condition(equals=1)}),))
    _, steps = explain(Tool("t", "", {}, "s"), {"n": "x" * 10_000}, PolicyScope(policy=policy))
    assert len(steps[0].why) < 200


def test_an_undecided_condition_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conditions, "PATIENCE", 0.01)
    slow = Rule(then="run", arguments={"n": Condition(matches="^(?:a|aa)+$")})
    hidden = Rule(then="run", arguments={"list.x": Condition(equals=1)})
    big = Rule(then="deny", arguments={"amount": Condition(above=1000)})
    arguments = {"n": "a" * 60 + "!", "list": [], "amount": "5,000"}

    def why(*rules: Rule) -> tuple[str, list[tuple[bool, str]]]:
        verdict, steps = explain(
            Tool("t", "", {}, "s"), arguments, PolicyScope(policy=ApprovalConfig(rules=rules))
        )
        return verdict.action, [(step.decides, step.why) for step in steps]

    n = f'arguments.n is "{"a" * 60}!"'
    assert why(slow, hidden, Rule(then="run")) == (
        "ask",
        [
            (False, f'does not match, undecided: {n}, for which matches "^(?:a|aa)+$" cannot be decided'),
            (
                False,
                "does not match, undecided: arguments.list.x leads through a value without names, or to"
                " too many",
            ),
            (False, "matches"),
            (True, "the call asks: a rule that runs calls may or may not match"),
        ],
    )
    assert why(slow, big)[1][1:] == [
        (True, 'matches, undecided: arguments.amount is "5,000", for which above 1000 cannot be decided')
    ]


def test_whole_float_is_shown_without_fraction() -> None:
    policy = ApprovalConfig(rules=(Rule(then="deny", arguments={"n": Condition(above=5.0)}),))
    _, (step, *_) = explain(Tool("t", "", {}, "s"), {"n": 4.0}, PolicyScope(policy=policy))
    assert step.why == "arguments.n is 4, which does not fit above 5"
