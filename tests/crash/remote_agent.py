"""Another agent, as `actors/a2a/exchange` shows it: it keeps its tasks, whoever is killed here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias, assert_never

import attrs
import trio

from stopgo.actors.tools.delegation import (
    WITHHELD,
    CancelRemote,
    Delegate,
    Delegated,
    LookAt,
    RemoteAgentMessage,
    RemoteAgentStatus,
    RemoteAnswer,
    RemoteInputRequired,
    RemoteItem,
    RemoteTask,
)
from stopgo.actors.tools.tool import ToolAuthRequired, ToolOutcomeUnknown, ToolResult, ToolUnavailable
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.gateway.testing.killing_journal import Killed
from stopgo.runtime.context import Behaviour, Context

TOOL = "a2a_peer"
"""By which models delegate to it."""

WORK_SECONDS = 0.1
TRAVEL_SECONDS = 0.01
POLL_SECONDS = 1.0
MOST_IN_VAIN = 10
ELSEWHERE_SECONDS = 1000.0
"""After which somebody else decides what is decided elsewhere: longer than all nights of a story."""

TERMINAL = frozenset({"completed", "canceled"})

Finds: TypeAlias = Literal["by key", "by list", "not"]
"""How the task of a message is found whose answer was lost: the agent takes one with the same key for the
same, or it lists the tasks of a context, or it does neither."""

Trouble: TypeAlias = Literal["away", "lost"]
"""An exchange does not get to the agent; or its end does not get back from there."""


@attrs.frozen
class Job:
    """What becomes of a message with a certain text."""

    rounds: Sequence[Sequence[str]] = ()
    """The questions that are asked, those of a round at the same time. A yes to one does something."""
    named: bool = True
    """The questions have names; else the message as a whole asks."""
    refuses_edits: bool = False
    elsewhere: Mapping[str, bool] = attrs.field(factory=dict)
    """What somebody else says to a question after a while."""
    elsewhere_after: float = ELSEWHERE_SECONDS
    forgotten: bool = False
    """The agent loses the first task that it has of this, once it has told of it."""
    tells: bool = True
    """The agent says, when it is asked, that it does not wait for an answer any more."""
    says_rejected: bool = True
    """The end of the task says that something was rejected."""
    errs: bool = False
    """The agent says of each question that it does not wait for the answer, until it is taken at its word."""
    token: str | None = None
    """Only with this one is anything done."""
    seconds: float = WORK_SECONDS
    """Of each stretch of work."""


class Here(Protocol):
    """The part of a test's world that the agent has to do with."""

    @property
    def wrongs(self) -> list[str]: ...

    @property
    def life(self) -> int: ...

    @property
    def alive(self) -> bool: ...

    def wall(self) -> float: ...

    def note(self, tool: str, label: str) -> None:
        """Enter into the ledger what was really done."""

    def check_forwarded(self, bearer: str | None, what: str) -> None: ...


@attrs.define
class RemoteWork:
    """A task, as the agent keeps it."""

    id: str
    text: str
    key: str
    job: Job
    until: float
    """When it has done what it is at."""
    state: Literal["working", "input-required", "auth-required", "completed", "canceled"] = "working"
    round: int = 0
    open: dict[str, float] = attrs.field(factory=dict)
    """The questions that wait, and since when."""
    authorized: bool = False
    rejected: bool = False

    @property
    def is_lost(self) -> bool:
        return self.job.forgotten and self.id.endswith("-1")

    def items(self) -> Iterator[RemoteItem]:
        if self.state == "input-required":
            yield from (self.item(name) for name in self.open)

    def item(self, name: str) -> RemoteItem:
        label = f"{self.text}.{name}"
        return RemoteItem(
            message=f"{self.id}/{self.round}",
            id=f"{self.id}:{name}" if self.job.named else None,
            kind="tool" if self.job.named else "",
            tool="wipe",
            arguments={"name": label},
            description=f"wipe {label}?",
            schema={"type": "object", "properties": {"name": {"type": "string"}}} if self.job.named else None,
        )


