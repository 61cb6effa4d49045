"""The messages to other agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from stopgo.actors.a2a.outgoing import answer_message
from stopgo.actors.a2a.wire.task import Data, Message, Text
from stopgo.actors.tools.delegation import Delegate, Hop, RemoteAnswer, RemoteItem, RemoteTask


def answer(words: Mapping[str, Any], id: str | None = None) -> Message:
    request = Delegate(agent="a", text="do it", key="1/0:1.0", hop=Hop(session_id="s"))
    return answer_message(request, RemoteTask("t", "c"), RemoteAnswer(RemoteItem(message="m", id=id), words))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"approved": True}, ["approved"]),
        ({"approved": True, "reason": "go on"}, ["approved", "go on"]),
        ({"approved": False}, ["rejected"]),
        ({"approved": False, "reason": "too late"}, ["rejected", "too late"]),
        ({"approved": False, "reason": ""}, ["rejected"]),
        ({"action": "cancel"}, ["rejected"]),
        *(({"approved": value}, ["rejected"]) for value in (None, 1, "true", "no", [False], {"a": 1})),
    ],
)
def test_question_in_words_is_answered_in_words_and_only_true_approves(
    words: Mapping[str, Any], said: list[str]
) -> None:
    assert list(answer(words).parts) == [Text(each) for each in said]


@pytest.mark.parametrize(
    "words", [{"approved": True}, {"approved": False, "reason": "no"}, {"answer": "yes"}]
)
def test_question_with_an_id_is_answered_with_the_words_as_data(words: Mapping[str, Any]) -> None:
    assert list(answer(words, "i").parts) == [Data({"id": "i", **words})]
