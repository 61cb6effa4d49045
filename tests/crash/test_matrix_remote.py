"""The crash matrix for work that is delegated to another agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from .matrix import each, in_parts, kill_once, kill_twice, live_undisturbed, over_files
from .remote_question_scenarios import (
    APPROVED,
    ASKED,
    DECIDED_FIRST,
    EDIT_REFUSED,
    LAST_FIRST,
    UNTOLD_REJECTED,
)
from .remote_work_scenarios import CANCELLED, FOUND_BY_LIST, LEFT_FIRST, WORK
from .story import Scenario

REMOTE = (*WORK, *ASKED)
TELLING = (APPROVED, UNTOLD_REJECTED, EDIT_REFUSED, DECIDED_FIRST, FOUND_BY_LIST, CANCELLED, LEFT_FIRST)
"""The scenarios that `make test` includes."""


@each(REMOTE)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    live_undisturbed(scenario)


@each(TELLING)
def test_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each([scenario for scenario in REMOTE if scenario not in TELLING])
def test_others_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each([EDIT_REFUSED, LAST_FIRST])
@in_parts
def test_killed_twice(scenario: Scenario, part: int) -> None:
    kill_twice(scenario, part)


@pytest.mark.crash
@each([LAST_FIRST])
def test_killed_once_over_a_file(scenario: Scenario, tmp_path: Path) -> None:
    kill_once(scenario, over_files(tmp_path))