@attrs.define(eq=False)
class RemoteAgent:
    """All that the agent knows, and all that was ever asked of it."""

    here: Here
    job_of: Callable[[str], Job]
    """By what it is told."""
    finds: Finds = "by key"
    trouble: Callable[[str], Trouble | None] = lambda text: None
    """What becomes of the next exchange about that."""
    tasks: dict[str, RemoteWork] = attrs.field(factory=dict)
    late: list[str] = attrs.field(factory=list)
    """Tasks of messages that came from a second or later life."""
    asked_in_vain: Counter[str] = attrs.field(factory=Counter)
    """How often somebody asked about a task that it has lost."""
    refused: Counter[tuple[str, str]] = attrs.field(factory=Counter)
    """How often an answer to an item of a task was not taken, or not wanted, or did not arrive."""
    denied: set[tuple[str, str]] = attrs.field(factory=set)
    """Items of tasks that it has said not to ask, although it does, and was not taken at its word yet."""
    agreed: set[tuple[str, str]] = attrs.field(factory=set)
    """Items of tasks to which a yes has come from here."""

    def open(
        self, config: RemoteAgentConfig, *, report: Callable[[RemoteAgentStatus], None]
    ) -> Behaviour[RemoteAgentMessage]:
        async def handle(message: RemoteAgentMessage) -> object:
            self._stop_if_dead()
            if message.bearer is not None and not config.forwards_bearer:
                self.here.wrongs.append(f"{config.name} was passed a token")
            match message:
                case Delegate(text=text):
                    if config.forwards_bearer:
                        self.here.check_forwarded(message.bearer, text)
                    return await self._delegate(message)
                case CancelRemote(task=task):
                    await self._cancel(task)
                    return None
                case LookAt(task=task, item=item):
                    return await self._look(task, item)
                case _:
                    assert_never(message)

        async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
            report(RemoteAgentStatus("reached"))
            await ctx.serve(handle, concurrency=100)

        return behaviour

    # ------------------------------------------------------------- what it is asked

    async def _delegate(self, message: Delegate) -> Delegated:
        refusals: dict[str, str] = {}
        trouble = self.trouble(message.text)
        if trouble == "away":
            raise self._away(message)
        task = None if message.task is None else self._known(message, message.task)
        if task is None:
            task = self._begin(message)
            await self._travel()
            if message.on_accepted is not None:
                message.on_accepted(RemoteTask(task.id, f"context of {task.key}"))
            self._read(RemoteTask(task.id))
        else:
            await self._travel()
            if message.on_sent is not None:
                message.on_sent()
            self._continue(task, message, refusals)
            await self._travel()
        await self._rest(task)
        if trouble == "lost":
            raise ToolOutcomeUnknown("the connection was lost")
        return self._outcome(task, refusals)

    def _away(self, message: Delegate) -> Exception:
        if message.lost:
            return ToolOutcomeUnknown("it cannot be asked about the message")
        if message.task is None:
            return ToolUnavailable("sub-agent unavailable")
        if not message.answers:
            return ToolOutcomeUnknown("it cannot be asked about the task")
        refusals = {answer.item.name: "it cannot be reached" for answer in message.answers}
        self.refused.update((message.task.id, name) for name in refusals)
        return RemoteInputRequired(message.items, refusals)

    def _known(self, message: Delegate, known: RemoteTask) -> RemoteWork | None:
        """The task that the message is about; None: another is to be begun, since this one leads nowhere."""
        try:
            task = self._read(known)
        except ToolOutcomeUnknown:
            if message.anew:
                return None
            raise
        return None if message.anew and task.state == "canceled" else task

    def _begin(self, message: Delegate) -> RemoteWork:
        known = [task for task in self.tasks.values() if task.key == message.key]
        may_send = message.may_send and message.may_leave()
        if message.lost and message.task is None and not self._finds(known, may_send):
            raise ToolOutcomeUnknown("the agent knows of no task")
        if not message.lost and not message.may_leave():
            raise ToolUnavailable(WITHHELD)
        if (not message.lost or self.finds == "by key") and message.on_sent is not None:
            message.on_sent()
        if known and (message.lost or self.finds == "by key"):
            return known[0]
        number = sum(task.text == message.text for task in self.tasks.values()) + 1
        job = self.job_of(message.text)
        task = RemoteWork(
            f"task-{message.text}-{number}", message.text, message.key, job, self.here.wall() + job.seconds
        )
        task.authorized = job.token in (None, message.bearer)
        self.tasks[task.id] = task
        if self.here.life > 1:
            self.late.append(task.id)
        self.here.note(TOOL, message.text)
        return task

    def _finds(self, known: Sequence[RemoteWork], may_send: bool) -> bool:
        """Whether something comes of it if the message of these tasks is lost."""
        match self.finds:
            case "by key":
                return may_send
            case "by list":
                return bool(known)
            case "not":
                return False

    def _continue(self, task: RemoteWork, message: Delegate, refusals: dict[str, str]) -> None:
        """Take what the task still waits for, as the exchange does that has read it."""
        if task.state == "auth-required" and message.bearer == task.job.token and message.may_leave():
            task.authorized = True
            self._work_on(task, self.here.wall())
        believed = {place for place in self.denied if place[0] == task.id}
        self.refused.update(believed)
        self.denied -= believed
        for answer in message.answers:
            name = next((each for each in task.open if task.item(each).name == answer.item.name), None)
            if name is not None and task.state == "input-required":
                if answer.agrees and not message.may_leave():
                    refusals[answer.item.name] = WITHHELD
                else:
                    self._take(task, name, answer, refusals)

    def _take(self, task: RemoteWork, name: str, answer: RemoteAnswer, refusals: dict[str, str]) -> None:
        words = answer.words
        if "arguments" in words and task.job.refuses_edits:
            self.refused[task.id, answer.item.name] += 1
            refusals[answer.item.name] = "not like that"
            return
        if words["approved"] is True:
            self.agreed.add((task.id, answer.item.name))
        said: Any = words.get("arguments", task.item(name).arguments)
        self._decide(task, name, words["approved"] is True, said["name"], self.here.wall())

    async def _cancel(self, known: RemoteTask) -> None:
        await self._travel()
        task = self.tasks[known.id]
        if not task.is_lost:
            self._advance(task)
        if task.state not in TERMINAL:
            task.state = "canceled"

    async def _look(self, known: RemoteTask, item: RemoteItem) -> str | None:
        await self._travel()
        task = self._read(known)
        if not task.job.tells:
            return None
        if task.job.errs and not self.refused[task.id, item.name]:
            self.denied.add((task.id, item.name))
            return "the agent no longer waits for the answer"
        if task.state in TERMINAL:
            return f"the agent's task is {task.state}"
        if task.state == "input-required" and item.name not in {each.name for each in task.items()}:
            return "the agent no longer waits for the answer"
        return None

    # --------------------------------------------------------------- what it does

    def _read(self, known: RemoteTask) -> RemoteWork:
        task = self.tasks[known.id]
        if task.is_lost:
            self.asked_in_vain[task.id] += 1
            if self.asked_in_vain[task.id] > MOST_IN_VAIN:
                self.here.wrongs.append(f"{task.id} was asked about for ever")
                task.state = "completed"
                return task
            raise ToolOutcomeUnknown("it no longer knows the task")
        self._advance(task)
        return task

    def _advance(self, task: RemoteWork) -> None:
        """Do what the agent has done meanwhile by itself."""
        now = self.here.wall()
        while True:
            due = [name for name in task.open if name in task.job.elsewhere]
            if task.state == "working" and now >= task.until:
                self._stop_working(task)
            elif task.state == "input-required" and due and now >= _time_elsewhere(task, due[0]):
                label, yes = task.item(due[0]).arguments["name"], task.job.elsewhere[due[0]]
                self._decide(task, due[0], yes, label, _time_elsewhere(task, due[0]))
            else:
                return

    def _stop_working(self, task: RemoteWork) -> None:
        if not task.authorized:
            task.state = "auth-required"
        elif task.round < len(task.job.rounds):
            task.state = "input-required"
            task.open = dict.fromkeys(task.job.rounds[task.round], task.until)
        else:
            task.state = "completed"

    def _decide(self, task: RemoteWork, name: str, yes: bool, label: str, at: float) -> None:
        del task.open[name]
        if yes:
            self.here.note("wipe", label)
        else:
            task.rejected = True
        if not task.open:
            task.round += 1
            self._work_on(task, at)

    def _work_on(self, task: RemoteWork, at: float) -> None:
        task.state, task.until = "working", at + task.job.seconds

    async def _rest(self, task: RemoteWork) -> None:
        while True:
            self._stop_if_dead()
            self._advance(task)
            if task.state != "working":
                return
            await trio.sleep(min(POLL_SECONDS, max(TRAVEL_SECONDS, task.until - self.here.wall())))

    def _outcome(self, task: RemoteWork, refusals: Mapping[str, str]) -> Delegated:
        match task.state:
            case "input-required":
                raise RemoteInputRequired(tuple(task.items()), refusals)
            case "auth-required":
                raise ToolAuthRequired("the agent needs a bearer token", status=401)
            case "completed":
                rejected = task.rejected and task.job.says_rejected
                return Delegated(ToolResult(f"{TOOL} {task.text} is done"), rejected)
            case _:
                return Delegated(ToolResult(f"the agent's task is {task.state}", is_error=True))

    async def _travel(self) -> None:
        await trio.sleep(TRAVEL_SECONDS)
        self._stop_if_dead()

    def _stop_if_dead(self) -> None:
        if not self.here.alive:
            raise Killed


def _time_elsewhere(task: RemoteWork, name: str) -> float:
    return task.open[name] + task.job.elsewhere_after
