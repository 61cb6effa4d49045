"""The crash matrix for trees and policies."""

from __future__ import annotations

import pytest

from .matrix import each, in_parts, kill_once, kill_twice, live_undisturbed
from .story import Scenario
from .tree_scenarios import (
    EDIT_ASKED_AGAIN,
    EXPIRED_OVERNIGHT,
    LOOP_APPROVED,
    REJECTED,
    REJECTED_EVERYWHERE,
    TOOL_CHANGED,
    TREES,
)


@each(TREES)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    live_undisturbed(scenario)


@each(TREES)
def test_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@each(REJECTED)
def test_a_rejection_killed_once(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each(REJECTED_EVERYWHERE)
def test_a_rejection_killed_once_in_every_nesting(scenario: Scenario) -> None:
    kill_once(scenario)


@pytest.mark.crash
@each([LOOP_APPROVED, EDIT_ASKED_AGAIN, EXPIRED_OVERNIGHT, TOOL_CHANGED])
@in_parts
def test_killed_twice(scenario: Scenario, part: int) -> None:
    kill_twice(scenario, part)
