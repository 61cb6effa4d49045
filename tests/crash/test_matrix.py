"""The crash matrix: every scenario, killed before and after every write there is, once and twice.

The writes are counted while they happen, so a new one is a new crash point. Trio's order of tasks is another
one in every story, and told with a failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from .decision_scenarios import APPROVED
from .killing import EDGES, Edge, Kill
from .scenarios import MAIN, SCENARIOS, VARIATIONS
from .story import OpenJournal, Scenario, Story, in_memory, in_sqlite, tell
from .verify import verify


def each(scenarios: Sequence[Scenario]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.name)


def live_through(
    scenario: Scenario,
    kills: Sequence[Kill] = (),
    undisturbed: Story | None = None,
    open_journal: OpenJournal | None = None,
) -> Story:
    seed = random.randrange(2**32)
    try:
        story = tell(scenario, kills, open_journal or in_memory(), seed=seed)
        if story.fired == len(kills):
            verify(story, undisturbed)
    except BaseException as error:
        error.add_note(f"{scenario.name}: {list(kills)}, seed={seed}")
        raise
    return story


def kill_at_every_write(edge: Edge, earlier: Sequence[Kill], live: Callable[[list[Kill]], Story]) -> int:
    """Kill at the first write, at the second, ... until a life does not get that far. How many did."""
    for write in count(1):
        kills = [*earlier, Kill(write, edge)]
        if live(kills).fired < len(kills):
            return write - 1
    raise AssertionError


@each(SCENARIOS)
def test_what_happens_undisturbed(scenario: Scenario) -> None:
    story = live_through(scenario)
    verify(story, live_through(scenario))


@each(SCENARIOS)
def test_killed_once(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)
    for edge in EDGES:
        points = kill_at_every_write(edge, (), lambda kills: live_through(scenario, kills, undisturbed))
        assert points >= 4


@pytest.mark.crash
@each([scenario for scenario in SCENARIOS if scenario not in VARIATIONS])
def test_killed_twice(scenario: Scenario) -> None:
    undisturbed = live_through(scenario)

    def live(kills: list[Kill]) -> Story:
        return live_through(scenario, kills, undisturbed)

    def again_and_again(first: list[Kill]) -> Story:
        for edge in EDGES:
            kill_at_every_write(edge, first, live)
        return live(first)

    # After one write is before the next, but for what was in flight; one scenario tries both here, too.
    for edge in EDGES if scenario is APPROVED else EDGES[:1]:
        assert kill_at_every_write(edge, (), again_and_again) >= 4


@pytest.mark.crash
@each(MAIN)
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
