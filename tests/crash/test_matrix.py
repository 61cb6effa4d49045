"""The crash matrix: every scenario, killed before and after every write there is, once and twice."""

from __future__ import annotations

from itertools import count

import pytest

from .killing import EDGES, Kill
from .scenarios import SCENARIOS
from .story import Scenario, tell
from .verify import verify

scenarios = pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)


def points(scenario, fixed=(), edges=EDGES): ...


@scenarios
def test_undisturbed(scenario: Scenario) -> None:
    verify(tell(scenario))


@scenarios
def test_killed_once(scenario: Scenario) -> None:
    undisturbed = tell(scenario)
    n = 0
    for edge in EDGES:
        for write in count(1):
            kills = [Kill(write, edge)]
            try:
                story = tell(scenario, kills)
                if not story.fired:
                    break
                verify(story, undisturbed)
            except BaseException as error:
                error.add_note(f"{scenario.name}: {kills}")
                raise
            n += 1
    print(n)
