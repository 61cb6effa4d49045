"""kill -9 of the member that works on a turn, before and after each of its writes to the journal, and of the
member that takes over."""

from __future__ import annotations

from itertools import count

import pytest

from .audit import audit, finish
from .conftest import Site
from .people import Person

pytestmark = pytest.mark.soak

FEWEST = 8
"""Writes of the member: requests, the start of the run, the approval, the intent, the result, the answer."""


def turn(site: Site, name: str) -> Person:
    """A conversation with one destructive call, at the first member that is up."""
    person = Person(site.cluster, name, [f"wipe {name}"])
    person.start()
    finish([person])
    audit(site.cluster, site.dsn, [person])
    return person


def killed_at(site: Site, edge: str) -> list[int]:
    """Kill at each write. Returns the writes at which the outcome of the call was unknown."""
    unknown: list[int] = []
    for write in count(1):
        site.cluster.start_dying(0, write, edge)
        person = turn(site, f"{edge}-{write}")
        if not site.cluster.has_died(0):
            site.cluster.kill(0)
            assert write > FEWEST
            return unknown
        if person.unknown:
            unknown.append(write)
    raise AssertionError


@pytest.fixture
def in_order(site: Site) -> Site:
    """Requests go to the first member that is up."""
    site.cluster.in_order = True
    site.cluster.kill(0)
    return site


def test_killed_before_each_write(in_order: Site) -> None:
    """The outcome is unknown if the call was sent, and its result is the write."""
    assert len(killed_at(in_order, "before")) == 1


def test_killed_after_each_write_and_again_during_the_takeover(in_order: Site) -> None:
    [intent] = killed_at(in_order, "after")
    for write in count(1):
        in_order.cluster.start_dying(0, intent, "after")
        in_order.cluster.kill(1)
        in_order.cluster.start_dying(1, write, "after")
        turn(in_order, f"takeover-{write}")
        died = in_order.cluster.has_died(1)
        for member in (0, 1):
            if not in_order.cluster.has_died(member):
                in_order.cluster.kill(member)
        in_order.cluster.start(1)
        if not died:
            assert write > 3
            return
