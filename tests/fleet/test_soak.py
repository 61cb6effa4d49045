"""Three members, a hundred conversations with approvals, and a fault every few seconds.

`make soak` runs both for ten minutes; `STOPGO_SOAK=1200` in the environment makes it twenty, and
`STOPGO_SOAK_SEED` repeats the choices of a run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import attrs
import pytest

from tests.postgres_server import PostgresServer
from tests.postgres_wire import Fault, Wire, wire_to

from .audit import audit, finish
from .cluster import LEASE, Cluster, cluster, url_of
from .people import Person, Reader, pause

SECONDS = float(os.environ.get("STOPGO_SOAK", "60"))
CONVERSATIONS = 100
AT_ONCE = 12
"""Conversations that are active at the same time."""
WATCHED = max(10, round(SECONDS / 12))
"""Every so many conversations, one is followed: about twenty, each of which holds a connection."""
SILENT: tuple[Fault, ...] = ("silence", "requests lost", "answers lost")


@attrs.define(eq=False)
class Faults:
    """Each lasts up to three leases, so that some end before another member takes over."""

    cluster: Cluster
    wires: list[Wire]
    """Those of the members to the database."""
    server: PostgresServer
    chance: random.Random
    counts: Counter[str] = attrs.field(factory=Counter)

    def happen(self, fault: Callable[[Faults], None]) -> None:
        fault(self)
        self.counts[fault.__name__] += 1

    def _position(self) -> int:
        return self.chance.randrange(len(self.wires))

    def _pause(self) -> None:
        pause(self.chance.uniform(0.0, 3 * LEASE))

    def kill(self) -> None:
        position = self._position()
        self.cluster.kill(position)
        self._pause()
        self.cluster.start(position)

    def restart(self) -> None:
        position = self._position()
        self.cluster.stop(position)
        self._pause()
        self.cluster.start(position)

    def suspend(self) -> None:
        position = self._position()
        self.cluster.signal(position, signal.SIGSTOP)
        self._pause()
        self.cluster.signal(position, signal.SIGCONT)

    def cut_connections(self) -> None:
        self.wires[self._position()].cut()

    def cut_off(self) -> None:
        self._silence([self.wires[self._position()]])

    def cut_off_all(self) -> None:
        self._silence(self.wires)

    def kill_and_cut_off(self) -> None:
        """One member dies while another cannot take over."""
        dead, silent = self.chance.sample(range(len(self.wires)), 2)
        self.cluster.kill(dead)
        self._silence([self.wires[silent]])
        self.cluster.start(dead)

    def restart_database(self) -> None:
        self.server.stop(self.chance.choice([signal.SIGQUIT, signal.SIGINT, signal.SIGKILL]))
        self._pause()
        self.server.start()

    def _silence(self, wires: list[Wire]) -> None:
        for wire in wires:
            wire.fault = self.chance.choice(SILENT)
        self._pause()
        for wire in wires:
            wire.fault = "none"
            wire.cut()


ALL = (
    Faults.kill,
    Faults.restart,
    Faults.suspend,
    Faults.cut_connections,
    Faults.cut_off,
    Faults.cut_off_all,
    Faults.kill_and_cut_off,
    Faults.restart_database,
)


@pytest.mark.soak
@pytest.mark.parametrize("faults", [(Faults.kill,), ALL], ids=["kills", "all faults"])
def test_soak(server: PostgresServer, tmp_path: Path, faults: tuple[Callable[[Faults], None], ...]) -> None:
    seed = int(os.environ.get("STOPGO_SOAK_SEED") or random.randrange(2**32))
    print(f"\nsoak: seed {seed}")
    with ExitStack() as stack:
        dsn = stack.enter_context(server.empty_schema())
        wires = [stack.enter_context(wire_to(dsn)) for _ in range(3)]
        made = stack.enter_context(cluster(tmp_path, *(url_of(each.dsn) for each in wires), delay=0.1))
        happening = Faults(made, wires, server, random.Random(seed))
        people, readers = _live(happening, faults)
        finish(people)
        audit(made, dsn, people, readers)
    messages, asked = sum(len(each.answers) for each in people), sum(each.unknown for each in people)
    print(
        f"soak: {SECONDS:g} s, {len(people)} conversations, {messages} messages,"
        f" {dict(happening.counts)},"
        f" {sum(each.reconnects for each in readers)} reconnects of {len(readers)} streams,"
        f" {asked} unknown outcomes, 0 lost, 0 done twice"
    )


def _live(
    happening: Faults, faults: tuple[Callable[[Faults], None], ...]
) -> tuple[list[Person], list[Reader]]:
    """The people, some of them still busy, and the readers of some of their conversations."""
    chance, people, readers = happening.chance, list[Person](), list[Reader]()
    end, next_fault = time.monotonic() + SECONDS, time.monotonic() + 3
    while time.monotonic() < end or len(people) < CONVERSATIONS:
        active = [each for each in people if each.is_alive()]
        for each in people:
            assert each.failure is None, each.failure
        if len(active) < AT_ONCE:
            number = len(people)
            kinds = chance.choices(["wipe", "bump", "slow"], [4, 2, 0.2], k=3)
            said = [f"{kind} {number}-{at}" for at, kind in enumerate(kinds)]
            person = Person(happening.cluster, f"s{number}", said)
            person.start()
            people.append(person)
            if number % WATCHED == 0:
                readers.append(_reader(person))
        if time.monotonic() > next_fault:
            happening.happen(chance.choice(faults))
            next_fault = time.monotonic() + chance.uniform(1.0, 4.0)
        pause(0.02)
    return people, readers


def _reader(person: Person) -> Reader:
    while not person.conversation:
        assert person.failure is None, person.failure
        pause(0.01)
    reader = Reader(person.cluster, person.conversation)
    reader.start()
    return reader
