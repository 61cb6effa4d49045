"""A client that outlives the agent: it repeats what it has no answer to, and looks into the ledger for the
answers to what nobody else can know."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any

import attrs
import trio

from stopgo.actors.access.principal import Principal
from stopgo.actors.agent.agent import Agent
from stopgo.actors.approvals.kinds import Approval
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Turn
from stopgo.actors.gate.halt import HaltState
from stopgo.actors.log.writer.topics import Idle
from stopgo.runtime.event_bus import Crashed
from stopgo.runtime.journal.protocol import Event, Journal
from stopgo.runtime.journal.question import Question
from tests.runtime.journal.kept import reply_of

from .demands import acceptance
from .world import World, label_of, result_of

Answer = Mapping[str, Any] | None
"""The outcome of a command: the result, the code of an error, or only that it was accepted."""

Script = Callable[["Client"], Awaitable[None]]
Policy = Callable[[int], str]
"""A human's answer about an unknown outcome, by the number of times that the ledger has the call."""

PATIENCE = 100_000.0
"""Seconds of simulated time after which a missing answer counts as a hang."""


_ENDS = ("run.finished", "run.failed", "run.cancelled")


def from_the_ledger(times: int) -> str:
    return "done" if times else "retry"


class _Leave(Exception):
    """The agent has to be shut down gracefully and started again."""


