"""`stopgo run`: one turn of a conversation, with progress and approvals at the command line."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import aclosing, suppress
from typing import assert_never

import attrs
import trio

from ....actors.agent.agent import Agent
from ....actors.approvals.kinds import Approval
from ....actors.common.errors import AgentError
from ....actors.conversation.result import finished
from ....actors.log.fold.state import answer_of
from ....actors.log.words import events as e
from ....actors.log.words.deltas import ModelDelta
from ....actors.log.words.outcomes import Replied
from ....actors.models.messages.messages import TextDelta
from ....runtime.journal.protocol import Event
from ..process.interrupt import TurnEnd
from ..terminal.follower import Follower, draw
from ..terminal.progress import ProgressView, routers
from ..terminal.terminal import Terminal
from .deciding import ask_for_words, tell_refusal


@attrs.define(eq=False)
class _Prompting:
    """An approval that a person is deciding; the scope is cancelled when it needs no decision any more."""

    approval: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)


@attrs.define(eq=False)
class OneTurn:
    """Runs once."""

    agent: Agent
    terminal: Terminal
    stop: trio.Event
    """Set by others to cancel the run."""
    waiting: tuple[Approval, ...] = ()
    """With the outcome `waiting`: the approvals that the run waits for, if any."""
    _outcome: TurnEnd = "cancelled"
    _key: str = attrs.field(factory=lambda: str(uuid.uuid4()))
    """Idempotency key of the message."""
    _run: str | None = None
    """The run of the message, after its start."""
    _last_text: str | None = None
    """The last text of a model on the screen."""
    _asking: _Prompting | None = None
    _progress: ProgressView = attrs.field(factory=ProgressView)

    async def run(self, message: str, conversation: str | None = None) -> TurnEnd:
        """Send `message`, and follow the turn until it ends or waits for a person who is not at the terminal.

        Args:
            conversation: the conversation to continue; None: a new one.

        Raises:
            AgentError: the message is refused.
        """
        if conversation is None:
            turn = await self.agent.post_conversation(message, key=self._key)
            id, seen = turn.conversation.id, 0
        else:
            id, seen = conversation, (await self.agent.get(conversation)).last_seq
            turn = await self.agent.post(id, message, key=self._key)
        if turn.result is not None and turn.result.waiting_approval:  # the message was not stored
            self.terminal.tell(turn.result.response, "bad")
            self._outcome = "waiting"
        else:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_told, id)
                await self._follow(id, seen, nursery)
                nursery.cancel_scope.cancel()
        if self._outcome == "waiting":
            pending = (await self.agent.get(id)).head.pending
            approvals = [await self.agent.approval(each) for each in pending]
            self.waiting = tuple(each for each in approvals if not each.asked.in_flight)
        return self._outcome

    async def _cancel_when_told(self, id: str) -> None:
        await self.stop.wait()
        await self.agent.cancel(id)

    async def _follow(self, id: str, seen: int, nursery: trio.Nursery) -> None:
        """Follow the run of the message. Events up to `seen` are not shown."""
        self._progress = ProgressView(dict(routers(self.agent.config.agent)))
        follower = Follower(seen, streams=self.terminal.streams, progress=self._progress)
        async with aclosing(self.agent.events(id, deltas=self.terminal.streams)) as frames:
            async for frame in frames:
                event, shown = follower.apply(frame) if isinstance(frame, Event) else (None, None)
                if isinstance(frame, ModelDelta) and isinstance(frame.delta, TextDelta):
                    shown = follower.piece(frame.node, frame.key, frame.attempt, frame.delta.text)
                # The end of the run is told below; other runs may end before it begins.
                if shown is not None and not isinstance(event, e.MessageAdded | e.RunEnd):
                    draw(shown, self.terminal)
                outcome = None if event is None else await self._take_in(event, id, nursery)
                if outcome is not None:
                    self._outcome = outcome
                    return

    async def _take_in(self, event: e.LogEvent, id: str, nursery: trio.Nursery) -> TurnEnd | None:
        """Handle an event; the outcome if it is the last event of the turn."""
        match event:
            case e.StepFinished(outcome=Replied(text=text)) if text and self.terminal.streams:
                self._last_text = text
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                if self._asking is not None and self._asking.approval == event.id:
                    self._asking.scope.cancel()
            case e.RunStarted(run=run, command=self._key):
                self._run = run
            case e.RunWaiting(on=on):
                return await self._wait(on, nursery)
            case e.RunAuthRequired():
                return "waiting"
            case e.RunFinished(run=self._run) | e.RunFailed(run=self._run) | e.RunCancelled(run=self._run):
                return await self._end(event, id)
            case _:
                pass
        return None

    async def _wait(self, on: Sequence[str], nursery: trio.Nursery) -> TurnEnd | None:
        """Ask about the first of these approvals, or leave the run waiting."""
        if not self.terminal.can_ask:
            return None if await self._dismissed(on) else "waiting"
        # One at a time: after each decision, `run.waiting` comes again for the rest.
        if self._asking is None or self._asking.approval not in on:
            self._asking = _Prompting(on[0])
            nursery.start_soon(self._ask, self._asking, nursery.cancel_scope)
        return None

    async def _end(self, end: e.RunEnd, id: str) -> TurnEnd:
        match end:
            case e.RunFinished(text=text):
                head = (await self.agent.get(id)).head.run
                assert head is not None
                answer = finished(head, text).response
                if answer != self._last_text:  # otherwise it is on the screen
                    self.terminal.answer(answer)
                return "finished"
            case e.RunFailed():
                self.terminal.tell(answer_of(end), "bad")
                return "failed"
            case e.RunCancelled():
                return "cancelled"
            case _:
                assert_never(end)

    async def _dismissed(self, approvals: Sequence[str]) -> bool:
        """Cancel the elicitations of in-flight calls, which cannot outlive this process; return whether there
        were any. Their calls continue, and so does the run."""
        in_flight = [
            approval for each in approvals if (approval := await self.agent.approval(each)).asked.in_flight
        ]
        for approval in in_flight:
            question = f'a question of the MCP server "{approval.asked.server}" in the middle of a call'
            self.terminal.tell(f"{question} cannot wait for an answer, so it is cancelled", "bad")
            with suppress(AgentError):  # it was decided meanwhile
                await self.agent.post_decision(approval.id, {"action": "cancel"})
        return bool(in_flight)

    async def _ask(self, asking: _Prompting, turn: trio.CancelScope) -> None:
        """Ask until the approval is decided. If the person leaves, it stays pending where it can."""
        with asking.scope:
            approval = await self.agent.approval(asking.approval)
            self.terminal.forget_typed()
            if place := self._progress.place:
                self.terminal.tell(f"\nApproval {place}", "quiet")
            self.terminal.tell(f"\n{approval.asked.description}\n")
            while approval.state == "pending":
                words = await ask_for_words(self.terminal, approval.shown)
                if words is None and not await self._dismissed([approval.id]):
                    self._outcome = "waiting"
                    turn.cancel()
                    return
                if words is not None:
                    try:
                        await self.agent.post_decision(approval.id, words)
                    except AgentError as error:
                        tell_refusal(self.terminal, error, words)
                approval = await self.agent.approval(approval.id)
        if self._asking is asking:
            self._asking = None
