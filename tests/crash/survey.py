"""The states in which a kill at each write of a process would leave the world, without killing it.

A later process depends on nothing else. So of all kills that leave the same state, one is enough.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Set
from typing import Any

import attrs
import trio

from stopgo.gateway.testing.killing_journal import Kill, KillingJournal
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.memory.memory_stream import StoredCommand

from .client import Client
from .world import World

ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}")
TIME = re.compile(r"\b1\d{6}\.\d+")
"""On the wall clock of a world."""
COARSE = 10.0
"""Seconds. Kills before and after which less time passes leave the same state."""


@attrs.define
class Survey:
    """The states, as texts without ids, by kill."""

    states: dict[Kill, str] = attrs.field(factory=dict)

    def note(self, kill: Kill, world: World, client: Client, journal: MemoryJournal) -> None:
        """After an orderly shutdown, only writes that the processes before it did not reach are new."""
        self.states.setdefault(kill, _state(world, client, journal))


@attrs.define
class SurveyedJournal(KillingJournal):
    """Notes the state wherever a kill would take place. No kill does."""

    note: Callable[[Kill], None] = attrs.field(kw_only=True)

    def _writing(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*args: Any, **kwargs: Any) -> Any:
            number = self.writes
            await self._note(Kill(number, "before"))
            outcome = await method(*args, **kwargs)
            await self._note(Kill(number, "after"))
            return outcome

        return super()._writing(name, write)

    async def _note(self, kill: Kill) -> None:
        with trio.CancelScope(shield=True):  # others run meanwhile, as before a kill
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        self.note(kill)


def _without_members(inbox: Mapping[str, StoredCommand]) -> dict[str, StoredCommand]:
    return {
        key: attrs.evolve(each, command=attrs.evolve(each.command, member="")) for key, each in inbox.items()
    }


def _state(world: World, client: Client, journal: MemoryJournal) -> str:
    """All that a later process can depend on, and all that the checks at the end look at."""
    streams = [
        attrs.evolve(each, epoch=0, inbox=_without_members(each.inbox)) for each in journal._streams.values()
    ]
    stored = [event for each in streams for event in each.events]
    parts = (
        streams,
        dict(journal._notes),
        sorted((entry.tool, entry.label, "delete" in entry.acknowledged) for entry in world.ledger),
        [(key, world.requests[key].messages) for key in sorted(world.requests)],
        [event for event in client.seen.values() if event not in stored],
        _fields(world, "outside", "ledger", "requests", "journal", "life", "closing", "remote", "_past"),
        _fields(world.remote, "here", "job_of", "finds", "trouble"),
        _fields(client, "world", "script", "policy", "seen", "_commands", "_agent", "_began"),
    )

    def when(time: re.Match[str]) -> str:
        left = float(time[0]) - world.wall()
        return f"in {left // COARSE}" if left > 0 else "past"

    return TIME.sub(when, ID.sub("#", repr(parts)))


def _fields(value: attrs.AttrsInstance, *without: str) -> list[Any]:
    """All others, so that a new field makes more states, not fewer."""
    found = [getattr(value, field.name) for field in attrs.fields(type(value)) if field.name not in without]
    ordered = [each.items() if isinstance(each, dict) else each for each in found]
    return [sorted(each) if isinstance(each, Set) else each for each in ordered]