@attrs.define(eq=False)
class Client:
    world: World
    script: Script
    policy: Policy = from_the_ledger
    conversation: str = ""
    answers: dict[str, Answer] = attrs.field(factory=dict)
    seen: dict[int, Event] = attrs.field(factory=dict)
    """Every event that it ever received, by seq."""
    deleted: bool = False
    _commands: dict[str, Callable[[Agent], Awaitable[Turn]]] = attrs.field(factory=dict)
    _left: set[str] = attrs.field(factory=set)
    _said: set[str] = attrs.field(factory=set)
    """Keys of the resumes that may have been accepted."""
    _answering: dict[str, str] = attrs.field(factory=dict)
    """Ids of approvals by the key of the decision, which is repeated in the next process."""
    _agent: Agent | None = None
    _began: float = 0.0
    """The start of this process."""

    @property
    def agent(self) -> Agent:
        assert self._agent is not None
        return self._agent

    # -------------------------------------------------------------- one life

    async def live(self, agent: Agent) -> bool:
        """Continue the script. Returns whether it is done; if not, the agent has to be started again."""
        self._agent, self._began = agent, self.world.wall()
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                await nursery.start(self._listen)
                through = await self._go_on()
                nursery.cancel_scope.cancel()
        return through

    async def _go_on(self) -> bool:
        try:
            await self.script(self)
        except _Leave:
            return False
        if not self.deleted:
            await self.rest()
            for key in tuple(self._commands):
                await self._repeat(key)
        return True

    async def _listen(self, *, task_status: trio.TaskStatus[None]) -> None:
        bus = self.agent._cast.services.logs.bus
        with bus.subscribe(None, buffer=10_000) as live:
            task_status.started()
            async for item in live:
                if isinstance(item, Crashed) and self.world.alive:
                    self.world.wrongs.append(f"an actor crashed: {item}")
                if isinstance(item, Event) and self.seen.setdefault(item.seq, item) != item:
                    self.world.wrongs.append(f"event {item.seq} was another one before")

    async def look_back(self, journal: Journal) -> None:
        """Before a process starts: all answers that the client got from the last one must be on disk."""
        if await journal.row(self.conversation) is None:
            return  # it has not begun, or is deleted
        for key in self._commands:
            if self.answers[key] is not None and await reply_of(journal, self.conversation, key) is None:
                self.world.wrongs.append(f"{key} was answered with what is lost: {self.answers[key]}")

    # --------------------------------------------------------------- commands

    async def start(
        self, text: str, key: str = "start", *, token: str | None = None, wait: bool = True
    ) -> None:
        self.world.authorized |= token is not None

        async def command(agent: Agent) -> Turn:
            start = agent.start_conversation if wait else agent.post_conversation
            turn = await start(text, key=key, token=token)
            self.conversation = turn.conversation.id
            return turn

        await self._do(key, command)

    async def send(self, text: str, key: str, *, token: str | None = None, wait: bool = True) -> None:
        async def command(agent: Agent) -> Turn:
            send = agent.send if wait else agent.post
            return await send(self.conversation, text, key=key, token=token)

        await self._do(key, command)

    async def decide(
        self,
        label: str,
        decision: Mapping[str, Any],
        key: str,
        *,
        token: str | None = None,
        by: Principal | None = None,
        wait: bool = True,
    ) -> None:
        """Decide the approval of the call with that label."""
        if key in self.answers:
            return
        (approval,) = [
            each
            for each in await self.approvals()
            if each.kind == "tool" and label_of(each.body["tool_args"]) == label
        ]
        await self.answer(approval.id, decision, key, token=token, by=by, wait=wait)

    async def answer(
        self,
        approval: str,
        decision: Mapping[str, Any],
        key: str,
        *,
        token: str | None = None,
        by: Principal | None = None,
        wait: bool = True,
    ) -> None:
        async def command(agent: Agent) -> Turn:
            agent = agent.acting_as(by)
            decide = agent.decide if wait else agent.post_decision
            return await decide(approval, decision, key=key, token=token)

        await self._do(key, command)

    async def tell(self, label: str, decision: Mapping[str, Any], key: str, *, wait: bool = True) -> None:
        """Answer what another agent asked last about that, if it has asked."""
        if key in self.answers:
            return
        if key not in self._answering:
            await self.rest()
            asked = [
                each
                for each in await self.approvals()
                if each.kind == "proxy" and each.body["tool_args"].get("name") == label
            ]
            if not asked:
                return
            self._answering[key] = asked[-1].id
        await self.answer(self._answering[key], decision, key, wait=wait)

    async def say(self, decision: Mapping[str, Any]) -> None:
        """Decide all approvals with this, until none is pending."""
        for number in count():
            key = f"said {number}"
            if key in self.answers:
                continue
            if key not in self._answering:
                await self.rest()
                pending = [each for each in await self.approvals() if each.state == "pending"]
                if not pending:
                    return
                self._answering[key] = pending[0].id
            await self.answer(self._answering[key], decision, key)

    async def resume(self, *tokens: str) -> None:
        """Resume the run with a token whenever it waits for one: these in order, then the last one again."""
        for number in count():
            key = f"token {number}"
            if key in self.answers:
                continue
            if key not in self._said:
                await self.rest()
                if await self.state() != "auth_required":
                    return
                self._said.add(key)
            await self.bring(tokens[min(number, len(tokens) - 1)], key)

    async def state(self) -> str | None:
        """Of the last run."""
        run = (await self.agent.get(self.conversation)).head.run
        return run and run.state

    async def bring(self, token: str, key: str) -> None:
        await self._do(key, lambda agent: agent.resume(self.conversation, token=token, key=key))

    async def reply(self, label: str, action: str = "accept") -> None:
        """Answer whatever the server asks about the call with that label."""
        for number in count():
            key = f"reply {label} {number}"
            if key in self.answers:
                continue
            if key not in self._answering:
                await self.rest()
                asked = sorted(
                    (each for each in await self.approvals() if _asks(each, label)),
                    key=lambda each: str(each.body["message"]),
                )
                if not asked:
                    return
                self._answering[key] = asked[0].id
            question = await self.agent.approval(self._answering[key])
            if action == "accept" and "url" in question.body:
                self.world.visited.add(label)
            yes = acceptance(question.body["message"])
            await self.answer(question.id, yes if action == "accept" else {"action": action}, key)

    async def halt(self) -> None:
        await self._once("halt", lambda: self.agent.halt("drill", key="halt"))

    async def unhalt(self) -> None:
        await self._once("unhalt", lambda: self.agent.unhalt(key="unhalt"))

    async def _once(self, key: str, change: Callable[[], Awaitable[HaltState]]) -> None:
        if key not in self.answers:
            self.answers[key] = {"halted": (await change()).halted}
            self.world.acknowledged.add(key)

    async def cancel(self, key: str) -> None:
        await self._do(key, lambda agent: agent.cancel(self.conversation, key=key))

    async def complete(self, key: str) -> None:
        await self._do(key, lambda agent: agent.complete(self.conversation, key=key))

    async def delete(self) -> None:
        if self.deleted:
            return
        try:
            await self.agent.delete(self.conversation)
        except AgentError as error:  # an earlier attempt may have succeeded without our hearing of it
            if error.code != "conversation_not_found":
                raise
        self.deleted = True
        self.world.acknowledged.add("delete")

    async def restart(self, name: str) -> None:
        """Have the agent shut down gracefully, once."""
        if name not in self._left:
            self._left.add(name)
            raise _Leave

    async def until(self, type: str) -> None:
        """Wait for the first event of a type, at most until the run has ended."""
        async with aclosing(self.agent.events(self.conversation)) as events:
            async for event in events:
                if event.type == type or event.type in _ENDS:
                    return

    async def approvals(self) -> list[Approval]:
        page = await self.agent.approvals(state=None, limit=200)
        return [each for each in page.approvals if each.stream == self.conversation]

    # ----------------------------------------------------------------- insides

    async def _do(self, key: str, command: Callable[[Agent], Awaitable[Turn]]) -> None:
        if key in self.answers:
            return
        answer = await self._ask(command)
        # The run may have waited for what only the ledger can answer.
        while _refused(answer) and (await self._answer_unknowns() or await self._is_free(answer)):
            answer = await self._ask(command)
        await self._answer_unknowns()
        self.answers[key] = answer
        if not _refused(answer):
            self._commands[key] = command
        self.world.acknowledged.add(key)

    async def _ask(self, command: Callable[[Agent], Awaitable[Turn]]) -> Answer:
        try:
            turn = await command(self.agent)
        except AgentError as error:
            return {"error": error.code}
        return turn.result.to_json() if turn.result else None

    async def _repeat(self, key: str) -> None:
        again = await self._ask(self._commands[key])
        if self.answers[key] is not None and again != self.answers[key]:
            self.world.wrongs.append(f"{key} was answered {self.answers[key]} and then {again}")

    async def _is_free(self, answer: Answer) -> bool:
        """Whether a message that was not stored is welcome now: the decision it waited for was on its way."""
        if not _not_stored(answer):
            return False
        await trio.sleep(1)
        return (await self.agent.get(self.conversation)).head.status == "active"

    async def _answer_unknowns(self) -> bool:
        """Whether there were any."""
        for number in count():
            asked = [
                each
                for each in await self.approvals()
                if each.state == "pending" and each.kind == "outcome_unknown"
            ]
            if not asked:
                return number > 0
            await self._answer_unknown(asked[0])
        raise AssertionError

    async def _answer_unknown(self, question: Question) -> None:
        tool, label = question.body["tool_name"], label_of(question.body["tool_args"])
        decision = {"action": self.policy(self.world.times(label))}
        if decision["action"] == "done":
            decision["result"] = result_of(tool, label)
        key = f"unknown {question.id}"

        async def command(agent: Agent) -> Turn:
            return await agent.decide(question.id, decision, key=key)

        self.answers[key] = await self._ask(command)
        self._commands[key] = command

    def _is_lost(self, question: Question) -> bool:
        """Whether a server asked it in the middle of a call of an earlier life: it will be taken back."""
        return bool(question.body.get("in_flight")) and question.created < self._began

    async def rest(self) -> None:
        """Wait until nothing moves by itself any more, answering what only the ledger can answer."""
        with self.agent._cast.services.logs.bus.subscribe(None, buffer=10_000) as live:
            while True:
                await self._answer_unknowns()
                conversation = await self.agent.get(self.conversation)
                run = conversation.head.run
                asked = any(
                    each.state == "pending" and (each.kind == "outcome_unknown" or self._is_lost(each))
                    for each in conversation.approvals.values()
                )
                moving = run is not None and run.state == "running"
                if not (moving or asked or await self.agent._journal.inbox(self.conversation)):
                    return
                async for item in live:
                    if isinstance(item, Event | Idle):
                        break


def _asks(question: Question, label: str) -> bool:
    """Whether it is a server's, about the call with that label, and open."""
    mine = question.kind == "elicitation" and question.body["tool_args"] == {"name": label}
    return mine and question.state == "pending"


def _refused(answer: Answer) -> bool:
    """Nothing of the command was kept, so that it may come to something else when it is said again."""
    return answer is not None and ("error" in answer or _not_stored(answer))


def _not_stored(answer: Answer) -> bool:
    """A message that came while an approval was pending."""
    return answer is not None and (answer.get("state"), answer.get("code")) == ("waiting", "waiting_approval")
