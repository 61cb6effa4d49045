"""What may be answered to a question, and what is refused without deciding anything."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.approvals.decided import MAX_TEXT, Decided
from stopgo.actors.approvals.kinds import KINDS
from stopgo.actors.common.errors import AgentError, already
from stopgo.runtime.journal.question import Question
from stopgo.runtime.json_text import MAX_DEPTH

YES: list[dict[str, Any]] = [
    {"approved": True},
    *({"action": word} for word in ("approve", "approved", "yes")),
    *({"answer": word} for word in ("yes", "y", "true", "approve", "approved")),
]
NO: list[dict[str, Any]] = [
    {"approved": False},
    *({"action": word} for word in ("reject", "rejected", "no")),
    *({"answer": word} for word in ("no", "n", "false", "reject", "rejected")),
]
YES_OR_NO = pytest.mark.parametrize("kind", ["tool", "checkpoint"])


def parse_decision(kind: str, words: dict[str, Any]) -> dict[str, Any]:
    decision: Decided = KINDS[kind].parse(words)
    return decision.to_json()


def refused(kind: str, words: dict[str, Any]) -> AgentError:
    with pytest.raises(AgentError) as caught:
        parse_decision(kind, words)
    return caught.value


@YES_OR_NO
@pytest.mark.parametrize("words", YES, ids=str)
def test_every_way_to_say_yes(kind: str, words: dict[str, Any]) -> None:
    assert parse_decision(kind, words) == {"approved": True}


@YES_OR_NO
@pytest.mark.parametrize("words", NO, ids=str)
def test_every_way_to_say_no(kind: str, words: dict[str, Any]) -> None:
    assert parse_decision(kind, words) == {"approved": False}


@pytest.mark.parametrize("field", ["tool_args", "argument", "comment", ""])
@pytest.mark.parametrize("approved", [True, False])
def test_a_decision_with_an_unknown_field_decides_nothing(approved: bool, field: str) -> None:
    error = refused("tool", {"approved": approved, field: {"name": "edited"}})
    assert (error.code, error.details) == ("unknown_field", {"field": field})
    assert f'"{field}"' in error.message
    assert "arguments" in (error.hint or "")


@pytest.mark.parametrize("words", [w for w in YES + NO if "approved" not in w], ids=str)
@pytest.mark.parametrize("shape", [str.upper, str.title, lambda word: f" {word}\n"])
def test_case_does_not_matter(words: dict[str, Any], shape: Any) -> None:
    [(key, word)] = words.items()
    assert parse_decision("tool", {key: shape(word)}) == parse_decision("tool", words)


@pytest.mark.parametrize(
    ("words", "approved"),
    [
        ({"answer": "no", "action": "approve", "approved": True}, False),
        ({"answer": "yes", "action": "reject", "approved": False}, True),
        ({"action": "reject", "approved": True}, False),
        ({"action": "yes", "approved": False}, True),
    ],
)
def test_answer_wins_over_action_over_approved(words: dict[str, Any], approved: bool) -> None:
    assert parse_decision("tool", words)["approved"] is approved


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"approved": "true"},
        {"approved": 1},
        {"approved": None},
        {"action": "y"},
        {"action": "true"},
        {"action": True},
        {"action": "retry"},
        {"answer": True},
        {"answer": 1},
        {"answer": ["yes"]},
        {"answer": "ok"},
        {"answer": "yes please"},
        {"answer": ""},
        {"reason": "because"},
        {"aproved": True},
        # What wins must be understood: nothing weaker takes its place.
        {"answer": "maybe", "approved": True},
        {"action": "maybe", "approved": True},
        {"answer": "maybe", "action": "approve"},
    ],
    ids=str,
)
def test_anything_else_decides_nothing(words: dict[str, Any]) -> None:
    error = refused("tool", words)
    assert error.code == "decision_required"
    assert error.hint


@pytest.mark.parametrize("words", [True, "yes", None, [("approved", True)]])
def test_what_is_no_mapping_is_refused(words: Any) -> None:
    assert refused("tool", words).code == "invalid_request"


def test_misspelled_field_gets_the_valid_name() -> None:
    for words in ({"aproved": True}, {"anwser": "yes"}, {"acton": "approve"}):
        [field] = words
        error = refused("tool", words)
        assert (error.code, error.details["field"]) == ("decision_required", field)
        assert str(error.hint).startswith("Did you mean ")
    assert not str(refused("tool", {"colour": "red"}).hint).startswith("Did")


KNOWN = {word for words in YES + NO for word in words.values() if isinstance(word, str)}


@given(st.text() | st.none() | st.integers() | st.lists(st.text()))
def test_no_unknown_word_ever_decides(word: Any) -> None:
    if not (isinstance(word, str) and word.strip().lower() in KNOWN):
        for key in ("answer", "action"):
            assert refused("tool", {key: word, "approved": True}).code == "decision_required"


@given(
    st.dictionaries(
        st.sampled_from(["approved", "action", "answer", "arguments", "reason", "decided_by", "result"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats()
            | st.text()
            | st.sampled_from(sorted(KNOWN)),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
            max_leaves=5,
        ),
    ),
    st.sampled_from(["tool", "outcome_unknown"]),
)
def test_any_json_is_decided_or_refused_in_words(words: dict[str, Any], kind: str) -> None:
    try:
        decision = parse_decision(kind, words)
    except AgentError as error:
        outcome: object = error.code
    else:
        outcome = decision.get("approved", decision.get("action"))
    assert isinstance(outcome, bool) or outcome in (
        *("retry", "done", "failed"),
        *("decision_required", "invalid_arguments", "invalid_request", "unknown_field"),
    )


# ------------------------------------------------------------------ what goes with it


def test_reason_and_decider_are_stored() -> None:
    decision = parse_decision("tool", {"answer": "no", "reason": "too soon", "decided_by": "ada"})
    assert decision == {"approved": False, "reason": "too soon", "decided_by": "ada"}
    assert parse_decision("tool", {"answer": "no", "reason": None}) == {"approved": False}


@pytest.mark.parametrize("name", ["reason", "decided_by"])
@pytest.mark.parametrize("value", [1, True, ["x"], {"a": 1}, "x" * (MAX_TEXT + 1)])
def test_reasons_are_bounded_texts(name: str, value: Any) -> None:
    assert refused("tool", {"approved": True, name: value}).code == "invalid_request"
    assert parse_decision("tool", {"approved": True, name: "x" * MAX_TEXT})[name]


@pytest.mark.parametrize("arguments", ["x", 1, True, [], [1]])
def test_edited_arguments_are_an_object(arguments: Any) -> None:
    assert refused("tool", {"approved": True, "arguments": arguments}).code == "invalid_arguments"


def test_edited_arguments_replace_in_full_and_mean_nothing_with_a_no() -> None:
    assert parse_decision("tool", {"approved": True, "arguments": {}})["arguments"] == {}
    assert "arguments" not in parse_decision("tool", {"approved": False, "arguments": {"a": 1}})


# ---------------------------------------------------------------- unknown outcomes


@pytest.mark.parametrize("word", ["retry", "done", "failed", "RETRY", " Done "])
def test_known_decisions_about_an_unknown_outcome(word: str) -> None:
    assert parse_decision("outcome_unknown", {"action": word}) == {"action": word.strip().lower()}


@pytest.mark.parametrize(
    "words",
    [
        {},
        {"approved": True},
        {"answer": "yes"},
        {"answer": "retry"},
        {"action": "approve"},
        {"action": "yes"},
        {"action": True},
        {"action": "again"},
        {"approved": True, "answer": "yes"},
    ],
    ids=str,
)
def test_yes_says_nothing_of_an_unknown_outcome(words: dict[str, Any]) -> None:
    error = refused("outcome_unknown", words)
    assert error.code == "decision_required"
    assert "retry" in (error.hint or "")


def test_done_may_carry_a_result() -> None:
    done = parse_decision("outcome_unknown", {"action": "done", "result": "id 7"})
    assert done == {"action": "done", "result": "id 7"}
    assert "result" not in parse_decision("outcome_unknown", {"action": "retry", "result": "x"})
    assert refused("outcome_unknown", {"action": "done", "result": {"id": 7}}).code == "invalid_request"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("outcome_unknown", {"action": "retry", "arguments": {"a": 1}}),
        ("tool", {"approved": True, "content": {"a": 1}}),
        ("tool", {"approved": True, "result": "a"}),
        ("elicitation", {"action": "accept", "arguments": {"a": 1}}),
    ],
)
def test_an_edit_under_the_name_of_another_kind_decides_nothing(kind: str, words: dict[str, Any]) -> None:
    assert refused(kind, words).code == "unknown_field"


@pytest.mark.parametrize(
    ("body", "hint"),
    [
        ({}, "The run or the call that it was about has ended."),
        ({"superseded_by": "q2"}, "The approval q2 took its place."),
    ],
)
def test_decision_about_a_void_approval_is_told_why(body: dict[str, Any], hint: str) -> None:
    error = already(Question("q1", "c", "tool", "void", body, None, 1.0, None, 2.0))
    assert (error.code, error.hint) == ("void", hint)


DEEP: dict[str, Any] = {}
for _ in range(MAX_DEPTH):
    DEEP = {"v": DEEP}


@pytest.mark.parametrize(
    "value",
    [math.nan, {"v": math.inf}, object(), {1, 2}, DEEP],
    ids=["nan", "inf", "object", "set", "deep"],
)
def test_value_that_is_not_json_decides_nothing(value: Any) -> None:
    """HTTP lets none of it in; a program, or what is typed at a terminal, does."""
    for kind, words in (
        ("tool", {"approved": True, "arguments": {"v": value}}),
        ("elicitation", {"action": "accept", "content": {"v": value}}),
    ):
        assert refused(kind, words).code == "invalid_arguments"
