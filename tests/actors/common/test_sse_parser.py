from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common import sse_parser
from stopgo.actors.common.sse_parser import EventTooLarge, SseEvent, SseParser

EVERYTHING = (
    "\ufeffdata: first\n\n"
    ": a comment\n"
    "event: named\r\nid: 7\r\nretry: 3\r\ndata: two\r\ndata:  lines\r\n\r\n"
    "data\n\n"
    "event: nothing\n\n"
    "id: a\0b\nretry: soon\n\n"
    "id\ndata:\n\n"
    "unknown: x\rdata:é😀\r\r"
    "data: of an event without an end"
).encode()
EVENTS = [
    SseEvent(b"first"),
    SseEvent(b"two\n lines", "named", "7", 3),
    SseEvent(b""),
    SseEvent(None, "nothing"),
    SseEvent(b"", id=""),
    SseEvent("é😀".encode()),
]


class Pieces:
    """A data buffer that shows how the data arrived."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def add(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def take(self) -> bytes:
        data, self.pieces = b"".join(self.pieces), []
        return data


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    return [event for chunk in chunks for event in parser.feed(chunk)]


@given(st.lists(st.integers(0, len(EVERYTHING)), max_size=30))
def test_events_are_the_same_wherever_the_bytes_are_cut(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(EVERYTHING)]
    chunks = [EVERYTHING[start:end] for start, end in itertools.pairwise(ends)]
    assert parse(*chunks) == EVENTS


def test_events_are_decoded_byte_by_byte() -> None:
    assert parse(*(bytes([byte]) for byte in EVERYTHING)) == EVENTS


def test_texts_are_those_of_events_with_data() -> None:
    assert SseParser().texts(EVERYTHING + b"\n\ndata: \xff\n\n") == [
        *("first", "two\n lines", "", "", "é😀", "of an event without an end", "\ufffd")
    ]


def test_event_is_returned_as_soon_as_it_is_complete() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [SseEvent(b"a")]
    assert parser.feed(b"data: b\r\n\r") == []
    assert parser.feed(b"\n") == [SseEvent(b"b")]
    assert parser.end() == []
    assert parser.feed(b"data: c\r\r") == []
    assert parser.end() == [SseEvent(b"c")]


def test_data_reaches_the_buffer_before_its_line_ends() -> None:
    buffer = Pieces()
    parser = SseParser(buffer, limit=20)
    for _ in range(10):
        parser.feed(b"data: xxxxxxxxxx"[len(b"".join(buffer.pieces)) and 6 :])
    assert len(b"".join(buffer.pieces)) == 100
    parser.feed(b"\r")
    assert b"\r" not in b"".join(buffer.pieces)
    assert parser.feed(b"\ndata: y\n\n") == [SseEvent(b"x" * 100 + b"\ny")]


@pytest.mark.parametrize("chunk", [b"data: xxxxxx", b"data: xxxxxx\n", b"data:\n", b": xxxxxxxxxx"])
def test_event_is_bounded(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 40)
    parser = SseParser()
    with pytest.raises(EventTooLarge):
        [parser.feed(chunk) for _ in range(50)]


def test_many_events_are_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 100)
    assert len(parse(*[b"data: xxxxxx\n\n"] * 50)) == 50
