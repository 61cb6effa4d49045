"""A message in transit, with its trace and, for an ask, its outcome."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, TypeAlias

import attrs
import trio

from .errors import ActorError, AskCycle

Trace: TypeAlias = Mapping[str, str]
"""The identifiers of a trace. A current trace is never modified: set a new one instead."""

NO_TRACE: Trace = MappingProxyType({})

current_trace: ContextVar[Trace] = ContextVar("trace", default=NO_TRACE)
"""While a handler runs, the trace of the message's sender. Background tasks inherit it."""


@attrs.define(eq=False)
class Envelope:
    """A message in transit, with the data that is needed to handle it and reply.

    An envelope is done once: by a reply, an error or the withdrawal of the ask. Later outcomes are
    ignored.
    """

    message: Any
    actor: str
    """The name of the receiving actor."""
    mailbox: object
    """The mailbox that the message was sent to. It identifies the incarnation, because each has its own."""
    parent: Envelope | None
    """The message that the asker was handling when it asked; None for a hint."""
    trace: Trace
    replied: trio.Event | None = None
    """None for a hint, whose sender does not wait."""
    done: bool = False
    """No task waits for a reply any more: it was replied to, failed or withdrawn, or it is a handled hint."""
    scope: trio.CancelScope | None = None
    """The scope around the handler of an ask while the handler runs."""
    _value: Any = None
    _error: ActorError | None = None

    def reply(self, value: object) -> None:
        if not self.done:
            self._value = value
            self._finish()

    def fail(self, error: ActorError) -> None:
        if not self.done:
            self._error = error
            self._finish()

    def _finish(self) -> None:
        self.done = True
        if self.replied is not None:
            self.replied.set()

    def withdraw(self) -> None:
        """End the envelope without an outcome and cancel the handler, if it is running."""
        if not self.done:
            self.done = True
            if self.scope is not None:
                self.scope.cancel()

    def take(self) -> Any:
        """Return the handler's return value, or raise the error that the ask failed with."""
        if self._error is None:
            return self._value
        # Drop both references: otherwise the error's traceback and this envelope form a reference cycle.
        error, self._error = self._error, None
        try:
            raise error
        finally:
            del error

    def refuse_cycle(self) -> None:
        """Raise AskCycle if the target incarnation is handling a message that this ask is nested in.

        Messages that are done do not count: a background task that outlives its handler blocks no ask.
        """
        path = [self.actor]
        outer = self.parent
        while outer is not None:
            path.append(outer.actor)
            if outer.mailbox is self.mailbox and not outer.done:
                raise AskCycle(tuple(reversed(path)))
            outer = outer.parent


handling: ContextVar[Envelope | None] = ContextVar("handling", default=None)
"""The message that the current task is handling. An ask made now is nested in it."""
