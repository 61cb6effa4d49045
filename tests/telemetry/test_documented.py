"""The reference of traces lists every attribute."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/traces.md").read_text()
ATTRIBUTE = re.compile(r'"((?:gen_ai|stopgo|mcp|http|url|error)\.[a-z_.]+)"')


@pytest.mark.parametrize("module", ["run_spans.py", "tracing.py"])
def test_every_attribute_is_documented(module: str) -> None:
    used = set(ATTRIBUTE.findall((ROOT / "gateway/telemetry" / module).read_text()))
    assert used
    assert {name for name in used if f"`{name}`" not in PAGE} == set()
