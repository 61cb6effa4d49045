"""One turn of a new conversation, told and asked about at the command line."""

from __future__ import annotations

from contextlib import aclosing
from typing import Literal, TypeAlias

import attrs
import trio

from ...actors.agent import Agent
from ...actors.approvals.kinds import Approval
from ...actors.common.errors import AgentError
from ...actors.conversation.result import finished
from ...actors.log import events as e
from ...actors.log.event_json import decode
from ...actors.log.state import answer_of
from ...runtime.journal.protocol import Event
from .deciding import ask_for_words, tell_refusal
from .progress import Progress, routers
from .terminal import Terminal

Outcome: TypeAlias = Literal["finished", "failed", "waiting", "cancelled"]


@attrs.define(eq=False)
class _Asking:
    """A question somebody is looking at; the scope ends when it need not be answered any more."""

    approval: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define(eq=False)
class OneTurn:
    """Runs once."""

    agent: Agent
    terminal: Terminal
    stop: trio.Event
    """Set by others: cancel the run."""
    waiting: tuple[Approval, ...] = ()
    """When the outcome is that it waits: what for, if for a person."""
    _outcome: Outcome = "cancelled"
    _asking: _Asking | None = None

    async def run(self, message: str) -> Outcome:
        """Say `message`, and see to it that the turn ends, or waits for somebody who is not here.

        Raises:
            AgentError: the message is refused.
        """
        turn = await self.agent.start_conversation(message, wait=False)
        id = turn.conversation.id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cancel_when_told, id)
            await self._follow(id, nursery)
            nursery.cancel_scope.cancel()
        if self._outcome == "waiting":
            pending = (await self.agent.get(id)).head.pending
            self.waiting = tuple([await self.agent.approval(each) for each in pending])
        return self._outcome

    async def _cancel_when_told(self, id: str) -> None:
        await self.stop.wait()
        await self.agent.cancel(id)

    async def _follow(self, id: str, nursery: trio.Nursery) -> None:
        progress = Progress(dict(routers(self.agent.config.agent)))
        async with aclosing(self.agent.events(id)) as events:
            async for event in events:
                if (line := progress.line(event)) is not None:
                    self.terminal.tell(line, "quiet")
                outcome = await self._take_in(event, nursery)
                if outcome is not None:
                    self._outcome = outcome
                    return

    async def _take_in(self, event: Event, nursery: trio.Nursery) -> Outcome | None:
        """What an event means for whoever sits here; the outcome, when it is the last one."""
        match decode(event).event:
            case e.ApprovalResolved(id=id) | e.ApprovalExpired(id=id) | e.ApprovalVoid(id=id):
                if self._asking is not None and self._asking.approval == id:
                    self._asking.scope.cancel()
            case e.RunWaiting() if not self.terminal.can_ask:
                return "waiting"
            case e.RunWaiting(on=on):
                # One after the other: each answer makes the run wait again, for what is left.
                if self._asking is None or self._asking.approval not in on:
                    self._asking = _Asking(on[0])
                    nursery.start_soon(self._ask, self._asking, nursery.cancel_scope)
            case e.RunAuthRequired(wanted=wanted):
                self.terminal.tell(f"{wanted.label} needs a bearer token", "bad")
                return "waiting"
            case e.RunFinished(text=text):
                run = (await self.agent.get(event.stream)).head.run
                assert run is not None
                self.terminal.answer(finished(run, text).response)
                return "finished"
            case e.RunFailed() as end:
                self.terminal.tell(answer_of(end), "bad")
                return "failed"
            case e.RunCancelled():
                return "cancelled"
            case _:
                pass
        return None

    async def _ask(self, asking: _Asking, turn: trio.CancelScope) -> None:
        """Ask until it is answered, or need not be; when nobody answers, leave it waiting."""
        with asking.scope:
            approval = await self.agent.approval(asking.approval)
            self.terminal.forget_typed()
            self.terminal.tell(f"\n{approval.asked.description}\n")
            while approval.state == "pending":
                words = await ask_for_words(self.terminal, approval.asked)
                if words is None:
                    self._outcome = "waiting"
                    turn.cancel()
                    return
                try:
                    await self.agent.decide(approval.id, words, wait=False)
                except AgentError as error:
                    tell_refusal(self.terminal, error)
                approval = await self.agent.approval(approval.id)
        if self._asking is asking:
            self._asking = None
