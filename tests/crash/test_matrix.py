"""The crash matrix for decisions, ends of runs, and recovery."""

from __future__ import annotations

from pathlib import Path

import pytest

from .matrix import each, in_parts, kill_once, kill_twice, live_undisturbed, over_files
from .scenarios import MAIN, SCENARIOS, VARIATIONS
from .story import Scenario


@each(SCENARIOS)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    live_undisturbed(scenario)


@each(SCENARIOS)
def test_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each([scenario for scenario in SCENARIOS if scenario not in VARIATIONS])
@in_parts
def test_killed_twice(scenario: Scenario, part: int) -> None:
    kill_twice(scenario, part)


@pytest.mark.crash
@each(MAIN)
def test_killed_once_over_a_file(scenario: Scenario, tmp_path: Path) -> None:
    kill_once(scenario, over_files(tmp_path))
