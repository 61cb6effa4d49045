from __future__ import annotations

import re
from typing import Any

import attrs

from stopgo.actors.models.codecs.turns import (
    NO_RESULT,
    NO_TEXT,
    NOT_SHOWN,
    CallResult,
    ChatTurn,
    ModelTurn,
    PastReply,
    TurnStyle,
    UserTurn,
    wire_turns,
)
from stopgo.actors.models.messages.messages import (
    AssistantMessage,
    ChatMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    Verbatim,
)

from .conftest import request

IDS = re.compile("[a-z0-9]+")
ONE = ToolCall("one", "add", {"a": 1})
TWO = ToolCall("two", "add", {"a": 2})
USER = UserMessage("hi")
ASKED = UserTurn(texts=("hi",))


def of(*messages: ChatMessage) -> tuple[ChatTurn, ...]:
    found: list[ChatTurn] = []

    def write(turn: ChatTurn, before: ChatTurn | None) -> list[dict[str, Any]]:
        assert before is (found[-1] if found else None)
        found.append(turn)
        return []

    wire_turns(attrs.evolve(request(), messages=messages), TurnStyle(None, "claude", "anthropic", IDS, write))
    return tuple(found)


def result(id: str, content: str) -> ToolMessage:
    return ToolMessage(id, "add", content)


def test_a_conversation_with_a_tool() -> None:
    exchange: list[ChatMessage] = [
        USER,
        AssistantMessage("let me", (ONE,)),
        result("one", "1"),
        AssistantMessage("it is 1"),
    ]
    assert of(*exchange, UserMessage("thanks")) == (
        ASKED,
        ModelTurn((PastReply("let me", (ONE,), None),)),
        UserTurn(results=(CallResult("one", "add", "1", False),)),
        ModelTurn((PastReply("it is 1", (), None),)),
        UserTurn(texts=("thanks",)),
    )


def test_results_precede_text_in_the_order_of_calls() -> None:
    both = AssistantMessage("", (ONE, TWO))
    *_, last = of(USER, both, result("two", "2"), result("one", "1"), UserMessage("go on"))
    assert last == UserTurn(
        (CallResult("one", "add", "1", False), CallResult("two", "add", "2", False)), ("go on",)
    )


def test_missing_results_are_added_and_stray_ones_dropped() -> None:
    *_, last = of(USER, AssistantMessage("", (ONE, TWO)), result("two", "2"), result("three", "3"))
    missing = CallResult("one", "add", NO_RESULT, is_error=True)
    assert last == UserTurn(results=(missing, CallResult("two", "add", "2", False)))
    assert of(USER, result("one", "late")) == (ASKED,)


def test_adjacent_messages_of_one_side_are_one_turn() -> None:
    assert of(USER, UserMessage("are you there?")) == (UserTurn(texts=("hi", "are you there?")),)
    _, turn = of(USER, AssistantMessage("yes"), AssistantMessage("", (ONE,)))[:2]
    assert turn == ModelTurn((PastReply("yes", (), None), PastReply("", (ONE,), None)))


def test_a_user_begins() -> None:
    assert of(AssistantMessage("hello"), USER)[0] == UserTurn(texts=(NOT_SHOWN,))
    assert of() == (UserTurn(texts=(NOT_SHOWN,)),)


def test_no_text_is_empty() -> None:
    assert of(UserMessage(" \n")) == (UserTurn(texts=(NO_TEXT,)),)
    assert of(USER, AssistantMessage("  ")) == (ASKED,)
    assert of(USER, AssistantMessage(" ", (ONE,)))[1] == ModelTurn((PastReply("", (ONE,), None),))


def test_ids_are_valid_and_unique_in_a_history() -> None:
    odd = AssistantMessage("", (ToolCall("SAME", "add", {}), ToolCall("SAME", "add", {})))
    found = of(USER, odd, result("SAME", "1"), result("SAME", "2"), odd, result("SAME", "3"))
    calls = [call.id for turn in found if isinstance(turn, ModelTurn) for call in turn.replies[0].calls]
    results = [each for turn in found if isinstance(turn, UserTurn) for each in turn.results]
    assert len(set(calls)) == 4
    assert all(IDS.fullmatch(id) for id in calls)
    assert [each.id for each in results] == calls
    assert [each.content for each in results] == ["1", "2", "3", NO_RESULT]


def test_verbatim_is_used_only_for_its_provider() -> None:
    def said(provider: str) -> object:
        turn = of(USER, AssistantMessage("hello", (), Verbatim(provider, ["kept"])))[1]
        assert isinstance(turn, ModelTurn)
        return turn.replies[0].verbatim

    assert said("anthropic") == ["kept"]
    assert said("google") is None
