"""A call under way, and whose question it is when its server asks something meanwhile."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import attrs
import trio

from ..tools.bearer import forward_from_here, forwarding
from ..tools.tool import CallTool, Elicitation, ElicitationAnswer
from .sdk import ClientRequestContext, ElicitationFnT, ElicitRequestParams, ElicitResult
from .wire import MAX_QUESTIONS, answer_to_wire, question_from_wire

_current: ContextVar[Flight | None] = ContextVar("stopgo_mcp_flight", default=None)


@attrs.define(eq=False)
class Flight:
    """One call; its time does not run while a human thinks."""

    request: CallTool
    scope: trio.CancelScope
    withdrawn: bool = False
    """Its last request was taken back before any of it left."""
    put_off: bool = False
    """The server has had a request of it, and wanted to be asked again."""
    _thinking: int = 0
    _left: float = math.inf

    @property
    def unsent(self) -> bool:
        """The server certainly knows nothing of it."""
        return self.withdrawn and not self.put_off

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """What people say to a question of the server's."""
        if self.request.on_elicitation is None or self._thinking >= MAX_QUESTIONS:
            return ElicitationAnswer("decline")
        if not self._thinking:
            self._left = self.scope.deadline - trio.current_time()
            self.scope.deadline = math.inf
        self._thinking += 1
        try:
            return await self.request.on_elicitation(elicitation)
        finally:
            self._thinking -= 1
            if not self._thinking:
                self.scope.deadline = trio.current_time() + self._left


def note_withdrawal() -> None:
    """Tell the call that is made from here that its request was taken back before any of it left."""
    flight = _current.get()
    if flight is not None:
        flight.withdrawn = True


@attrs.define(eq=False)
class Flights:
    """The calls under way over one connection."""

    _log: logging.Logger
    _flights: dict[Flight, None] = attrs.field(factory=dict)
    _landed: trio.Event = attrs.field(factory=trio.Event)
    """Set when one ends and is the last."""
    _abandoned: int = 0
    """Calls that nobody waits for any more; their server may still be at them."""
    _told: bool = False

    @contextmanager
    def one(self, request: CallTool, seconds: float) -> Iterator[Flight]:
        """Make a call within the block, which is cancelled after so many seconds of work; the call's bearer
        goes with it."""
        with forwarding(request.bearer), trio.move_on_after(seconds) as scope:
            flight = Flight(request, scope)
            self._flights[flight] = None
            reset = _current.set(flight)
            try:
                yield flight
            except trio.Cancelled:
                self._abandoned += not flight.unsent
                raise
            finally:
                _current.reset(reset)
                del self._flights[flight]
                if not self._flights:
                    self._landed.set()

    async def landed(self) -> None:
        """Return when none is under way."""
        while self._flights:
            self._landed = trio.Event()
            await self._landed.wait()

    def answering(self) -> ElicitationFnT:
        """What the SDK asks when the server does."""

        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            flight = self._asking()
            if flight is None:
                return answer_to_wire(ElicitationAnswer("decline"))
            forward_from_here(flight.request.bearer)  # the answer is the call's own, too
            return answer_to_wire(await flight.ask(question_from_wire(params)))

        return answer

    def _asking(self) -> Flight | None:
        """The call that a question belongs to.

        Over HTTP it comes with the reply to a call, and the SDK runs it in that call's context. Else the
        protocol does not say: then it is the only one that there can be, or nobody's.
        """
        flight = _current.get()
        if flight is not None:
            return flight if flight in self._flights else None
        for flight in self._flights:
            if flight.request.on_anonymous_question is not None:
                flight.request.on_anonymous_question()
        if len(self._flights) == 1 and not self._abandoned:
            return next(iter(self._flights))
        # Said once: what asks on and on would fill the log.
        self._log.log(
            logging.DEBUG if self._told else logging.WARNING,
            "asks a question while %d calls are under way, and %d were given up: MCP does not tell which of"
            " them asks, so it was declined (max_concurrency: 1 makes that rare)",
            len(self._flights),
            self._abandoned,
        )
        self._told = True
        return None
