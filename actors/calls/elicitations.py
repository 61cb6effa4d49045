"""Elicitations: the questions of MCP servers to humans. There are two kinds:

==========================  ========================================================================
kind                        consequences
==========================  ========================================================================
before the call acts        The attempt ends with a prerequisite (`NeedsAnswers`). The questions are
(`ElicitationAsker`)        durable, and the next attempt brings the answers.
during a call               The call stays in flight, and the conversation in memory, until the
(`Elicitations`)            answer. A crash loses the call; the next start voids the questions. A `once`
                            call gets no acceptance from before a halt, but a cancellation.
==========================  ========================================================================
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import trio

from ..approvals.asked import Asked
from ..approvals.elicitation_approval import ElicitationQuestion, answer_of
from ..log.words import keys
from ..log.writer.log import ConversationLog
from ..run.scopes import CallScope
from ..tools.elicitation import unaskable
from ..tools.slots import TakenSlots, outside
from ..tools.tool import Elicitation, ElicitationAnswer
from .recorded import DECLINE, answers_so_far

CANCEL = ElicitationAnswer("cancel")


@attrs.frozen(eq=False)
class ElicitationAsker:
    """Puts the questions of servers to humans."""

    scope: CallScope

    async def ask(
        self, key: str, question: str, elicitation: Elicitation, *, in_flight: bool
    ) -> ElicitationAnswer:
        """The answer to a question of the server of the call `key`. `question` is the question's own key."""
        scope = self.scope
        started = scope.log.run.calls[key].started
        assert started is not None

        def put() -> ElicitationQuestion:
            return ElicitationQuestion.about(
                scope.occasion(question, key),
                tool=started.tool,
                server=started.server,
                arguments=started.arguments,
                elicitation=elicitation,
                in_flight=in_flight,
                expires=scope.expires(),
            )

        decision = await scope.log.decision(question, put, scope.work_timers)
        acts = in_flight and started.effect == "once" and decision.agrees
        return CANCEL if acts and scope.services.halts.latest.lapses(decision.halts) else answer_of(decision)

    async def answers(self, key: str) -> None:
        """Put the questions that the server of the call `key` asked at its last attempt, each once, and
        wait for all answers."""
        log = self.scope.log
        record = log.run.calls[key]
        assert record.asked is not None
        jobs = [
            partial(self.ask, key, keys.elicitation(key, record.asked_at, number), request, in_flight=False)
            for number, request in enumerate(record.asked.requests.values())
            if isinstance(request, Elicitation)
        ]
        await log.branches.gather(*jobs, work_timers=self.scope.work_timers)


@attrs.frozen
class Replies:
    """The answers and the state that the next attempt brings back to its server."""

    answers: Mapping[str, ElicitationAnswer] | None = None
    state: str | None = None


def replies_of(log: ConversationLog, key: str) -> Replies:
    """The replies for the next attempt of a call."""
    record = log.run.calls.get(key)
    if record is None or record.asked is None:
        return Replies()
    if not record.asked.answers:
        return Replies(None, record.asked.state)
    answers = answers_so_far(log.run, key, record)
    return Replies({name: answer or DECLINE for name, answer in answers.items()}, record.asked.state)


@attrs.define(eq=False)
class Elicitations:
    """The elicitations during one attempt of a call, one at a time.

    The server's actor calls `ask` in a task of its own. The wait for a human is in a task of the
    conversation, which `close` ends. The caller must call `close`; so `ask` always returns.
    """

    _asking: ElicitationAsker
    key: str
    attempt: int
    slots: TakenSlots
    """The slots of the call. Other calls may use them while a human has the question."""
    replies: Replies
    _number: int = 0
    _turn: trio.Lock = attrs.field(factory=trio.Lock)
    _open: dict[trio.CancelScope, trio.Event] = attrs.field(factory=dict)
    _closed: bool = False

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """The answer to a question of the server."""
        if self._closed or self._draining.is_set():
            return CANCEL
        if (why := unaskable(elicitation)) is not None:
            note_declined(self._asking.scope, self.key, why)
            return DECLINE
        open_one = _Open(elicitation)
        self._asking.scope.log.start_soon(partial(self._put, open_one))
        self._open[open_one.scope] = open_one.answered
        await open_one.answered.wait()
        return open_one.answer

    async def _put(self, open_one: _Open) -> None:
        log = self._asking.scope.log
        try:
            with open_one.scope, log.branches.keep_loaded():
                async with trio.open_nursery() as nursery, self._turn, outside(*self.slots.places):
                    nursery.start_soon(self._end_with_process, open_one)
                    question = keys.elicitation(self.key, self.attempt, self._number)
                    self._number += 1
                    open_one.answer = await self._asking.ask(
                        self.key, question, open_one.elicitation, in_flight=True
                    )
                    nursery.cancel_scope.cancel()
        finally:
            del self._open[open_one.scope]
            open_one.answered.set()

    async def _end_with_process(self, open_one: _Open) -> None:
        """Cancel at a shutdown: if the call then still ends in time, its outcome is known."""
        await self._draining.wait()
        open_one.scope.cancel()

    @property
    def _draining(self) -> trio.Event:
        return self._asking.scope.draining

    def cancel(self) -> None:
        """Cancel the open questions, and all later ones, without waiting."""
        self._closed = True
        for scope in self._open:
            scope.cancel()

    async def close(self) -> None:
        """Cancel the open questions, because the call has ended, and wait until they are."""
        self.cancel()
        if not self._open:
            return
        with trio.CancelScope(shield=True):  # short: the cancelled tasks only unwind
            for answered in tuple(self._open.values()):
                await answered.wait()


@attrs.define(eq=False)
class _Open:
    elicitation: Elicitation
    answer: ElicitationAnswer = CANCEL
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    answered: trio.Event = attrs.field(factory=trio.Event)


def note_declined(scope: CallScope, key: str, why: str) -> None:
    """Log that a question in the call `key` was declined without asking a human."""
    started = scope.log.run.calls[key].started
    assert started is not None
    log = logging.getLogger(f"stopgo.mcp.{started.server}")
    log.warning('declined a question in a call of the tool "%s": %s', started.tool, why)


def asked_at(asked: Asked[Any], key: str, attempt: int) -> bool:
    """Whether the question is an elicitation during this attempt."""
    return bool(asked.in_flight) and keys.is_asked_during(asked.question, key, attempt)
