"""Whatever a client sends is read, or refused by A2AError for one of its fields."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.a2a.wire import older_codec, v03_codec, v03_rest_codec, v1_codec
from stopgo.actors.a2a.wire.a2a_errors import A2AError
from stopgo.actors.a2a.wire.task import Request, Send

from .valid_requests import SEND_03, SEND_1, SEND_REST, VALID, changed


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All objects and lists of a JSON value, with each of their keys."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


NAMES = sorted(
    {key for _, _, params in VALID for _, key in places(params) if isinstance(key, str)} | {"type"}
)
NASTY = st.sampled_from([float("nan"), float("inf"), -0.0, 10**400, 2**64, "\ud800", "\0", "1" * 5000])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | NASTY,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=4)
    ),
    max_leaves=8,
)
REPLACED = st.tuples(st.sampled_from(VALID), ANYTHING).map(lambda both: (*both[0][:2], both[1]))


@st.composite
def spoilt(draw: st.DrawFn) -> tuple[Any, str, Any]:
    """A valid request with other values at one or two places."""
    codec, method, params = draw(st.sampled_from(VALID))
    params = copy.deepcopy(dict(params))
    for _ in range(draw(st.integers(1, 2))):
        found = list(places(params))
        if found:
            around, key = draw(st.sampled_from(found))
            around[key] = draw(ANYTHING)
    return codec, method, params


def read_or_refused(read: Callable[[], Request]) -> Request | A2AError:
    try:
        return read()
    except A2AError as error:
        return error


def check(codec: Any, method: str, params: Any) -> None:
    result = read_or_refused(lambda: codec.read_request(method, params))
    if isinstance(result, A2AError):
        assert result.reason == "INVALID_PARAMS"
        assert result.violations
    if isinstance(result, Send):
        codec.write_item(result.message)


@given(REPLACED | spoilt())
def test_any_request_is_read_or_refused(request_: tuple[Any, str, Any]) -> None:
    check(*request_)


@given(ANYTHING | spoilt().map(lambda request_: request_[2]))
def test_any_request_of_the_older_dialect_is_read_or_refused(params: Any) -> None:
    if older_codec.is_older("message/send", params):
        result = read_or_refused(lambda: older_codec.read_request("message/send", params, message_id="m"))
        assert isinstance(result, Send) or (isinstance(result, A2AError) and result.violations)


@pytest.mark.parametrize(
    ("codec", "method", "params"),
    [
        (v1_codec, "SendMessage", SEND_1),
        (v03_codec, "message/send", SEND_03),
        (v03_rest_codec, "message/send", SEND_REST),
    ],
)
@pytest.mark.parametrize("where", ["message", "metadata", "message.role", "configuration.historyLength"])
@pytest.mark.parametrize("is_list", [True, False])
def test_depth_does_not_matter(
    codec: Any, method: str, params: Mapping[str, Any], where: str, is_list: bool
) -> None:
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep] if is_list else {"message": deep}
    check(codec, method, changed(params, where, deep))
