"""The crash matrix: a scenario, killed before and after every write there is, once and twice.

Trio's order of tasks is another one in every story, and told with a failure.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path

import pytest

from stopgo.gateway.testing.crash_points import kill_at_every_write
from stopgo.gateway.testing.killing_journal import EDGES, Kill

from .story import OpenJournal, Scenario, Story, in_memory, in_sqlite, tell
from .survey import Survey
from .verify import verify

FEWEST_WRITES = 4
"""Of any scenario: it has a message, what follows from it, and an end."""


def each(scenarios: Sequence[Scenario]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("scenario", scenarios, ids=lambda scenario: scenario.name)


def live_undisturbed(scenario: Scenario) -> None:
    """Nobody is killed; and what it comes to does not depend on the order in which trio runs things."""
    story = _live(scenario)
    verify(story, _live(scenario))


def over_files(folder: Path) -> Callable[[], OpenJournal]:
    """An empty file for each story."""
    numbers = count()
    return lambda: in_sqlite(folder / str(next(numbers)))


def kill_once(scenario: Scenario, new_journal: Callable[[], OpenJournal] = in_memory) -> None:
    """Kill it before and after every write."""
    undisturbed = _live(scenario)

    def live(kills: Sequence[Kill]) -> Story:
        return _live(scenario, kills, undisturbed, new_journal())

    for edge in EDGES:
        assert kill_at_every_write(edge, (), lambda kills: live(kills).fired) >= FEWEST_WRITES


PARTS = 4
in_parts = pytest.mark.parametrize("part", range(PARTS))
"""For stories that take long: a test must be far from the limit at which it hangs, on a busy machine too."""


def kill_twice(scenario: Scenario, part: int) -> None:
    """Kill it at every write, and what follows at every write again, wherever that leaves a new state. A part
    has every `PARTS`-th of the first writes."""
    undisturbed = _live(scenario)

    def one_more(kills: Sequence[Kill]) -> dict[str, Kill]:
        """A kill for each state that one more kill may leave."""
        survey = Survey()
        _live(scenario, kills, undisturbed, survey=survey)
        return {state: kill for kill, state in survey.states.items()}

    firsts = one_more(())
    assert len(firsts) >= FEWEST_WRITES
    known = set(firsts)
    for first in [*firsts.values()][part::PARTS]:
        for state, second in one_more((first,)).items():
            if state not in known:
                known.add(state)
                _live(scenario, (first, second), undisturbed)


def _live(
    scenario: Scenario,
    kills: Sequence[Kill] = (),
    undisturbed: Story | None = None,
    open_journal: OpenJournal | None = None,
    survey: Survey | None = None,
) -> Story:
    seed = random.randrange(2**32)
    try:
        story = tell(scenario, kills, open_journal or in_memory(), seed=seed, survey=survey)
        if story.fired == len(kills):
            verify(story, undisturbed)
    except BaseException as error:
        error.add_note(f"{scenario.name}: {list(kills)}, seed={seed}")
        raise
    return story
