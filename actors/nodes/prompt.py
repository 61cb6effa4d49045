"""Placeholders in prompts."""

from __future__ import annotations

import re
from collections.abc import Mapping

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


def fill(prompt: str, values: Mapping[str, str]) -> str:
    """Replace every `{key}` that has a value; the others stay as they are (FR-025)."""
    return _PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), prompt)
