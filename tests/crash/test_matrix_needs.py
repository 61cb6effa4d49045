"""The crash matrix for prerequisites and elicitations."""

from __future__ import annotations

from pathlib import Path

import pytest

from .matrix import each, in_parts, kill_once, kill_twice, live_undisturbed, over_files
from .question_scenarios import AMID_ACCEPTED, AMID_APPROVED, APPROVED_ASKED, QUESTIONS, VISITED
from .story import Scenario
from .token_scenarios import (
    ANSWERED_TOO_LATE,
    APPROVED_UNAUTHORIZED,
    BESIDE_APPROVAL,
    FORBIDDEN,
    LOCKED,
    TOKENS,
)

NEEDS = (*TOKENS, *QUESTIONS)


@each(NEEDS)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    live_undisturbed(scenario)


@each(NEEDS)
def test_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each(
    [
        APPROVED_UNAUTHORIZED,
        FORBIDDEN,
        LOCKED,
        BESIDE_APPROVAL,
        ANSWERED_TOO_LATE,
        APPROVED_ASKED,
        VISITED,
        AMID_ACCEPTED,
        AMID_APPROVED,
    ]
)
@in_parts
def test_killed_twice(scenario: Scenario, part: int) -> None:
    kill_twice(scenario, part)


@pytest.mark.crash
@each([ANSWERED_TOO_LATE, AMID_ACCEPTED])
def test_killed_once_over_a_file(scenario: Scenario, tmp_path: Path) -> None:
    kill_once(scenario, over_files(tmp_path))
