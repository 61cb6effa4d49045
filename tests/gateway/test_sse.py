"""Server-sent events on the wire, read back as the standard says."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stopgo.gateway.http import sse

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(1, 2**53), st.dictionaries(st.text(), values, max_size=4))
def test_any_data_encodes_as_one_event(seq: int, data: dict[str, Any]) -> None:
    text = sse.encode(data, "message.added", seq).decode()
    assert text.endswith("\n\n")
    # The standard ends a line at CR, LF or CRLF, and at nothing else.
    id, event, payload = text[:-2].replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert (id, event) == (f"id: {seq}", "event: message.added")
    assert json.loads(payload.removeprefix("data: ")) == data


def test_unpaired_surrogate_is_replaced() -> None:
    assert sse.encode({"a": "\ud800"}, "x", 1).endswith(b'data: {"a":"\xef\xbf\xbd"}\n\n')


def test_event_without_id_has_no_id_line() -> None:
    assert sse.encode({"text": "a"}, "model.delta") == b'event: model.delta\ndata: {"text":"a"}\n\n'


def test_comments_and_retry() -> None:
    assert sse.comment("keep-alive") == b": keep-alive\n\n"
    assert sse.retry(1.5) == b"retry: 1500\n\n"
