from __future__ import annotations

import json
import struct
from contextlib import suppress
from itertools import pairwise
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo.actors.common.sse_parser import EventTooLarge
from stopgo.actors.models.codecs import framing
from stopgo.actors.models.codecs.framing import AwsFrames, Framing, JsonLines, ServerSentEvents, framing_of
from stopgo.actors.models.messages.messages import ModelFailed
from tests.providers.servers.bedrock import event, frame

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
        ("application/vnd.amazon.eventstream", AwsFrames),
        ("application/json", None),
        ("", None),
    ],
)
def test_framing_follows_the_content_type(content_type: str, kind: type[Framing] | None) -> None:
    found = framing_of(content_type)
    assert (type(found) if found is not None else None) == kind


# A frame of Bedrock, as botocore 1.44 reads it.
RECORDED = bytes.fromhex(
    "0000007c0000004bb80e4abf0d3a6d6573736167652d747970650700056576656e740b3a6576656e742d747970650700056368756e"
    "6b0d3a636f6e74656e742d747970650700106170706c69636174696f6e2f6a736f6e7b226279746573223a202265794a306558426c"
    "496a6f6963476c755a794a39227d91e51960"
)
CHUNK = {"event": "chunk", "payload": {"bytes": "eyJ0eXBlIjoicGluZyJ9"}}


@given(st.lists(st.text(max_size=5), max_size=3), st.lists(st.integers(0)))
def test_frames_are_the_same_however_they_are_cut(given: list[str], cuts: list[int]) -> None:
    body = RECORDED + b"".join(event(name, {"p": name}) for name in given)
    parser = AwsFrames()
    found = [json.loads(each) for piece in pieces(body, cuts) for each in parser.feed(piece)]
    assert found == [CHUNK, *({"event": name, "payload": {"p": name}} for name in given)]


def test_every_changed_byte_is_noticed() -> None:
    """It is a failure, or the frame never ends: no changed byte reaches the reply."""
    for place in range(len(RECORDED)):
        changed = bytearray(RECORDED)
        changed[place] ^= 0x10
        with pytest.raises(ModelFailed, match="damaged") as failed:
            AwsFrames().feed(bytes(changed))
        assert failed.value.retryable


def test_frame_of_an_error_has_its_code_and_message() -> None:
    raw = frame(b"", message_type="error", error_code="X", error_message='say "no"')
    (found,) = AwsFrames().feed(raw)
    assert json.loads(found) == {"error": "X", "payload": {"message": 'say "no"'}}


@given(st.binary(max_size=60))
def test_any_headers_with_a_right_checksum_are_read_or_refused(headers: bytes) -> None:
    prelude = struct.pack(">II", len(headers) + 16, len(headers))
    raw = prelude + struct.pack(">I", crc32(prelude)) + headers
    with suppress(ModelFailed):
        AwsFrames().feed(raw + struct.pack(">I", crc32(raw)))


def test_a_frame_is_bounded() -> None:
    prelude = struct.pack(">II", 100_000_000, 0)
    with pytest.raises(EventTooLarge):
        AwsFrames().feed(prelude + struct.pack(">I", crc32(prelude)))
