"""Which member of a request a refusal is about."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from stopgo.actors.models.codecs.profiles import PROFILES, Flavour
from stopgo.actors.models.codecs.refused_members import without_refused
from stopgo.actors.models.messages.messages import ModelFailed

COMPATIBLE = PROFILES["openai_compatible"].flavour


def refused(answer: str, status: int = 400, flavour: Flavour = COMPATIBLE) -> Flavour | None:
    return without_refused(flavour, ModelFailed("refused", status=status, answer=answer))


@pytest.mark.parametrize(
    ("answer", "left"),
    [
        ("property 'stream_options' is unsupported, did you mean 'stream'?", {"stream_usage": False}),
        (
            "'messages.1' : property 'reasoning_content' is unsupported",
            {"returned": ("reasoning_details", "reasoning")},
        ),
        (
            "'messages.1' : property 'reasoning' is unsupported, did you mean 'role'?",
            {"returned": ("reasoning_details", "reasoning_content")},
        ),
        ("'messages.2' : property 'name' is unsupported", {"result_name": False}),
        (
            '[{"type":"extra_forbidden","loc":["body","messages",2,"tool","name"]}]',
            {"result_name": False},
        ),
        (
            "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.",
            {"max_tokens": "max_completion_tokens"},
        ),
    ],
)
def test_refused_member_is_left_out(answer: str, left: dict[str, Any]) -> None:
    assert refused(answer) == attrs.evolve(COMPATIBLE, **left)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        # DeepSeek, "Thinking mode": it is missing, not refused.
        ("The `reasoning_content` in the thinking mode must be passed back to the API.", 400),
        ("property 'stream_options' is unsupported", 500),
        ("tools.0.function.name: unexpected characters", 400),
        ("The model `qwen9` does not exist", 400),
        ("max_tokens is too large: 99999; unsupported value", 400),
        ("", 400),
    ],
)
def test_other_failure_changes_nothing(answer: str, status: int) -> None:
    assert refused(answer, status) is None
