"""The crash matrix, for the tree language and the policy: each scenario killed around every write."""

from __future__ import annotations

import pytest

from .killing import EDGES, Kill
from .story import Scenario, Story
from .test_matrix import each, kill_at_every_write, live_through
from .tree_scenarios import EDIT_ASKED_AGAIN, EXPIRED_OVERNIGHT, LOOP_APPROVED, TOOL_CHANGED, TREES
from .verify import verify


@each(TREES)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    story = live_through(scenario)
    verify(story, live_through(scenario))


@each(TREES)
def test_killed_once(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)
    for edge in EDGES:
        points = kill_at_every_write(edge, (), lambda kills: live_through(scenario, kills, undisturbed))
        assert points >= 4


@pytest.mark.crash
@each([LOOP_APPROVED, EDIT_ASKED_AGAIN, EXPIRED_OVERNIGHT, TOOL_CHANGED])
def test_killed_twice(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)

    def live(kills: list[Kill]) -> Story:
        return live_through(scenario, kills, undisturbed)

    def again_and_again(first: list[Kill]) -> Story:
        for edge in EDGES:
            kill_at_every_write(edge, first, live)
        return live(first)

    assert kill_at_every_write("before", (), again_and_again) >= 4
