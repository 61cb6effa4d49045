"""A message on its way, the trace it belongs to, and for an ask the place of its answer."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import trio

from .errors import ActorError, AskCycle

Trace: TypeAlias = Mapping[str, str]
"""Whatever identifies a trace. Never changed once it is current: set a new one."""

NO_TRACE: Trace = MappingProxyType({})

current_trace: ContextVar[Trace] = ContextVar("trace", default=NO_TRACE)
"""While a handler runs, the trace of whoever sent its message; background tasks inherit it."""


@attrs.define(eq=False)
class Envelope:
    """What travels: a message, and what must be known to handle and to answer it."""

    message: Any
    actor: str
    """The name of the one it is for."""
    life: object
    """The life of that actor it is for, by identity."""
    parent: Envelope | None
    """What the asker was handling when it asked; None for a hint."""
    trace: Trace
    answered: trio.Event | None = None
    """None for a hint: its sender does not wait for an answer."""
    settled: bool = False
    """Nobody waits for this any more: answered, failed, withdrawn, or a hint that was handled."""
    scope: trio.CancelScope | None = None
    """Around the handler of an ask while it runs."""
    _value: Any = None
    _error: ActorError | None = None

    def answer(self, value: object) -> None:
        if not self.settled:
            self._value = value
            self._settle()

    def fail(self, error: ActorError) -> None:
        if not self.settled:
            self._error = error
            self._settle()

    def _settle(self) -> None:
        self.settled = True
        if self.answered is not None:
            self.answered.set()

    def withdraw(self) -> None:
        """Nobody waits any more: it will not be handled, or its handler is cancelled."""
        if not self.settled:
            self.settled = True
            if self.scope is not None:
                self.scope.cancel()

    def take(self) -> Any:
        """The handler's return value; raises what the ask failed with."""
        if self._error is None:
            return self._value
        # Let go of here, for its traceback will lead back to this envelope.
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error

    def refuse_cycle(self) -> None:
        """Raise AskCycle if the life this is for is handling what this is nested in.

        What is settled does not count: a task that outlives its handler blocks nobody.
        """
        path = [self.actor]
        outer = self.parent
        while outer is not None:
            path.append(outer.actor)
            if outer.life is self.life and not outer.settled:
                raise AskCycle(tuple(reversed(path)))
            outer = outer.parent


handling: ContextVar[Envelope | None] = ContextVar("handling", default=None)
"""The message being handled: an ask made now is nested in it."""
