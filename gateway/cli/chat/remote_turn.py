"""`stopgo a2a send`: one message to a remote agent, followed until its task has ended.

The exchanges are those of a delegation, except that a person answers at the terminal and nothing is stored.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import Sequence

import attrs
import trio

from ....actors.a2a.agent_link import AgentLink, Contact, RequestNotSent
from ....actors.a2a.exchange import CANCEL_TIME, Exchange, cancel, look
from ....actors.a2a.wire.task import Task
from ....actors.approvals.asked import Occasion
from ....actors.approvals.description import call_text, shortened
from ....actors.approvals.proxy_approval import ProxyQuestion, words_of
from ....actors.common.errors import AgentError
from ....actors.servers.masking import Secrets
from ....actors.tools.delegation import (
    CancelRemote,
    Delegate,
    Delegated,
    Hop,
    LookAt,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from ....actors.tools.tool import Progress, ToolAuthRequired, ToolOutcomeUnknown, ToolUnavailable
from ....config.sections.a2a import RemoteAgentConfig
from ....config.sections.agent_config import MAX_STORED_BYTES
from ..process.interrupt import TurnEnd
from ..terminal.terminal import Style, Terminal
from .deciding import ask_for_words, tell_refusal

LOOK_INTERVAL = 2.0
"""Seconds between checks whether the task still waits for an answer to the question on the screen."""


@attrs.define(eq=False)
class RemoteTurn:
    """Runs once. Close it with `aclose`."""

    config: RemoteAgentConfig
    terminal: Terminal
    stop: trio.Event
    """Set by others to cancel the task."""
    bearer: str | None
    link: AgentLink
    contact: Contact | None = None
    """Set when the agent has been reached."""
    task: RemoteTask | None = None
    """Set when the task is known."""
    waiting: Sequence[ProxyQuestion] = ()
    """With the outcome `waiting`: the open questions; empty if the task waits for a token."""
    _secrets: Secrets = attrs.field(init=False)
    _hop: Hop = attrs.field(factory=lambda: Hop(session_id=secrets.token_hex(4)))
    _exchanges: int = 0
    _id: uuid.UUID = attrs.field(factory=uuid.uuid4)
    _has_left: bool = False
    _log: logging.Logger = attrs.field(factory=lambda: logging.getLogger("stopgo.a2a"))

    def __attrs_post_init__(self) -> None:
        self._secrets = Secrets.of(self.config).beside(self.bearer)

    @classmethod
    def of(
        cls, config: RemoteAgentConfig, terminal: Terminal, stop: trio.Event, bearer: str | None
    ) -> RemoteTurn:
        link = AgentLink(config, lambda status: None, logging.getLogger("stopgo.a2a"))
        return cls(config, terminal, stop, bearer, link)

    async def aclose(self) -> None:
        await self.link.aclose()

    async def run(self, message: str) -> TurnEnd:
        """Send the message, and follow its task until it ends or waits for an answer without a terminal."""
        outcome: TurnEnd = "cancelled"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_told, nursery.cancel_scope)
            outcome = await self._follow(message)
            nursery.cancel_scope.cancel()
        if outcome == "cancelled":
            await self._cancel()
        return outcome

    async def _end_when_told(self, scope: trio.CancelScope) -> None:
        await self.stop.wait()
        scope.cancel()

    async def _follow(self, message: str) -> TurnEnd:
        answers: Sequence[RemoteAnswer] = ()
        items: Sequence[RemoteItem] = ()
        try:
            self.contact = await self.link.contact()
            while True:
                try:
                    end = await self._exchange(message, items, answers)
                except RemoteInputRequired as wanted:
                    items = self._secrets.masked(tuple(wanted.items))
                    questions = [self._question(item, wanted.refusals.get(item.name)) for item in items]
                    answer = await self._answer(questions)
                    if answer is None:
                        self.waiting = questions
                        return "waiting"
                    answers = answer
                else:
                    return self._ended(end)
        except ToolAuthRequired as error:
            self._tell(str(error), "bad")
            if self.task is not None:
                return "waiting"
            self._tell("Send a bearer token with --token-env, or other credentials with --header.")
        except RequestNotSent as error:
            self._tell(f"stopgo a2a send: {self.config.name}: {error}", "bad")
        except (ToolUnavailable, ToolOutcomeUnknown) as error:
            self._tell(f"stopgo a2a send: {error}", "bad")
            if self.task is not None:
                self._tell(f"The outcome of task {self.task.id} is unknown.")
        return "failed"

    async def _exchange(
        self, message: str, items: Sequence[RemoteItem], answers: Sequence[RemoteAnswer]
    ) -> Delegated:
        """One exchange, up to its end or to the next question."""
        self._exchanges += 1
        request = Delegate(
            agent=self.config.name,
            text=message,
            key=f"{self._id}/{self._exchanges}",
            hop=self._hop,
            task=self.task,
            items=items,
            answers=answers,
            bearer=self.bearer,
            on_sent=self._leave,
            on_accepted=self._accept,
            on_progress=self._progress,
        )
        exchange = Exchange(self.config, self.link, request, self._log, MAX_STORED_BYTES, self._secrets)
        return await exchange.run()

    def _leave(self) -> None:
        self._has_left = True

    def _accept(self, task: RemoteTask) -> None:
        self.task = task
        self._tell(f"task {task.id} sid={self._hop.session_id}", "quiet")

    def _progress(self, progress: Progress) -> None:
        self._tell(shortened(progress.message or ""), "quiet")

    def _ended(self, end: Delegated) -> TurnEnd:
        text = self._secrets.mask(end.result.content)
        if end.result.is_error:
            self._tell(text, "bad")
            return "failed"
        self.terminal.answer(text)
        return "finished"

    def _tell(self, text: str, style: Style = "plain") -> None:
        self.terminal.tell(self._secrets.mask(text), style)

    async def _cancel(self) -> None:
        if self.task is None:
            if self._has_left:
                self._tell("The agent may have the message, but it has sent no task id.", "bad")
            return
        task: Task | None = None
        request = CancelRemote(task=self.task, hop=self._hop, bearer=self.bearer)
        with trio.move_on_after(CANCEL_TIME):
            task = await cancel(self.link, self.task, request)
        if task is not None:
            self._tell(f"task {self.task.id}: {task.status.state}")
        else:
            self._tell(f"The agent did not confirm that task {self.task.id} was cancelled.", "bad")

    # --------------------------------------------------------------------- questions

    def _question(self, item: RemoteItem, refusal: str | None) -> ProxyQuestion:
        assert self.task is not None
        id = item.id or item.message
        return ProxyQuestion.about(
            Occasion(id=id, question=id, key=id, node=self.config.name),
            agent=self.config.name,
            server=self.config.id,
            task=self.task,
            item=item,
            refusal=refusal,
            replaces=None,
            mover=None,
            expires=None,
            on_expiry="",
        )

    async def _answer(self, questions: Sequence[ProxyQuestion]) -> Sequence[RemoteAnswer] | None:
        """The answer to the first question; the others come again with the next exchange. None without a
        terminal, or if the person leaves; empty if the question was settled elsewhere."""
        if not self.terminal.can_ask:
            for asked in questions:
                self._show(asked)
            return None
        self.terminal.forget_typed()
        if len(questions) > 1:
            self._tell(f"Question 1 of {len(questions)}", "quiet")
        self._show(questions[0])
        return await self._ask(questions[0])

    def _show(self, asked: ProxyQuestion) -> None:
        # A question without an id has no call, only a description.
        call = f": {call_text(asked.tool_name, asked.tool_args)}" if asked.remote_kind else ""
        self._tell(f"{' -> '.join(asked.agents)}: asks {asked.id}{call}", "quiet")
        self._tell(f"\n{asked.description}\n")

    async def _ask(self, asked: ProxyQuestion) -> Sequence[RemoteAnswer] | None:
        answer: Sequence[RemoteAnswer] | None = ()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._end_when_settled, asked, nursery.cancel_scope)
            answer = await self._decide(asked)
            nursery.cancel_scope.cancel()
        return answer

    async def _decide(self, asked: ProxyQuestion) -> Sequence[RemoteAnswer] | None:
        while (words := await ask_for_words(self.terminal, asked)) is not None:
            try:
                decision = await asked.decision_in(words, pending=True)
            except AgentError as error:
                tell_refusal(self.terminal, error)
            else:
                self._tell(asked.original.decision_line(decision), "quiet")
                return (RemoteAnswer(asked.item, words_of(decision), decision.agrees, asked.remote_digest),)
        return None

    async def _end_when_settled(self, asked: ProxyQuestion, scope: trio.CancelScope) -> None:
        assert self.task is not None
        while True:
            await trio.sleep(LOOK_INTERVAL)
            request = LookAt(
                task=self.task,
                item=asked.item,
                hop=self._hop,
                shown=asked.remote_digest,
                bearer=self.bearer,
            )
            if (why := await look(self.link, request, self._secrets)) is not None:
                self._tell(f"The question is no longer open: {why}.")
                scope.cancel()
                return
