"""The names of tools for models."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stopgo import parse_tool_name
from stopgo.actors.tools.names import MAX_LENGTH, prefixed_name


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        # `ParseMCPToolName` of the design of the MCP bridge, 5.2 and 8.1: SplitN(name, "__", 3)
        ("mcp__filesystem__read_file", ("filesystem", "read_file")),
        ("mcp__github__create__issue", ("github", "create__issue")),
        ("mcp__files__", ("files", "")),
        ("mcp__files", None),
        ("mcp", None),
        ("read_file", None),
        ("a__b__c", None),
    ],
)
def test_prefixed_name_is_parsed(name: str, parsed: tuple[str, str] | None) -> None:
    assert parse_tool_name(name) == parsed


@given(
    server=st.from_regex(r"[A-Za-z0-9][A-Za-z0-9-]{0,19}", fullmatch=True),
    own=st.text(min_size=1, max_size=30),
)
def test_every_prefixed_name_can_be_parsed(server: str, own: str) -> None:
    name = prefixed_name(server, own)
    plain = [re.sub("[^A-Za-z0-9_-]", "_", each) for each in (server, own)]
    assert len(name) < MAX_LENGTH
    assert parse_tool_name(name) == tuple(plain)
