"""Bodies of HTTP responses: reading their events, and the limits of these."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from stopgo.actors.common import sse_parser
from stopgo.actors.common.sse_parser import SseEvent
from stopgo.actors.mcp.transports import response_body
from stopgo.actors.mcp.transports.response_body import STREAM, Bounded, read_body, read_events
from stopgo.actors.mcp.wire.message_bound import BoundedMessage

LINE = b"event: " + b"x" * 100


class Chunks(httpx2.AsyncByteStream):
    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk

    async def aclose(self) -> None:
        pass


def response(*chunks: bytes, content_type: str = STREAM) -> httpx2.Response:
    return httpx2.Response(200, headers={"content-type": content_type}, stream=Chunks(*chunks))


async def test_events_are_read_to_the_end_of_the_stream() -> None:
    stream = response(b"id: 1\rdata: a", b"\r\rdata: b\r\r", content_type=f"{STREAM}; charset=rot13")
    assert [event async for event in read_events(stream)] == [SseEvent(b"a", id="1"), SseEvent(b"b")]


async def test_other_content_is_not_read_as_events() -> None:
    with pytest.raises(httpx2.SSEError, match="expected a stream of events, found content type 'text/html'"):
        async for _ in read_events(response(b"data: a\n\n", content_type="text/html")):
            pass


@pytest.mark.parametrize("chunk", [LINE, b"data: " + LINE])
async def test_event_over_the_limit_ends_reading(chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_body, "MAX_EVENT", 50)
    with pytest.raises(httpx2.SSEError, match="an event of its stream is too large"):
        async for _ in read_events(response(chunk)):
            pass


async def test_bounded_stream_ends_at_a_line_over_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse_parser, "MAX_EVENT_BYTES", 50)
    bounded = Bounded.body_of(response(b"data: a\n\n", LINE), BoundedMessage(1000), stream=True)
    with pytest.raises(httpx2.SSEError, match="an event of its stream is too large"):
        await read_body(bounded)
