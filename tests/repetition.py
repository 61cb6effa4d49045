"""A plugin of pytest: `@pytest.mark.repeat(n)` runs a test n times as one case.

Trio shuffles ready tasks, so one run of a race proves little. Each run has fresh fixtures of the test's own
scope and a seed of its own; the first that fails ends the test, and says which it was.
"""

from __future__ import annotations

import pytest
from _pytest.runner import runtestprotocol

REPETITION = pytest.StashKey[int]()
"""The number of the run, from 1."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    marker = item.get_closest_marker("repeat")
    if marker is None or not isinstance(item, pytest.Function):
        return None
    times: int = marker.args[0]
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    test = item.obj
    took: dict[str, float] = {}
    for number in range(1, times + 1):
        item.obj = test  # pytest-trio replaces it in each run
        item.stash[REPETITION] = number
        # With its module as the next item, only what belongs to the test alone is torn down.
        following = nextitem if number == times else item.parent
        reports = runtestprotocol(item, log=False, nextitem=following)  # type: ignore[arg-type]
        for report in reports:
            took[report.when] = took.get(report.when, 0.0) + report.duration
        if any(report.failed for report in reports):
            item.session._setupstate.teardown_exact(nextitem)
            break
    for report in reports:
        report.duration = took[report.when]
        if report.failed:
            report.sections.append(("repetition", f"{number} of {times}"))
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True
