"""The crash matrix, for what servers want of people: each scenario killed around every write."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import pytest

from .killing import EDGES, Kill
from .question_scenarios import AMID_ACCEPTED, AMID_APPROVED, APPROVED_ASKED, QUESTIONS, VISITED
from .story import Scenario, Story, in_sqlite
from .test_matrix import each, kill_at_every_write, live_through
from .token_scenarios import (
    ANSWERED_TOO_LATE,
    APPROVED_UNAUTHORIZED,
    BESIDE_APPROVAL,
    FORBIDDEN,
    LOCKED,
    TOKENS,
)
from .verify import verify

NEEDS = (*TOKENS, *QUESTIONS)


@each(NEEDS)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    story = live_through(scenario)
    verify(story, live_through(scenario))


@each(NEEDS)
def test_killed_once(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)
    for edge in EDGES:
        points = kill_at_every_write(edge, (), lambda kills: live_through(scenario, kills, undisturbed))
        assert points >= 4


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
def test_killed_twice(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)

    def live(kills: list[Kill]) -> Story:
        return live_through(scenario, kills, undisturbed)

    def again_and_again(first: list[Kill]) -> Story:
        # As in the matrix of all others, after one write is before the next, but for what was in flight.
        for edge in EDGES if scenario.outside.demands.amid else EDGES[:1]:
            kill_at_every_write(edge, first, live)
        return live(first)

    assert kill_at_every_write("before", (), again_and_again) >= 4


@pytest.mark.crash
@each([ANSWERED_TOO_LATE, AMID_ACCEPTED])
def test_killed_once_over_a_file(scenario: Scenario, tmp_path: Path) -> None:
    folders = (tmp_path / str(number) for number in count())
    undisturbed = live_through(scenario)
    for edge in EDGES:
        points = kill_at_every_write(
            edge,
            (),
            lambda kills: live_through(scenario, kills, undisturbed, in_sqlite(next(folders))),
        )
        assert points >= 4
