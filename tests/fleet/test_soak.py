"""Three nodes, a hundred conversations with approvals, and kill -9 every few seconds.

`make soak` runs it for ten minutes.
"""

from __future__ import annotations

import os
import random
import time

import pytest

from .audit import audit, finish
from .cluster import LEASE
from .conftest import Site
from .people import Person, Reader, pause

SECONDS = float(os.environ.get("STOPGO_SOAK", "60"))
CONVERSATIONS = 100
AT_ONCE = 12
"""Conversations that are active at the same time."""


@pytest.mark.soak
def test_soak(site: Site) -> None:
    seed = random.randrange(2**32)
    chance = random.Random(seed)
    end, kills, people = time.monotonic() + SECONDS, 0, list[Person]()
    readers: list[Reader] = []
    next_kill = time.monotonic() + 3
    while time.monotonic() < end or len(people) < CONVERSATIONS:
        active = [each for each in people if each.is_alive()]
        for each in people:
            assert each.failure is None, f"seed {seed}: {each.failure}"
        if len(active) < AT_ONCE:
            number = len(people)
            kinds = chance.choices(["wipe", "bump", "slow"], [4, 2, 0.2], k=3)
            said = [f"{kind} {number}-{at}" for at, kind in enumerate(kinds)]
            person = Person(site.cluster, f"s{number}", said)
            person.start()
            people.append(person)
            if number % 10 == 0:
                readers.append(_reader(site, person))
        if time.monotonic() > next_kill:
            position = chance.randrange(3)
            site.cluster.kill(position)
            pause(chance.uniform(0.0, 2 * LEASE))
            site.cluster.start(position)
            kills += 1
            next_kill = time.monotonic() + chance.uniform(1.0, 4.0)
        pause(0.02)
    finish(people)
    audit(site.cluster, site.dsn, people, readers)
    messages, asked = sum(len(each.answers) for each in people), sum(each.unknown for each in people)
    print(
        f"\nsoak: seed {seed}, {SECONDS:g} s, {len(people)} conversations, {messages} messages,"
        f" {kills} kills,"
        f" {sum(each.reconnects for each in readers)} reconnects of {len(readers)} streams,"
        f" {asked} unknown outcomes, 0 lost, 0 done twice"
    )


def _reader(site: Site, person: Person) -> Reader:
    while not person.conversation:
        pause(0.01)
    reader = Reader(site.cluster, person.conversation)
    reader.start()
    return reader
