"""A journal that takes the process down at a chosen write, so that every write is a crash point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import trio

from ...runtime.journal.protocol import Accepted, Journal, NewEvent, Won

Edge: TypeAlias = Literal["before", "after"]
EDGES: tuple[Edge, ...] = ("before", "after")

READS = frozenset({"inbox", "events_since", "row", "list", "question", "questions", "due", "open_work"})
"""Whatever else a journal can do counts as a write: what it learns one day is covered by itself."""

MAX_WRITES = 5_000
"""Of one process; a story that does not come to rest is stopped here."""


class Killed(BaseException):
    """The process is gone. No handler of the product may catch it."""


def only_killed(error: BaseException) -> bool:
    """Whether that is all that happened."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(Killed)[1] is None
    return isinstance(error, Killed)


@attrs.frozen
class Kill:
    write: int
    """Which write of the process, from 1."""
    edge: Edge


@attrs.define
class KillingJournal:
    """One process's view of the journal that all processes share."""

    _journal: Journal
    _kill: Kill | None
    commands: set[tuple[str, str]] = attrs.field(factory=set)
    """Stream and key of what was accepted, in this process or before: somebody has to answer it."""
    writes: int = 0
    dead: bool = False
    point: str = ""
    """The write that it died at, in words."""

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._journal, name)
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
                raise RuntimeError(f"the agent does not come to rest: it has written {MAX_WRITES} times")
            number = self.writes
            if self._kill == Kill(number, "before"):
                await self._die(number, "before", name, args)
            outcome = await method(*args, **kwargs)
            await self._note(name, outcome, *args)
            if self._kill == Kill(number, "after"):
                await self._die(number, "after", name, args)
            self._die_if_dead()
            return outcome

        return write

    async def _note(self, name: str, outcome: object, first: str, *rest: Any) -> None:
        if name == "deliver" and isinstance(outcome, Accepted):
            key, kind, *_ = rest
            if kind != "expire":  # the agent's own: nobody waits for an answer
                self.commands.add((first, key))
        if name == "decide" and isinstance(outcome, Won):
            self.commands.add((outcome.question.stream, rest[1]))

    async def _die(self, number: int, edge: Edge, name: str, args: Sequence[Any]) -> None:
        # What was told too early is heard: whoever listens gets a turn before the lights go out.
        with trio.CancelScope(shield=True):
            for _ in range(10):
                await trio.lowlevel.checkpoint()
        self.dead = True
        events = [each.type for arg in args if isinstance(arg, list | tuple) for each in arg if _is_new(each)]
        self.point = f"{edge} write {number}, {name}{' of ' if events else ''}{', '.join(events)}"
        raise Killed

    def _die_if_dead(self) -> None:
        if self.dead:
            raise Killed


def _is_new(value: object) -> bool:
    return isinstance(value, NewEvent)
