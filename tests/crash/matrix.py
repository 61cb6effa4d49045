"""The crash matrix: a scenario, killed before and after every write there is, once and twice.

Trio's order of tasks is another one in every story, and told with a failure.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import count, repeat
from pathlib import Path

import pytest

from stopgo.gateway.testing.crash_points import kill_at_every_write
from stopgo.gateway.testing.killing_journal import EDGES, Edge, Kill

from .story import OpenJournal, Scenario, Story, in_memory, in_sqlite, tell
from .verify import verify

FEWEST_WRITES = 4
"""Of any scenario: it has a message, what follows from it, and an end."""


def each(scenarios: Sequence[Scenario]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.name)


def live_undisturbed(scenario: Scenario) -> None:
    """Nobody is killed; and what it comes to does not depend on the order in which trio runs things."""
    story = _live(scenario)
    verify(story, _live(scenario))


def kill_once(scenario: Scenario, folder: Path | None = None) -> None:
    """Kill it before and after every write, over files in `folder` if there is one."""
    undisturbed = _live(scenario)
    files = repeat(None) if folder is None else (folder / str(number) for number in count())

    def live(kills: Sequence[Kill]) -> Story:
        file = next(files)
        return _live(scenario, kills, undisturbed, in_memory() if file is None else in_sqlite(file))

    for edge in EDGES:
        assert kill_at_every_write(edge, (), lambda kills: live(kills).fired) >= FEWEST_WRITES


def kill_twice(
    scenario: Scenario, *, first: Iterable[Edge] = ("before",), second: Iterable[Edge] = EDGES
) -> None:
    """Kill it at every write, and what follows at every write again.

    After one write is before the next, but for what was in flight: hence not all edges twice.
    """
    undisturbed = _live(scenario)

    def live(kills: Sequence[Kill]) -> int:
        return _live(scenario, kills, undisturbed).fired

    def again_and_again(kills: Sequence[Kill]) -> int:
        for edge in second:
            kill_at_every_write(edge, kills, live)
        return live(kills)

    for edge in first:
        assert kill_at_every_write(edge, (), again_and_again) >= FEWEST_WRITES


def _live(
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
