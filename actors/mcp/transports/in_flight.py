"""In-flight calls, and the questions that a server asks during them (elicitation).

A question reaches `InFlightCalls.answering` without the name of its call. `_asking` finds the call:

| how the question arrived | its call |
|---|---|
| with the reply to a call (over HTTP) | the call of the current context, in which the SDK runs the callback |
| otherwise (stdio, the server's own stream) | the only in-flight call, if no abandoned call may still ask |
| in any other case | unknown: the question is declined |

While a human answers, the timeout of the call is suspended. A report of progress begins it anew, within the
longest time for a call (MCP 2025-11-25, "Timeouts").
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import attrs
import trio

from ...servers.bearer import forward_from_here, forwarding
from ...tools.tool import CallTool, Elicitation, ElicitationAnswer, Progress
from ..wire.sdk import ClientRequestContext, ElicitationFnT, ElicitRequestParams, ElicitResult
from ..wire.wire import MAX_QUESTIONS, answer_to_wire, question_from_wire

_current: ContextVar[InFlightCall | None] = ContextVar("stopgo_mcp_call", default=None)


@attrs.define(eq=False)
class InFlightCall:
    """One call. Its timeout does not run while a human answers a question."""

    request: CallTool
    scope: trio.CancelScope
    _timeout: float
    """Seconds without a report of progress."""
    _longest: float
    """Seconds of the call as a whole."""
    _end: float = attrs.field(init=False)
    """The time at which the call ends at the latest."""
    _progressed: bool = False
    withdrawn: bool = False
    """Its last request was withdrawn before any byte of it was sent."""
    reached_server: bool = False
    """The server has had an earlier request of this call, and wanted it repeated."""
    _open_questions: int = 0
    _asked: float = 0.0
    """When the first of the open questions was asked."""
    _deadline: float = math.inf
    """The end of the timeout, were it not suspended then."""

    def __attrs_post_init__(self) -> None:
        self._end = trio.current_time() + self._longest

    @property
    def unsent(self) -> bool:
        """Whether the server certainly knows nothing of the call."""
        return self.withdrawn and not self.reached_server

    @property
    def timed_out_after(self) -> str:
        """After the timeout: how long that was."""
        if self.scope.deadline >= self._end:
            return f"{self._longest:g} s, its max_timeout"
        return f"{self._timeout:g} s" + (" without progress" if self._progressed else "")

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """Return the answer of people to a question of the server."""
        if self.request.on_elicitation is None or self._open_questions >= MAX_QUESTIONS:
            return ElicitationAnswer("decline")
        if not self._open_questions:
            self._asked = trio.current_time()
            self._deadline, self.scope.deadline = self.scope.deadline, math.inf
        self._open_questions += 1
        try:
            return await self.request.on_elicitation(elicitation)
        finally:
            self._open_questions -= 1
            if not self._open_questions:
                suspended = trio.current_time() - self._asked
                self._end += suspended
                self.scope.deadline = self._deadline + suspended

    def on_progress(self, progress: Progress) -> None:
        """Begin the timeout anew, and pass the report on. During a question, the timeout does not run."""
        self._progressed = True
        if not self._open_questions:
            self.scope.deadline = min(trio.current_time() + self._timeout, self._end)
        if self.request.on_progress is not None:
            self.request.on_progress(progress)


def note_withdrawal() -> None:
    """Record, for the call of the current context, that its request was withdrawn before it was sent."""
    call = _current.get()
    if call is not None:
        call.withdrawn = True


@attrs.define(eq=False)
class InFlightCalls:
    """The in-flight calls of one connection."""

    _log: logging.Logger
    _calls: dict[InFlightCall, None] = attrs.field(factory=dict)
    _none_left: trio.Event = attrs.field(factory=trio.Event)
    """Set when the last call ends."""
    _abandoned: int = 0
    """Cancelled calls; their server may still work on them."""
    _warned: bool = False

    @contextmanager
    def track(self, request: CallTool, seconds: float, longest: float = math.inf) -> Iterator[InFlightCall]:
        """Make a call within the block, with its bearer token.

        The block is cancelled after `seconds` without a report of progress, and after `longest` seconds in
        all, not counting the time that humans take for answers.
        """
        with forwarding(request.bearer), trio.move_on_after(min(seconds, longest)) as scope:
            call = InFlightCall(request, scope, seconds, longest)
            self._calls[call] = None
            reset = _current.set(call)
            try:
                yield call
            except trio.Cancelled:
                self._abandoned += not call.unsent
                raise
            finally:
                _current.reset(reset)
                del self._calls[call]
                if not self._calls:
                    self._none_left.set()

    @property
    def any(self) -> bool:
        """Whether a call is in flight."""
        return bool(self._calls)

    async def wait_until_none(self) -> None:
        """Wait until no call is in flight."""
        while self._calls:
            self._none_left = trio.Event()
            await self._none_left.wait()

    def answering(self) -> ElicitationFnT:
        """Return the SDK's callback for questions of the server."""

        async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
            call = self._asking()
            if call is None:
                return answer_to_wire(ElicitationAnswer("decline"))
            forward_from_here(call.request.bearer)  # the answer is sent with the call's own token
            return answer_to_wire(await call.ask(question_from_wire(params)))

        return answer

    def _asking(self) -> InFlightCall | None:
        """Return the call that a question belongs to, or None if that is unknown."""
        call = _current.get()
        if call is not None:
            return call if call in self._calls else None
        for call in self._calls:
            if call.request.on_anonymous_question is not None:
                call.request.on_anonymous_question()
        if len(self._calls) == 1 and not self._abandoned:
            return next(iter(self._calls))
        # Once, because a server that keeps asking would fill the log.
        self._log.log(
            logging.DEBUG if self._warned else logging.WARNING,
            "declined a question of the server: %d calls are in flight, %d were abandoned, and MCP does not"
            " say which of them asks (max_concurrency: 1 makes that rare)",
            len(self._calls),
            self._abandoned,
        )
        self._warned = True
        return None
