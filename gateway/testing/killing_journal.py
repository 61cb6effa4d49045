"""A journal that kills the process at a chosen write, so that every write is a crash point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import trio

from ...runtime.journal.protocol import Commit, Journal

Edge: TypeAlias = Literal["before", "after"]
EDGES: tuple[Edge, ...] = ("before", "after")

READS = frozenset(
    {
        "beginning",
        "decided",
        "due",
        "events_since",
        "fleet",
        "inbox",
        "leave",
        "list",
        "living",
        "marks",
        "note_revisions",
        "notes",
        "open_work",
        "outbox",
        "owners",
        "owns",
        "passage",
        "question",
        "questions",
        "release",
        "renew",
        "row",
        "stored_reply",
    }
)
"""The methods of a journal that read, or change only who owns a stream. All others count as writes, so that a
new one need not be added here."""

MAX_WRITES = 5_000
"""Maximum number of writes of one process, to stop a story that does not end."""


class Killed(BaseException):
    """The end of the simulated process. No code of the product may catch it."""


def only_killed(error: BaseException) -> bool:
    """Return whether the error consists of `Killed` only."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Killed)[1] is None
    return isinstance(error, Killed)


@attrs.frozen
class Kill:
    write: int
    """The number of the write in the process, from 1."""
    edge: Edge


@attrs.define
class KillingJournal:
    """The journal that all simulated processes share, as one of them uses it."""

    _journal: Journal
    _kill: Kill | None
    writes: int = 0
    dead: bool = False
    point: str = ""
    """A description of the write at which it was killed."""

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._journal, name)
        if name in ("member", "watch"):
            return method
        return self._reading(method) if name in READS else self._writing(name, method)

    def _reading(self, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def read(*args: Any, **kwargs: Any) -> Any:
            self._die_if_dead()
            return await method(*args, **kwargs)

        return read

    def _writing(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def write(*args: Any, **kwargs: Any) -> Any:
            self._die_if_dead()
            self.writes += 1
            if self.writes >= MAX_WRITES:
                raise RuntimeError(f"the agent does not finish: it has written {MAX_WRITES} times")
            number = self.writes
            if self._kill == Kill(number, "before"):
                await self._die(number, "before", name, args)
            outcome = await method(*args, **kwargs)
            if self._kill == Kill(number, "after"):
                await self._die(number, "after", name, args)
            self._die_if_dead()
            return outcome

        return write

    async def _die(self, number: int, edge: Edge, name: str, args: Sequence[Any]) -> None:
        # Other tasks run before the process ends, so that they receive anything published too early.
        with trio.CancelScope(shield=True):
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        self.dead = True
        events = [event.type for arg in args if isinstance(arg, Commit) for event in arg.events]
        self.point = f"{edge} write {number}, {name}{' of ' if events else ''}{', '.join(events)}"
        raise Killed

    def _die_if_dead(self) -> None:
        if self.dead:
            raise Killed
