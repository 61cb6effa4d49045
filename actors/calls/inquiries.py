"""What a server asks people: in the middle of a call, or before it does anything for one.

The second is the better half: the call is over, waits on record, and is made anew with the answers. In the
first the call waits where it is, in the server's memory and in ours: it keeps the conversation in memory, and
is lost with this process.
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
from ..log.log import ConversationLog
from ..tools.elicitation import unaskable
from ..tools.slots import Held, outside
from ..tools.tool import Elicitation, ElicitationAnswer
from .call_scope import CallScope
from .recorded import DECLINE, given, question_key

CANCEL = ElicitationAnswer("cancel")


@attrs.frozen(eq=False)
class Asking:
    """Puts the questions of servers to people."""

    scope: CallScope

    async def ask(
        self, key: str, question: str, elicitation: Elicitation, *, in_flight: bool
    ) -> ElicitationAnswer:
        """The answer to a question that the server of the call `key` puts; `question` is its own key."""
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
        return answer_of(decision)

    async def answers(self, key: str) -> None:
        """Wait until people have answered what the server of the call `key` asked at its last attempt.

        Each question is put once: what was answered stands on record.
        """
        log = self.scope.log
        record = log.run.calls[key]
        assert record.asked is not None
        jobs = [
            partial(self.ask, key, question_key(key, record.asked_at, number), request, in_flight=False)
            for number, request in enumerate(record.asked.requests.values())
            if isinstance(request, Elicitation)
        ]
        await log.gather(*jobs, work_timers=self.scope.work_timers)


@attrs.frozen
class Replies:
    """What a call brings back of what its server asked for at an earlier attempt."""

    answers: Mapping[str, ElicitationAnswer] | None = None
    state: str | None = None


def replies_of(log: ConversationLog, key: str) -> Replies:
    """The replies that the next attempt of a call brings its server."""
    record = log.run.calls.get(key)
    if record is None or record.asked is None:
        return Replies()
    if not record.asked.answers:
        return Replies(None, record.asked.state)
    answers = given(log.run, key, record)
    return Replies({name: answer or DECLINE for name, answer in answers.items()}, record.asked.state)


@attrs.define(eq=False)
class Inquiries:
    """What the server asks in the middle of one attempt of a call, one question after the other.

    The server's side asks from a task of its own; what waits for people is a task of the conversation's,
    which `close` ends. The caller has to call that; then the server's side always gets an
    answer.
    """

    _asking: Asking
    key: str
    attempt: int
    held: Held
    """The places of the call, which are free for other calls while a person thinks."""
    replies: Replies
    _number: int = 0
    _turn: trio.Lock = attrs.field(factory=trio.Lock)
    _open: dict[trio.CancelScope, trio.Event] = attrs.field(factory=dict)
    _closed: bool = False

    async def ask(self, elicitation: Elicitation) -> ElicitationAnswer:
        """For the server's side: what people say to its question."""
        if self._closed or self._draining.is_set():
            return CANCEL
        if (why := unaskable(elicitation)) is not None:
            note_declined(self._asking.scope, self.key, why)
            return DECLINE
        inquiry = _Inquiry(elicitation)
        self._asking.scope.log.start_soon(partial(self._put, inquiry))
        self._open[inquiry.scope] = inquiry.answered
        await inquiry.answered.wait()
        return inquiry.answer

    async def _put(self, inquiry: _Inquiry) -> None:
        log = self._asking.scope.log
        try:
            with inquiry.scope, log.hold():
                async with trio.open_nursery() as nursery, self._turn, outside(*self.held.places):
                    nursery.start_soon(self._end_with_process, inquiry)
                    question = question_key(self.key, self.attempt, self._number)
                    self._number += 1
                    inquiry.answer = await self._asking.ask(
                        self.key, question, inquiry.elicitation, in_flight=True
                    )
                    nursery.cancel_scope.cancel()
        finally:
            del self._open[inquiry.scope]
            inquiry.answered.set()

    async def _end_with_process(self, inquiry: _Inquiry) -> None:
        """At a shutdown the server is told at once: a call that still ends has an outcome that is known."""
        await self._draining.wait()
        inquiry.scope.cancel()

    @property
    def _draining(self) -> trio.Event:
        return self._asking.scope.draining

    def cancel(self) -> None:
        """Ask no further questions; the server is answered soon."""
        self._closed = True
        for scope in self._open:
            scope.cancel()

    async def close(self) -> None:
        """The call is over: its open questions are cancelled."""
        self.cancel()
        if not self._open:
            return
        with trio.CancelScope(shield=True):  # bounded: what is cancelled only unwinds
            for over in tuple(self._open.values()):
                await over.wait()


@attrs.define(eq=False)
class _Inquiry:
    elicitation: Elicitation
    answer: ElicitationAnswer = CANCEL
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    answered: trio.Event = attrs.field(factory=trio.Event)


def note_declined(scope: CallScope, key: str, why: str) -> None:
    """Log that a question of the server of the call `key` was declined without asking a person."""
    started = scope.log.run.calls[key].started
    assert started is not None
    log = logging.getLogger(f"stopgo.mcp.{started.server}")
    log.warning('declined a question in a call of the tool "%s": %s', started.tool, why)


def asked_at(asked: Asked[Any], key: str, attempt: int) -> bool:
    """Whether a question was put in the middle of this attempt."""
    return bool(asked.in_flight) and asked.question.startswith(f"{key}^{attempt}.")
