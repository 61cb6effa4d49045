"""Filling the placeholders in prompts."""

from __future__ import annotations

from collections.abc import Mapping

from stopgo.config.placeholders import PLACEHOLDER


def fill(prompt: str, values: Mapping[str, str]) -> str:
    """Replace every `{key}` that has a value; the others stay as they are (FR-025)."""
    return PLACEHOLDER.sub(lambda match: values.get(match[1], match[0]), prompt)
