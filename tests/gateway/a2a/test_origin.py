"""The agents that a message came through, and the messages that came through too many."""

from __future__ import annotations

from typing import Any

import pytest

from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.a2a_headers import PATH
from stopgo.actors.a2a.wire.task import Message, Text
from stopgo.actors.log.words.events import Origin
from stopgo.gateway.a2a.origin import LONGEST_ID, MOST_HOPS, origin_of

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def message(said: Any) -> Message:
    return Message(id="m", role="user", parts=(Text("hi"),), metadata={PATH: said})


@pytest.mark.parametrize(
    ("said", "trace", "origin"),
    [
        ({"agents": ["a", "b"]}, TRACE, Origin(("a", "b"), TRACE)),
        ({"agents": ["x"] * (MOST_HOPS - 1)}, None, Origin(("x",) * (MOST_HOPS - 1), None)),
        (None, TRACE, Origin((), TRACE)),
        ({"agents": []}, None, None),
        ("nothing of ours", None, None),
    ],
)
def test_where_a_message_came_from(said: Any, trace: str | None, origin: Origin | None) -> None:
    assert origin_of(message(said), trace, "me") == origin


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"agents": ["a", "me", "b"]}, "UNSUPPORTED_OPERATION"),
        ({"agents": ["x"] * MOST_HOPS}, "UNSUPPORTED_OPERATION"),
        ({"agents": ["x" * (LONGEST_ID + 1)]}, "UNSUPPORTED_OPERATION"),
        ({"agents": "a"}, "INVALID_PARAMS"),
        ({"agents": [1]}, "INVALID_PARAMS"),
        ({}, "INVALID_PARAMS"),
    ],
)
def test_messages_that_are_refused(said: Any, reason: str) -> None:
    with pytest.raises(A2AError) as refused:
        origin_of(message(said), None, "me")
    assert refused.value.reason == reason
