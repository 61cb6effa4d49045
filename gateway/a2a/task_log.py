"""The fold of a conversation's events to its A2A tasks. Pure.

A conversation is a context. Each run belongs to a task: the one that `run.started` names, else the first
task, whose id is that of the conversation. A task's newest run determines its state:

| event | state of the task | also sent |
|---|---|---|
| message in the inbox, no run of the task yet | submitted | |
| `run.started` | working | |
| reply with text and tool calls; `approval.requested` | working | a status message with the text |
| tool result with files or data; scripted artifact | | an artifact |
| `run.waiting`; a vote or a new question then | input-required | all pending questions in one message |
| decision in the inbox, `run.resumed` | working | the questions that are still pending |
| `run.auth_required` | auth-required | the server that needs the token |
| `run.finished` | completed, or the state that a script dictates | the answer as an artifact |
| `run.failed`, `run.cancelled` | failed, canceled | the sentence |
| `conversation.completed` | canceled, if the task was interrupted | |

After an accepted decision no task says `input-required` until its run waits again: clients stop at that
state, or ask once more.

`apply` returns the updates of one event; `queue` adds the commands that are still in the inbox. A stream of a
task is the state after one event, followed by the updates of the later events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import Any, assert_never

import attrs

from ...actors.a2a.wire.a2a_headers import HITL
from ...actors.a2a.wire.task import (
    INTERRUPTED,
    Artifact,
    ArtifactUpdate,
    Data,
    Message,
    Part,
    State,
    Status,
    StatusUpdate,
    Task,
    Text,
    Update,
)
from ...actors.approvals.asked import Asked
from ...actors.approvals.proxy_approval import ProxyQuestion
from ...actors.approvals.voting import shown_after
from ...actors.conversation.result import finished
from ...actors.log.fold.head import Head, advance
from ...actors.log.fold.state import answer_of
from ...actors.log.words import events as e
from ...actors.log.words.inbox import Create, Decide, Received, Resume, Say
from ...actors.log.words.outcomes import Replied
from ...actors.models.messages.a2a_end import A2AEnd
from . import artifact_parts
from .hitl import request_of
from .task_answer import form_of_words

ANSWER = "answer"
"""The name of the artifact with the final answer."""


@attrs.define(eq=False)
class _Task:
    id: str
    run: str = ""
    status: Status = attrs.field(factory=lambda: Status("submitted"))
    artifacts: dict[str, Artifact] = attrs.field(factory=dict)
    history: list[Message] = attrs.field(factory=list)
    rejected: bool = False
    end: A2AEnd | None = None
    """The end of the live run that a script dictates."""


@attrs.define(eq=False)
class TaskLog:
    context: str
    """The id of the conversation."""
    hitl: bool = False
    """Also express questions in the extension `HITL`."""
    shown_context: str = attrs.field(default=attrs.Factory(lambda self: self.context, takes_self=True))
    """The id that clients have for the context: that of the conversation, unless its client has chosen
    another one."""
    last_seq: int = 0
    """The seq of the last applied event."""
    asked: dict[str, Asked[Any]] = attrs.field(factory=dict)
    """All questions of the conversation, by id."""
    decided: dict[str, list[Asked[Any]]] = attrs.field(factory=dict)
    """Decided questions by the key of the message with the decision."""
    voted: dict[str, set[str]] = attrs.field(factory=dict)
    """Approvals by the key of the message with a vote for them."""
    answered: dict[str, str] = attrs.field(factory=dict)
    """Task ids by the key of the message with a decision about their questions."""
    commands: dict[str, str] = attrs.field(factory=dict)
    """Task ids by the key of the command that started, or will start, a run of the task."""
    resumed: set[str] = attrs.field(factory=set)
    """The keys of the commands that resumed a run with a token."""
    _tasks: dict[str, _Task] = attrs.field(factory=dict)
    """By id, oldest first."""
    _current: _Task | None = None
    """The task of the live run."""
    _pending: dict[str, Asked[Any]] = attrs.field(factory=dict)
    _queued: set[str] = attrs.field(factory=set)
    """The keys of the commands in the inbox."""
    _accepted: set[str] = attrs.field(factory=set)
    """The pending questions whose decisions are in the inbox."""
    _head: Head = attrs.field(factory=Head)
    _user_text: str = ""
    """The last message of the user."""

    def apply(self, entry: e.Entry) -> Sequence[Update]:
        """Apply the next event and return the updates for clients."""
        self.last_seq = entry.seq
        if entry.event is None:
            return ()
        self._head = advance(self._head, entry.event)
        return tuple(self._updates(entry, entry.event))

    def queue(self, received: Received) -> None:
        """Apply a command that is still in the inbox. Call it after all events."""
        match received.command:
            case Create(message=str(text), message_id=message_id):
                task = None
            case Say(message=text, task=task, message_id=message_id):
                pass
            case Decide(question=question) if question in self._pending:
                self._accepted.add(question)
                self.answered[received.key.partition(":")[0]] = self._live.id
                self._go_on(received.at)
                return
            case Resume():
                self._go_on(received.at)
                return
            case _:
                return
        if received.key in self.commands:  # its run has started since
            return
        id = self.commands[received.key] = task or self.context
        self._queued.add(received.key)
        if not self.is_live(id):
            self.submit(id, text, message_id or received.key, received.at)

    def _go_on(self, at: float) -> None:
        """The live run is about to be resumed by a command in the inbox."""
        if self._current is not None and self._current.status.state in INTERRUPTED:
            self._current.status = Status("working", at, self._still_asked(f"{self.last_seq}"))

    def submit(self, id: str, text: str, message_id: str, at: float | None = None) -> None:
        """Begin a task whose message is in the inbox, or continue a task whose run has ended."""
        task = self._tasks.setdefault(id, _Task(id))
        task.status, task.end = Status("submitted", at), None
        self._add_message(id, text, message_id)

    @property
    def session_id(self) -> str:
        return self._head.session_id

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all tasks, oldest first."""
        return tuple(self._tasks)

    def task(self, id: str) -> Task | None:
        found = self._tasks.get(id)
        if found is None:
            return None
        return Task(
            id=id,
            context=self.shown_context,
            status=found.status,
            artifacts=tuple(found.artifacts.values()),
            history=tuple(found.history),
            metadata=_metadata(found),
        )

    def message(self, id: str) -> Message | None:
        """The answer in place of a task, if a script dictates a message."""
        found = self._tasks[id]
        if found.end is None or found.end.state != "message":
            return None
        return found.status.message

    @property
    def pending(self) -> Sequence[Asked[Any]]:
        """The open questions without an accepted decision, oldest first."""
        return tuple(asked for id, asked in self._pending.items() if id not in self._accepted)

    @property
    def waiting(self) -> str | None:
        """The id of the task with open questions."""
        return self._current.id if self._current is not None and self.pending else None

    def has_taken(self, key: str, decided: Set[str] = frozenset()) -> bool:
        """Whether the message with this key has been removed from the inbox, and none of the approvals that
        it decides is still pending without its vote; each decision is a separate command."""
        begun = key in self.commands and key not in self._queued
        voted = self.voted.get(key, set())
        taken = begun or key in self.decided or key in self.resumed or bool(voted)
        return taken and (decided - voted).isdisjoint(self._pending)

    def is_live(self, id: str) -> bool:
        """Whether a run of the task has begun and has not ended."""
        return self.live_run(id) is not None

    def live_run(self, id: str) -> str | None:
        """The id of the run for which the task `is_live`."""
        return self._current.run if self._current is not None and self._current.id == id else None

    # ------------------------------------------------------------------ the fold

    def _updates(self, entry: e.Entry, event: e.LogEvent) -> Iterator[Update]:
        match event:
            case e.ConversationCreated(context=str(context)):
                self.shown_context = context
            case e.MessageAdded(text=text):
                self._user_text = text
            case e.StepFinished(outcome=Replied() as reply, key=key):
                yield from self._replied(entry, key, reply)
            case e.ToolFinished(need=None):
                yield from self._results(event)
            case (
                e.ApprovalRequested()
                | e.ApprovalVoted()
                | e.ApprovalResolved()
                | e.ApprovalExpired()
                | e.ApprovalVoid()
            ):
                yield from self._approval(entry, event)
            case e.RunStarted() | e.RunWaiting() | e.RunAuthRequired() | e.RunResumed():
                yield self._moved(entry, event)
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                yield from self._ended(entry, event)
            case e.ConversationCompleted():
                yield from self._closed(entry)
            case (
                e.ConversationCreated()
                | e.StateSet()
                | e.StepFinished()
                | e.BatchFinished()
                | e.ToolStarted()
                | e.ToolAccepted()
                | e.ToolFinished()
                | e.ToolUnknown()
            ):
                return
            case _:
                assert_never(event)

    def _begin(self, entry: e.Entry, event: e.RunStarted) -> Update:
        id = self.commands[event.command] = event.task or self.context
        continued = id in self._tasks
        self._current = task = self._tasks.setdefault(id, _Task(id))
        task.run, task.end, task.rejected = event.run, None, False
        self._pending.clear()
        self._add_message(id, self._user_text, event.message_id or event.command)
        update = self._status(entry, "working")
        return attrs.evolve(update, metadata={"continued": True}) if continued else update

    def _add_message(self, task: str, text: str, id: str) -> None:
        message = Message(id=id, role="user", parts=(Text(text),), task=task, context=self.shown_context)
        self._tasks[task].history.append(message)

    def _replied(self, entry: e.Entry, key: str, reply: Replied) -> Iterator[Update]:
        if reply.a2a is not None:
            self._live.end = reply.a2a
            yield from self._scripted(key, reply.a2a)
        if reply.text and reply.tool_calls:
            yield self._status(entry, "working", self._message(key, Text(reply.text)))

    def _scripted(self, key: str, end: A2AEnd) -> Iterator[Update]:
        if end.artifact is None:
            return
        chunks = artifact_parts.of_script(end.artifact)
        artifact = Artifact(id=f"{self._live.run}:{key}", parts=chunks)
        self._live.artifacts[artifact.id] = artifact
        for number, chunk in enumerate(chunks, 1):
            yield ArtifactUpdate(
                task=self._live.id,
                context=self.shown_context,
                artifact=attrs.evolve(artifact, parts=(chunk,)),
                append=number > 1,
                last=number == len(chunks),
            )

    def _approval(self, entry: e.Entry, event: e.ApprovalEvent) -> Iterator[Update]:
        match event:
            case e.ApprovalRequested(asked=asked):
                self.asked[asked.id] = self._pending[asked.id] = asked
                # Other branches continue; the state is "input-required" only when the whole run waits.
                if self._live.status.state == "input-required":
                    yield self._status(entry, "input-required", self._question(f"{entry.seq}"))
                    return
                parts = (Text(asked.waits), Data({"pending": [item_of(asked)]}))
                yield self._status(entry, "working", self._message(asked.id, *parts))
            case e.ApprovalVoted(id=id, command=command, decision=decision):
                self.voted.setdefault(command.partition(":")[0], set()).add(id)
                self.answered[command.partition(":")[0]] = self._live.id
                self.asked[id] = self._pending[id] = shown_after(self.asked[id], decision)
                if self._live.status.state == "input-required":
                    yield self._status(entry, "input-required", self._question(f"{entry.seq}"))
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                del self._pending[event.id]  # `run.resumed` follows in the same commit if the run waits
                if isinstance(event, e.ApprovalResolved):
                    key = event.command.partition(":")[0]
                    self.decided.setdefault(key, []).append(self.asked[event.id])
                    self.answered[key] = self._live.id
            case _:
                assert_never(event)

    def _moved(self, entry: e.Entry, event: e.RunStarted | e.RunPause | e.RunResumed) -> Update:
        match event:
            case e.RunStarted():
                return self._begin(entry, event)
            case e.RunWaiting():
                return self._status(entry, "input-required", self._question(f"{entry.seq}"))
            case e.RunAuthRequired(wanted=wanted):
                sentence = f"{wanted.label} needs a bearer token. Send a message with one."
                message = self._message(f"{entry.seq}", Text(sentence), Data({"auth": wanted.to_json()}))
                return self._status(entry, "auth-required", message)
            case e.RunResumed(command=command):
                self.resumed.add(command)
                return self._status(entry, "working", self._still_asked(f"{entry.seq}"))
            case _:
                assert_never(event)

    def _still_asked(self, id: str) -> Message | None:
        return self._question(id) if self.pending else None

    def _question(self, id: str) -> Message:
        """All pending questions."""
        sentences = "\n\n".join(asked.waits for asked in self.pending)
        data = {"pending": [item_of(asked) for asked in self.pending]}
        request = request_of(self.pending, sentences) if self.hitl else None
        text = sentences if self.hitl else f"{sentences}\n\n{form_of_words(self.pending)}"
        message = self._message(id, Text(text), Data(data))
        if request is None:
            return message
        return attrs.evolve(message, extensions=(HITL,), metadata={HITL: request})

    def _results(self, event: e.ToolFinished) -> Iterator[Update]:
        """The files and the data of a tool result, as an artifact."""
        if parts := artifact_parts.of_result(event.result):
            yield self._artifact(Artifact(id=f"{self._live.run}:{event.key}", parts=parts))

    def _ended(self, entry: e.Entry, event: e.RunEnd) -> Iterator[Update]:
        task, run = self._live, self._head.run
        assert run is not None
        match event:
            case e.RunFinished(text=text):
                task.rejected = run.rejected
                yield from self._finished(entry, finished(run, text).response)
            case e.RunFailed():
                yield self._status(entry, "failed", self._message(f"{entry.seq}", Text(answer_of(event))))
            case e.RunCancelled():
                yield self._status(entry, "canceled", self._message(f"{entry.seq}", Text(answer_of(event))))
            case _:
                assert_never(event)
        self._current = None

    def _finished(self, entry: e.Entry, answer: str) -> Iterator[Update]:
        end = self._live.end
        if end is not None:
            state: State = "completed" if end.state == "message" else end.state
            message = self._message(f"{entry.seq}", Text(answer)) if answer else None
            yield self._status(entry, state, message)
            return
        if answer:
            artifact = Artifact(id=f"{self._live.run}:{ANSWER}", name=ANSWER, parts=(Text(answer),))
            yield self._artifact(artifact)
        yield self._status(entry, "completed")

    def _closed(self, entry: e.Entry) -> Iterator[Update]:
        """Cancel the interrupted tasks, because no further message can reach them."""
        for task in self._tasks.values():
            if task.status.state in INTERRUPTED:
                task.status = Status("canceled", entry.at)
                yield StatusUpdate(task=task.id, context=self.shown_context, status=task.status)

    @property
    def _live(self) -> _Task:
        if self._current is None:
            raise LookupError("an event of a run outside a run")
        return self._current

    def _status(self, entry: e.Entry, state: State, message: Message | None = None) -> StatusUpdate:
        task = self._live
        task.status = Status(state, entry.at, message)
        return StatusUpdate(
            task=task.id, context=self.shown_context, status=task.status, metadata=_metadata(task)
        )

    def _artifact(self, artifact: Artifact) -> ArtifactUpdate:
        task = self._live
        task.artifacts[artifact.id] = artifact
        return ArtifactUpdate(task=task.id, context=self.shown_context, artifact=artifact)

    def _message(self, id: str, *parts: Part) -> Message:
        return Message(
            id=f"{self._live.run}:{id}",
            role="agent",
            parts=parts,
            task=self._live.id,
            context=self.shown_context,
        )


def _metadata(task: _Task) -> dict[str, bool] | None:
    return {"rejected": True} if task.rejected and task.status.state == "completed" else None


def item_of(asked: Asked[Any]) -> dict[str, Any]:
    """A pending question as data, for programs."""
    proxy = asked if isinstance(asked, ProxyQuestion) else None
    item = {
        "id": asked.id,
        "kind": (proxy.remote_kind if proxy else "") or asked.kind,
        "tool": asked.tool_name,
        "arguments": asked.tool_args,
        "server": asked.server,
        "path": list(proxy.agents) if proxy else [],
        "description": (proxy.remote_description if proxy else "") or asked.description,
        "answer": asked.original.example(),
        "input_schema": getattr(asked, "input_schema", None),
        "hash": None if asked.requires is None else asked.hash,
    }
    return {name: value for name, value in item.items() if value is not None}
