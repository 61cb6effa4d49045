from __future__ import annotations

import pytest

from stopgo.actors.tools.elicitation import MAX_QUESTION, misformed, unaskable
from stopgo.actors.tools.tool import Elicitation

GOOD = {
    "date": ["2026-02-28"],
    "date-time": ["2026-02-28T10:00:00Z", "2026-02-28T10:00:00.123+01:00"],
    "email": ["ada@example.org"],
    "uri": ["https://example.org/x", "urn:x"],
}
BAD = {
    "date": ["2026-02-30", "20260228", "2026-W09-6", "2026-02-28\n", "\u0662026-02-28", ""],
    "date-time": ["2026-02-28", "2026-02-28T10:00:00", "2026-02-28T25:00:00Z", "20260228T100000Z", "now"],
    "email": ["ada", "@example.org", "ada@"],
    "uri": ["example.org", "//example.org", "http://[x"],
}


@pytest.mark.parametrize("format", GOOD)
def test_a_format_is_the_one_that_servers_check(format: str) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "string", "format": format}}}
    for text in GOOD[format]:
        assert misformed({"x": text}, schema) == []
    for text in BAD[format]:
        assert misformed({"x": text}, schema) == [f"x: {text!r} is not a {format}"]


@pytest.mark.parametrize("url", ["https://example.org/x?y=z", "http://localhost:8080"])
def test_people_are_sent_to_the_web(url: str) -> None:
    assert unaskable(Elicitation("Log in", url=url)) is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "https://",
        "https:///x",
        "http://[x",
        "file:///etc/passwd",
        "file://example.org/x",
        "javascript:alert(1)",
        "javascript://example.org/%0aalert(1)",
        "https://example.org/\u202egro.live",
        "https://example.org/\x1b[2J",
        "https://example.org/\u200b",
    ],
)
def test_and_nowhere_else(url: str) -> None:
    assert unaskable(Elicitation("Log in", url=url)) == "the address to visit is not one of the web"


def test_a_question_that_is_too_long_to_be_read_is_not_asked() -> None:
    assert unaskable(Elicitation("?" * (MAX_QUESTION - 100))) is None
    assert unaskable(Elicitation("?" * MAX_QUESTION)) is not None
    assert unaskable(Elicitation("?", {"description": "?" * MAX_QUESTION})) is not None
