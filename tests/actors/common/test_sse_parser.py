from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common import sse_parser
from stopgo.actors.common.sse_parser import EventTooLarge, SseParser

EVERYTHING = (
    "\ufeffdata: first\n\n"
    ": a comment\n"
    "event: named\r\nid: 7\r\nretry: 3\r\ndata: two\r\ndata:  lines\r\n\r\n"
    "data\n\n"
    "event: nothing\n\n"
    "unknown: x\rdata:é😀\r\r"
    "data: of an event without an end"
).encode()
EVENTS = [
    "first",
    "two\n lines",
    "",
    "é😀",
]


def parse(*chunks: bytes) -> list[str]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


def test_everything_a_stream_may_hold() -> None:
    assert parse(EVERYTHING) == EVENTS


@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=30))
def test_it_does_not_matter_where_the_bytes_were_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(EVERYTHING)]
    chunks = [EVERYTHING[start:end] for start, end in itertools.pairwise(ends)]
    assert parse(*chunks) == EVENTS


def test_byte_by_byte() -> None:
    assert parse(*(bytes([byte]) for byte in EVERYTHING)) == EVENTS


def test_an_event_is_given_as_soon_as_it_is_complete() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == ["a"]
    assert parser.feed(b"data: b\r\n\r") == []
    assert parser.feed(b"\n") == ["b"]


@pytest.mark.parametrize("chunk", [b"data: xxxxxx", b"data: xxxxxx\n", b": xxxxxxxxxx"])
def test_an_event_is_bounded(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 100)
    parser = SseParser()
    with pytest.raises(EventTooLarge):
        [parser.feed(chunk) for _ in range(50)]


def test_many_events_are_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 100)
    assert len(parse(*[b"data: xxxxxx\n\n"] * 50)) == 50
