"""Points in time, as RFC 3339 and ProtoJSON have them."""

from __future__ import annotations

import pytest
from hypothesis import given

from stopgo.actors.a2a.wire.timestamp import read_time, write_time

from .objects import TIMES


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:00:01Z", 1.0),
        ("1970-01-01t00:00:01.5z", 1.5),
        ("1970-01-01T01:00:01.123456789+01:00", 1.123456),
        ("1969-12-31T19:00:00-05:00", 0.0),
        ("0001-01-01T00:00:00+23:59", -62135683140.0),
        ("9999-12-31T23:59:59-23:59", 253402387139.0),
    ],
)
def test_calls_are_read(text: str, at: float) -> None:
    assert read_time(text) == at


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "1970-01-01",
        "1970-01-01 00:00:01Z",
        "1970-01-01T00:00:01",
        "1970-01-01T00:00Z",
        "1970-01-01T00:00:01,5Z",
        "1970-01-01T00:00:01.Z",
        "1970-01-01T00:00:01.1234567890Z",
        "1970-01-01T00:00:01+0100",
        "1970-01-01T00:00:01+24:00",
        "1970-01-01T00:00:01+01:00:30",
        "1970-02-30T00:00:00Z",
        "1970-01-01T00:00:60Z",
        "0000-01-01T00:00:00Z",
        "١٩٧٠-01-01T00:00:00Z",
        "1970-01-01T00:00:01Z\n",
        "1970-W01-4T00:00:01Z",
    ],
)
def test_invalid_calls(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_time(text)


@pytest.mark.parametrize(("at", "text"), [(0, "1970-01-01T00:00:00.000Z"), (1.5, "1970-01-01T00:00:01.500Z")])
def test_written_errors(at: float, text: str) -> None:
    assert write_time(at) == text


@given(TIMES)
def test_written_times_are_read_back(at: float) -> None:
    assert read_time(write_time(at)) == at
