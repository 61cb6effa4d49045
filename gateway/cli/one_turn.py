"""One turn of a new conversation, told and asked about at the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, Literal, TypeAlias, assert_never

import attrs
import trio

from ...actors.agent import Agent
from ...actors.approvals.asked import Asked
from ...actors.approvals.kinds import Approval
from ...actors.approvals.replies import Decide, Edit, Field, Fill, NotUnderstood, ShowAll, edited
from ...actors.common.errors import AgentError
from ...actors.conversation.result import finished
from ...actors.log import events as e
from ...actors.log.event_json import decode
from ...actors.log.state import answer_of
from ...runtime.journal.protocol import Event
from ..views import timestamp
from .progress import Progress
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
        progress = Progress(self.agent.config.agent)
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
            case e.RunAuthRequired(server=server):
                self.terminal.tell(f'tool server "{server}" needs a bearer token', "bad")
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
                words = await self._words(approval.asked)
                if words is None:
                    self._outcome = "waiting"
                    turn.cancel()
                    return
                try:
                    await self.agent.decide(approval.id, words, wait=False)
                except AgentError as error:
                    self._refused(error)
                approval = await self.agent.approval(approval.id)
        if self._asking is asking:
            self._asking = None

    async def _words(self, asked: Asked[Any]) -> dict[str, object] | None:
        """A decision; None: nobody will make one."""
        while (line := await self.terminal.ask(asked.prompt)) is not None:
            match asked.understand(line):
                case Decide(words):
                    return dict(words)
                case Edit():
                    if (arguments := await self._edit(asked)) is not None:
                        return {"approved": True, "arguments": arguments}
                case Fill(form):
                    if (content := await self._fill(form)) is not None:
                        return {"action": "accept", "content": content}
                case ShowAll():
                    expires = None if asked.expires is None else timestamp(asked.expires)
                    self.terminal.tell(asked.all_of(expires))
                case NotUnderstood():
                    self.terminal.tell("That is none of the answers.", "bad")
                case other:
                    assert_never(other)
        return None

    async def _fill(self, form: Sequence[Field]) -> dict[str, object] | None:
        """The answer to a server's question, field by field; None: not now."""
        content: dict[str, object] = {}
        for field in form:
            line = await self.terminal.ask(field.prompt)
            if line is None or (not line and field.required):
                return None
            if line:
                content[field.name] = field.value(line)
        return content

    async def _edit(self, asked: Asked[Any]) -> object | None:
        """The arguments in place of those that were asked about; None: not now."""
        shown = json.dumps(asked.tool_args, ensure_ascii=False)
        self.terminal.tell(f"Now they are: {shown}")
        line = await self.terminal.ask("All arguments, as JSON on one line; nothing to leave them >")
        if not line:
            return None
        arguments = edited(line)
        if isinstance(arguments, str):
            self.terminal.tell(arguments, "bad")
            return None
        return arguments

    def _refused(self, error: AgentError) -> None:
        self.terminal.tell(error.message, "bad")
        for mistake in error.details.get("errors", ())[1:]:
            self.terminal.tell(mistake, "bad")
        if error.hint:
            self.terminal.tell(error.hint)
