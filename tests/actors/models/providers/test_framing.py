from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.sse_parser import EventTooLarge
from stopgo.actors.models.providers import framing
from stopgo.actors.models.providers.framing import Framing, JsonLines, ServerSentEvents, framing_of

lines = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=9).filter(
    lambda line: line.strip() != ""
)


def pieces(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[begin:end] for begin, end in pairwise(places)]


@given(st.lists(lines), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans(), st.lists(st.integers(0)))
def test_json_lines_are_the_same_however_they_are_cut(
    given: list[str], end: str, ended: bool, cuts: list[int]
) -> None:
    body = (end.join(given) + (end if ended else "")).encode()
    parser = JsonLines()
    found = [line for piece in pieces(body, cuts) for line in parser.feed(piece)]
    assert [line.removesuffix("\r") for line in [*found, *parser.end()]] == given


@pytest.mark.parametrize(
    ("before", "last"), [(b"", b"x" * 11), (b"x" * 6, b"x" * 5), (b"", b"x" * 11 + b"\n")]
)
def test_a_line_is_bounded(monkeypatch: pytest.MonkeyPatch, before: bytes, last: bytes) -> None:
    monkeypatch.setattr(framing, "MAX_EVENT_BYTES", 10)
    parser = JsonLines()
    parser.feed(before)
    with pytest.raises(EventTooLarge):
        parser.feed(last)


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("text/event-stream; charset=utf-8", ServerSentEvents),
        ("Text/Event-Stream", ServerSentEvents),
        ("application/x-ndjson", JsonLines),
        ("application/json", None),
        ("", None),
    ],
)
def test_framing_follows_the_content_type(content_type: str, kind: type[Framing] | None) -> None:
    found = framing_of(content_type)
    assert (type(found) if found is not None else None) == kind
