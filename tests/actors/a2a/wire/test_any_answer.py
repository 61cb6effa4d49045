"""Whatever an agent sends is an answer, its refusal, or no answer: nothing else is raised."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.wire.a2a_errors import A2AError, InvalidAnswer
from stopgo.actors.a2a.wire.card_reader import Card, card_urls, origin_of, read_card, usable
from stopgo.actors.a2a.wire.client_codec import Interface, read_answer, read_event
from stopgo.actors.a2a.wire.error_json import MOST_QUOTED
from stopgo.actors.a2a.wire.task import ClientRequest, GetTask, ListTasks, Message, StreamItem, Task, TaskPage

from .test_any_params import ANYTHING, places
from .test_card_reader import CARDS
from .test_client_codec import INTERFACES, REAL, SEND, STREAM

ANSWERS = [answer["body"] for answer in REAL.values() if "body" in answer]
EVENTS = [event for answer in REAL.values() for event in answer.get("events", ())]
BODIES = [*ANSWERS, *EVENTS, *CARDS]
REQUESTS: list[ClientRequest] = [SEND, STREAM, GetTask("t"), ListTasks()]


@st.composite
def spoilt(draw: st.DrawFn) -> Any:
    """A real answer with other values at one or two places."""
    body = copy.deepcopy(draw(st.sampled_from(BODIES)))
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(body))
        if found:
            around, key = draw(st.sampled_from(found))
            around[key] = draw(ANYTHING)
    return body


def read_or_complaint(read: Callable[[], object]) -> object:
    """The answer, or the error instead, which gives a reason and quotes little."""
    try:
        return read()
    except (A2AError, InvalidAnswer) as error:
        complaint = error
    assert 0 < len(str(complaint)) <= MOST_QUOTED
    return complaint


@given(
    st.sampled_from(INTERFACES),
    st.sampled_from(REQUESTS),
    st.sampled_from([200, 204, 302, 400, 404, 500]),
    ANYTHING | spoilt(),
)
def test_any_answer(interface: Interface, request_: ClientRequest, status: int, body: Any) -> None:
    expected = TaskPage if isinstance(request_, ListTasks) else Task | Message
    found = read_or_complaint(lambda: read_answer(interface, request_, status, body))
    assert isinstance(found, expected | A2AError | InvalidAnswer)


@given(st.sampled_from(INTERFACES), ANYTHING | spoilt())
def test_any_event(interface: Interface, data: Any) -> None:
    found = read_or_complaint(lambda: read_event(interface, data))
    assert isinstance(found, StreamItem | A2AError | InvalidAnswer)


@given(ANYTHING | spoilt())
def test_any_card(body: Any) -> None:
    card = read_or_complaint(lambda: read_card(body))
    if isinstance(card, Card):
        for interface in card.interfaces:
            url = interface.url or "http://h"
            assert usable(card, url, (), url)
    else:
        assert isinstance(card, InvalidAnswer)


@given(st.text(max_size=8).map(lambda text: f"http://{text}") | st.text(max_size=8))
def test_any_url(url: str) -> None:
    try:
        origin = origin_of(url)
    except ValueError:
        with pytest.raises(ValueError):
            card_urls(url)
        return
    assert origin_of(origin) == origin
    assert {origin_of(each) for each in card_urls(url)} == {origin}


DEEP: Any = "x"
for _ in range(100_000):
    DEEP = [DEEP]
PARTS = {"parts": [{"kind": "data", "data": DEEP}, {"data": DEEP}, {"odd": DEEP}]}
STATUS = {"state": "working", "message": PARTS}


@pytest.mark.parametrize("interface", INTERFACES)
def test_depth_does_not_matter(interface: Interface) -> None:
    for body in (
        DEEP,
        {"error": DEEP},
        {"error": {"code": DEEP, "message": DEEP, "data": DEEP, "details": DEEP, "type": DEEP}},
        {"result": DEEP, "task": DEEP},
    ):
        with pytest.raises((A2AError, InvalidAnswer)):
            read_answer(interface, SEND, 200, body)
        with pytest.raises(InvalidAnswer):
            read_card(body)
    task = {"id": "t", "status": STATUS}
    found = read_answer(interface, SEND, 200, {"task": task, "result": task})
    assert isinstance(found, Task)
    assert found.status.message is not None
    assert len(found.status.message.parts) == 3
