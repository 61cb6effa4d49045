"""The gate and effect classes, as tables and as rules that always hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.gate import Place, Verdict, effect_class, judge, stricter, unasked
from stopgo.actors.tools import Hints, Tool
from stopgo.config.model import ApprovalConfig, LlmNode, ParallelNode, SequentialNode

HINT = st.sampled_from([None, True, False])
HINTS = st.builds(Hints, HINT, HINT, HINT, HINT)
CONFIG = st.builds(ApprovalConfig, st.sampled_from(["run", "ask"]), st.sampled_from(["run", "ask"]))
PLACE = st.builds(Place, st.booleans(), st.booleans())
STRICTNESS = {"run": 0, "ask": 1, "deny": 2}


def tool(hints: Hints, name: str = "t") -> Tool:
    return Tool(name, "", {}, "s", hints=hints)


@pytest.mark.parametrize(
    ("hints", "unannotated", "action", "rule"),
    [
        (Hints(read_only=True), "ask", "run", "readOnlyHint: true"),
        (Hints(read_only=True, destructive=True), "ask", "run", "readOnlyHint: true"),
        (Hints(destructive=True), "run", "ask", "destructiveHint: true"),
        (Hints(read_only=False, destructive=True), "run", "ask", "destructiveHint: true"),
        (Hints(destructive=False), "ask", "run", "destructiveHint: false"),
        (Hints(), "run", "run", "approval.unannotated: run"),
        (Hints(), "ask", "ask", "approval.unannotated: ask"),
        (Hints(read_only=False), "ask", "ask", "approval.unannotated: ask"),
        (Hints(idempotent=True), "ask", "ask", "approval.unannotated: ask"),
    ],
)
def test_the_first_rule_that_says_something_decides(
    hints: Hints, unannotated: str, action: str, rule: str
) -> None:
    config = ApprovalConfig(unannotated=unannotated)  # type: ignore[arg-type]
    assert judge(tool(hints), Place(), config) == Verdict(action, rule)  # type: ignore[arg-type]


def test_the_defaults_run_what_says_nothing_and_what_would_ask_in_parallel() -> None:
    config = ApprovalConfig()
    assert judge(tool(Hints()), Place(), config).action == "run"
    assert judge(tool(Hints(destructive=True)), Place(in_parallel=True), config) == Verdict(
        "run", "approval.in_parallel: run"
    )


@given(HINTS, PLACE, CONFIG)
def test_read_only_always_runs(hints: Hints, place: Place, config: ApprovalConfig) -> None:
    if hints.read_only:
        assert judge(tool(hints), place, config).action == "run"


@given(HINTS, PLACE, CONFIG)
def test_destructive_asks_unless_read_only_or_relaxed(
    hints: Hints, place: Place, config: ApprovalConfig
) -> None:
    if hints.destructive and not hints.read_only:
        relaxed = place.in_parallel and config.in_parallel == "run"
        assert judge(tool(hints), place, config).action == ("run" if relaxed else "ask")


@given(HINTS, CONFIG, st.booleans())
def test_a_parallel_ancestor_only_ever_relaxes_a_question(
    hints: Hints, config: ApprovalConfig, in_sequence: bool
) -> None:
    outside = judge(tool(hints), Place(in_sequence=in_sequence), config)
    inside = judge(tool(hints), Place(in_parallel=True, in_sequence=in_sequence), config)
    if outside.action != "ask" or config.in_parallel == "ask":
        assert inside == outside
    else:
        assert inside.action == "run"


@given(HINTS, PLACE, CONFIG)
def test_a_verdict_always_names_its_rule(hints: Hints, place: Place, config: ApprovalConfig) -> None:
    assert judge(tool(hints), place, config).rule


@given(st.sampled_from(list(STRICTNESS)), st.sampled_from(list(STRICTNESS)))
def test_the_stricter_of_two(one: str, other: str) -> None:
    found = stricter(one, other)  # type: ignore[arg-type]
    assert found == stricter(other, one)  # type: ignore[arg-type]
    assert STRICTNESS[found] == max(STRICTNESS[one], STRICTNESS[other])


# ----------------------------------------------------------------- effect classes


@pytest.mark.parametrize(
    ("hints", "approved", "effect"),
    [
        (Hints(read_only=True), False, "read"),
        (Hints(read_only=True), True, "read"),
        (Hints(idempotent=True, destructive=False), False, "idempotent"),
        (Hints(idempotent=True, destructive=False), True, "once"),
        (Hints(idempotent=True, destructive=True), False, "once"),
        (Hints(destructive=True), True, "once"),
        (Hints(destructive=False), False, "once"),
        (Hints(), False, "once"),
    ],
)
def test_effect_classes(hints: Hints, approved: bool, effect: str) -> None:
    assert effect_class(tool(hints), approved=approved) == effect


@given(HINTS, st.booleans())
def test_only_what_is_harmless_to_repeat_may_be_repeated(hints: Hints, approved: bool) -> None:
    effect = effect_class(tool(hints), approved=approved)
    if effect == "read":
        assert hints.read_only
    if effect == "idempotent":
        assert hints.idempotent
        assert not hints.destructive
        assert not approved


# ------------------------------------------------------------ what start-up says


def node(name: str) -> LlmNode:
    return LlmNode(name, "p", "m")


def test_start_up_names_what_would_run_unasked_and_where() -> None:
    tree = SequentialNode("s", (node("one"), ParallelNode("p", (node("two"),))))
    tools = [
        tool(Hints(destructive=True), "wipe"),
        tool(Hints(), "odd"),
        tool(Hints(read_only=True), "look"),
        tool(Hints(destructive=False), "add"),
    ]
    said = list(unasked(tree, tools, ApprovalConfig()))
    assert len(said) == 3
    assert sum('"wipe"' in line for line in said) == 1
    [wipe] = [line for line in said if '"wipe"' in line]
    assert '"two"' in wipe
    assert wipe.startswith("destructive")
    assert {'"one"' in line for line in said if '"odd"' in line} == {True, False}
    assert not any('"look"' in line or '"add"' in line for line in said)


def test_start_up_says_nothing_when_everything_asks() -> None:
    tree = ParallelNode("p", (node("one"),))
    tools = [tool(Hints(destructive=True)), tool(Hints(), "odd")]
    assert not list(unasked(tree, tools, ApprovalConfig(unannotated="ask", in_parallel="ask")))
