from __future__ import annotations

import pytest

from stopgo.actors.elicitation import misformed

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
