"""The crash matrix for turns over A2A."""

from __future__ import annotations

import pytest

from .a2a_scenarios import BY_A2A
from .matrix import each, in_parts, kill_once, kill_twice, live_undisturbed
from .story import Scenario

pytestmark = pytest.mark.crash


@each(BY_A2A)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    live_undisturbed(scenario)


@each(BY_A2A)
def test_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@each(BY_A2A)
@in_parts
def test_killed_twice(scenario: Scenario, part: int) -> None:
    kill_twice(scenario, part)
