"""The processes that share a journal, as the embedded API, `/fleet` and the metrics show them."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from importlib.metadata import version

import attrs
import trio

from ...runtime import json_text
from ...runtime.journal import ownership
from ...runtime.journal.protocol import Journal
from .stored_json import from_json, to_json


@attrs.frozen
class Process:
    """A process that works with a journal."""

    host: str
    pid: int
    version: str
    """Of the product."""
    started: float
    """UTC seconds."""
    url: str | None = None
    """The URL at which the other processes reach its server, if it has told them."""


@attrs.frozen
class FleetMember:
    """A process as others see it."""

    name: str
    """Its name in the journal, of which each start of a process has another."""
    process: Process | None
    """None: it did not say."""
    is_this: bool
    """Whether it is the process that tells this."""
    seconds: float
    """Seconds until its lease runs out; 0 if it has. Infinite if no other process can open the journal."""
    conversations: int
    """The number of conversations that it owns."""
    open: int
    """Those of them that have something to do."""


@attrs.frozen
class FleetView:
    """A journal and the processes that share it."""

    store: str
    """The program that stores the journal, with its version."""
    round_trip: float
    """Seconds that the journal took to answer."""
    standbys: str
    """The setting of PostgreSQL that names the synchronous standbys; empty: commits wait for no standby."""
    unowned: int
    """The number of conversations that have something to do, and no process yet."""
    need_newer: int
    """The number of conversations that a newer version has written, and that no process can continue now."""
    members: Sequence[FleetMember]

    @property
    def nodes(self) -> Sequence[FleetMember]:
        """The earlier name of `members`."""
        return self.members


def this_process(started: float, url: str | None = None) -> Process:
    return Process(platform.node(), os.getpid(), version("agent-stop-and-go"), started, url)


def written(process: Process) -> str:
    return json_text.dump(to_json(process))


def described(about: str) -> Process | None:
    """The process of a member; None if it did not say."""
    try:
        return from_json(json_text.load(about), Process)
    except (LookupError, TypeError, ValueError):
        return None


async def read_fleet(journal: Journal, started: float) -> FleetView:
    """Raises `JournalError`."""
    began = trio.current_time()
    found = await journal.fleet()
    round_trip = trio.current_time() - began

    def as_seen(member: ownership.Member) -> FleetMember:
        is_this = member.name == journal.member
        process = described(member.about) or (this_process(started) if is_this else None)
        return FleetMember(member.name, process, is_this, member.seconds, member.streams, member.open)

    members = [*map(as_seen, found.members)]
    return FleetView(found.store, round_trip, found.standbys, found.unowned, found.need_newer, members)
