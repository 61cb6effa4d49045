"""A user: sends messages, decides and cancels, early, late and twice. Survives the agent's crashes."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any

import attrs
import trio

from stopgo.actors.agent.agent import Agent
from stopgo.actors.common.errors import AgentError
from stopgo.actors.conversation.result import Turn
from stopgo.runtime.journal.protocol import Journal
from stopgo.runtime.journal.question import Question
from tests.runtime.journal.kept import reply_of

from .world import World

Answer = Mapping[str, Any] | str | None
"""The outcome of a command: a result, the code of an error, or only that it was accepted."""

Command = Callable[[Agent], Awaitable[Turn]]

PATIENCE = 20_000.0
"""Seconds of simulated time after which a missing answer counts as a hang."""

ALWAYS = frozenset({"conversation_not_found", "shutting_down"})
SENDING = ALWAYS | {"conversation_completed", "queue_full"}
DECIDING = ALWAYS | {
    "already_decided",
    "approval_not_found",
    "decision_required",
    "denied_by_policy",
    "expired",
    "halted",
    "invalid_arguments",
    "invalid_request",
    "void",
}


@attrs.frozen(eq=False)
class _Order:
    command: Command
    refusals: frozenset[str]
    """The codes with which the command may be refused."""


@attrs.define(eq=False)
class Person:
    world: World
    name: str
    rng: Random
    left: int = 0
    """The planned actions that are left. After these, the user only answers approvals."""
    answers: dict[str, Answer] = attrs.field(factory=dict)
    lateness: float = 5.0
    """Seconds within which an approval that is due has expired."""
    deleting: bool = False
    deleted: bool = False
    _orders: dict[str, _Order] = attrs.field(factory=dict)
    _open: dict[str, _Order] = attrs.field(factory=dict)
    """The commands without an answer; they are repeated in the next process."""
    _numbers: int = 0

    async def live(self, agent: Agent) -> None:
        """Act until all actions are done, or the process ends."""
        if self.deleting:
            self._open = {key: order for key, order in self._open.items() if key == "delete"}
        async with trio.open_nursery() as nursery:
            for key, order in tuple(self._open.items()):
                nursery.start_soon(self._say, agent, key, order)
            if not self._orders:
                self._start(agent, nursery)
            while self.left and not self.deleting and not agent.draining.is_set():
                await trio.sleep(self.rng.choice([0.0, 0.01, 0.4, 2.0, 10.0]))
                row = await agent._journal.row(self.id)
                if row is not None and not agent.draining.is_set():
                    self.left -= 1
                    await self._next(agent, nursery)
            await self._settle(agent)

    async def look_back(self, journal: Journal) -> None:
        """Before a process starts: all answers that the user got from the last one must be on disk."""
        if self.deleting:
            return
        for key, answer in self.answers.items():
            if (
                isinstance(answer, Mapping)
                and not _refused(answer)
                and not await reply_of(journal, self.id, key)
            ):
                self.world.wrongs.append(f"{self.name}: {key} was answered with what is lost: {answer}")

    @property
    def id(self) -> str:
        """The id of the conversation."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self._first))

    @property
    def _first(self) -> str:
        return f"start {self.name}"

    # ------------------------------------------------------------------ orders

    def _order(
        self, agent: Agent, nursery: trio.Nursery, what: str, command: Command, refusals: frozenset[str]
    ) -> None:
        """Send a command in a task of its own, which ends with the answer or with the process."""
        self._open[what] = self._orders[what] = _Order(command, refusals)
        nursery.start_soon(self._say, agent, what, self._open[what])

    async def _say(self, agent: Agent, key: str, order: _Order) -> None:
        self.world.tell(f"{self.name} says: {key}")
        answer = await self._ask(agent, order)
        self.world.tell(f"{self.name} hears: {key}: {_short(answer)}")
        if answer == "shutting_down":
            return
        if isinstance(answer, str) and answer not in order.refusals:
            self.world.wrongs.append(f"{self.name}: {key} was refused: {answer}")
        self.answers[key] = answer
        self._open.pop(key, None)

    async def _ask(self, agent: Agent, order: _Order) -> Answer:
        try:
            turn = await order.command(agent)
        except AgentError as error:
            return error.code
        return turn.result.to_json() if turn.result else None

    def _key(self, what: str) -> str:
        self._numbers += 1
        return f"{what} {self._numbers}"

    def _token(self, key: str, chance: float) -> str | None:
        return f"token of {self.name} with {key}" if self.rng.random() < chance else None

    def _start(self, agent: Agent, nursery: trio.Nursery) -> None:
        key, token, wait = self._first, self._token("start", 0.4), self.rng.random() < 0.7

        async def start(agent: Agent) -> Turn:
            begin = agent.start_conversation if wait else agent.post_conversation
            return await begin(f"{self.name} 0", id=self.id, key=key, token=token)

        self._order(agent, nursery, key, start, ALWAYS)

    # ------------------------------------------------------------------ a step

    async def _next(self, agent: Agent, nursery: trio.Nursery) -> None:
        steps = ["message"] * 4 + ["decide"] * 8 + ["cancel", "complete", "delete", "again", "misuse", "jump"]
        match self.rng.choice(steps):
            case "message":
                self._message(agent, nursery)
            case "decide":
                await self._decide(agent, nursery)
            case "cancel":
                key = self._key("cancel")
                self._order(agent, nursery, key, lambda agent: agent.cancel(self.id, key=key), ALWAYS)
            case "complete" if self.rng.random() < 0.5:
                key = self._key("complete")
                refusals = ALWAYS | {"run_in_progress"}
                self._order(agent, nursery, key, lambda agent: agent.complete(self.id, key=key), refusals)
            # Not while the creation is under way: if it arrived later, it would create the conversation anew.
            case "delete" if self.rng.random() < 0.5 and self._first in self.answers:
                self.deleting = True
                self._order(agent, nursery, "delete", self._delete, ALWAYS)
            case "again":
                await self._again(agent)
            case "misuse":
                await self._misuse(agent)
            case "jump":
                await trio.sleep(self.rng.choice([100.0, 1000.0]))

    def _message(self, agent: Agent, nursery: trio.Nursery) -> None:
        key = self._key("message")
        text = f"{self.name} {self._numbers}"
        token, wait = self._token(key, 0.3), self.rng.random() < 0.7

        async def send(agent: Agent) -> Turn:
            command = agent.send if wait else agent.post
            return await command(self.id, text, key=key, token=token)

        self._order(agent, nursery, key, send, SENDING)

    async def _delete(self, agent: Agent) -> Turn:
        try:
            await agent.delete(self.id)
        except AgentError as error:
            if error.code != "conversation_not_found":
                raise
        self.deleted = True
        return Turn(None, None)  # type: ignore[arg-type]

    async def _again(self, agent: Agent) -> None:
        """Repeat a command: the answer must be the same."""
        answered = [
            key
            for key, answer in self.answers.items()
            if isinstance(answer, Mapping) and not _refused(answer) and key in self._orders
        ]
        if not answered or self.deleting:
            return
        key = self.rng.choice(answered)
        answer = await self._ask(agent, self._orders[key])
        if answer not in (self.answers[key], "shutting_down") and not self.deleting:
            self.world.wrongs.append(f"{self.name}: {key} was answered {self.answers[key]} and then {answer}")

    async def _misuse(self, agent: Agent) -> None:
        """Use a key again for another command."""
        used = [key for key, answer in self.answers.items() if isinstance(answer, Mapping)]
        for key in [key for key in used if key in self._orders and not _refused(self.answers[key])][:1]:
            send = partial(_send, self.id, "something else", key)
            code = await self._ask(agent, _Order(send, ALWAYS))
            if code not in ("idempotency_key_reused", "shutting_down", "conversation_not_found"):
                self.world.wrongs.append(f"{self.name}: the key {key} was used again, and got {code}")

    # --------------------------------------------------------------- decisions

    async def questions(self, agent: Agent) -> list[Question]:
        page = await agent._journal.questions(state=None, streams=[self.id], limit=200)
        return list(page.questions)

    async def _decide(self, agent: Agent, nursery: trio.Nursery) -> None:
        asked = await self.questions(agent)
        pending = [each for each in asked if each.state == "pending"]
        if not asked or agent.draining.is_set():
            return
        question = self.rng.choice(pending if pending and self.rng.random() < 0.9 else asked)
        for _ in range(2 if self.rng.random() < 0.15 else 1):
            self._answer(agent, nursery, question, self._words(question))

    def _answer(
        self, agent: Agent, nursery: trio.Nursery, question: Question, words: Mapping[str, Any]
    ) -> None:
        key = self._key("decide")
        token, wait = self._token(key, 0.2), self.rng.random() < 0.8
        self.world.tell(f"{self.name} answers {question.kind} {question.id[:8]} with {dict(words)}")
        decide = partial(_decide, question.id, words, key, token, wait)
        self._order(agent, nursery, key, decide, DECIDING)

    def _words(self, question: Question) -> Mapping[str, Any]:
        rng = self.rng
        if rng.random() < 0.1:
            edit = {"approved": True, "arguments": {"name": 3}}
            return rng.choice(
                [{}, {"approved": "perhaps"}, {"action": "hm"}, {"answer": "y", "reason": 1}, edit]
            )
        if question.kind == "outcome_unknown":
            return {"action": rng.choice(["retry", "retry", "done", "failed"])}
        if rng.random() < 0.25:
            no: list[Mapping[str, Any]] = [{"approved": False, "reason": "not today"}, {"answer": "no"}]
            if question.kind == "tool":
                no.append({"action": "respond", "result": "use b"})
            return rng.choice(no)
        if _has_arguments(question) and rng.random() < 0.25:
            return {"action": "approve", "arguments": self._edited(question.body["tool_args"])}
        return rng.choice([{"approved": True}, {"action": "approve"}, {"answer": "yes"}])

    def _edited(self, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        [name] = arguments.keys() - {"level"}
        level = {"level": self.rng.randint(0, 9)} if "level" in arguments else {}
        return {name: f"{arguments[name]}.edited", **level}

    # ------------------------------------------------------------------ the end

    async def _settle(self, agent: Agent) -> None:
        """Decide approvals until no run is active or waiting."""
        async with trio.open_nursery() as nursery:
            while not agent.draining.is_set():
                await trio.sleep(2.0)
                if self._open:
                    continue
                if self.deleted:
                    return
                waiting = await agent._journal.inbox(self.id)  # first: what leaves it begins a run
                row = await agent._journal.row(self.id)
                run = row.summary.body.get("run") if row is not None and row.summary is not None else None
                if run is None or run["state"] in ("finished", "failed", "cancelled"):
                    if not waiting:
                        return
                elif run["state"] == "auth_required":
                    self._authorize(agent, nursery)
                elif run["state"] == "waiting":
                    await self._answer_one(agent, nursery)

    def _authorize(self, agent: Agent, nursery: trio.Nursery) -> None:
        key = self._key("resume")
        token = f"token of {self.name} with {key}"
        self._order(
            agent,
            nursery,
            key,
            lambda agent: agent.resume(self.id, token=token, key=key),
            ALWAYS | {"not_waiting_for_credential"},
        )

    async def _answer_one(self, agent: Agent, nursery: trio.Nursery) -> None:
        pending = [each for each in await self.questions(agent) if each.state == "pending"]
        if not pending:
            return
        question = self.rng.choice(pending)
        if question.expires is not None and self.rng.random() < 0.3:
            await trio.sleep(max(0.0, question.expires - self.world.wall()) + self.lateness)
            (now,) = [each for each in await self.questions(agent) if each.id == question.id] or [question]
            if now.state == "pending" and not (agent.draining.is_set() or self.deleting):
                self.world.wrongs.append(f"{self.name}: {question.id} is due and still pending")
            return
        self._answer(agent, nursery, question, self._words(question))

    async def check_answers(self, agent: Agent) -> None:
        """At the end: repeat all commands; answered ones must get the same answer."""
        if self.deleting:
            return
        for key in self._orders:
            answer = self.answers[key]
            if isinstance(answer, str) or (answer is not None and _refused(answer)):
                continue
            again = await self._ask(agent, self._orders[key])
            if answer is not None and again != answer:
                self.world.wrongs.append(f"{self.name}: {key} was answered {answer} and at last {again}")
            self.answers[key] = again


async def _send(id: str, text: str, key: str, agent: Agent) -> Turn:
    return await agent.send(id, text, key=key)


async def _decide(
    question: str, words: Mapping[str, Any], key: str, token: str | None, wait: bool, agent: Agent
) -> Turn:
    decide = agent.decide if wait else agent.post_decision
    return await decide(question, words, key=key, token=token)


def _has_arguments(question: Question) -> bool:
    return question.kind == "tool" or question.body.get("remote_kind") == "tool"


def _refused(answer: Answer) -> bool:
    """The command left no trace, so its repetition may have another outcome."""
    if isinstance(answer, Mapping):
        return (answer["state"], answer["code"]) == ("waiting", "waiting_approval")
    return isinstance(answer, str)


def _short(answer: Answer) -> str:
    if isinstance(answer, Mapping):
        return f"{answer['state']} {answer['code'] or ''} {answer['response'][:60]!r}"
    return str(answer)
