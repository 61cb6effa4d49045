"""The tasks of one conversation, folded from its events. Pure.

A conversation is a context. Each of its runs belongs to a task: the one that `run.started` names, else the
first, which has the id of the conversation. The newest run of a task decides its state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, assert_never

import attrs

from ...actors.approvals.asked import Asked
from ...actors.conversation.result import finished
from ...actors.log import events as e
from ...actors.log.head import Head, advance
from ...actors.log.outcomes import Replied
from ...actors.log.state import answer_of
from .result_parts import parts_of
from .task import (
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


@attrs.define(eq=False)
class TaskLog:
    context: str
    _tasks: dict[str, _Task] = attrs.field(factory=dict)
    """By id, oldest first."""
    _current: _Task | None = None
    """That of the live run."""
    _pending: dict[str, Asked[Any]] = attrs.field(factory=dict)
    _head: Head = attrs.field(factory=Head)
    _said: Message | None = None
    """The last message of the user."""

    def apply(self, entry: e.Entry) -> Sequence[Update]:
        """Advance by the next event; the updates that it means for clients."""
        if entry.event is None:
            return ()
        self._head = advance(self._head, entry.event)
        return tuple(self._updates(entry, entry.event))

    @property
    def ids(self) -> Sequence[str]:
        """Of all tasks, oldest first."""
        return tuple(self._tasks)

    def task(self, id: str) -> Task | None:
        found = self._tasks.get(id)
        if found is None:
            return None
        return Task(
            id=id,
            context=self.context,
            status=found.status,
            artifacts=tuple(found.artifacts.values()),
            history=tuple(found.history),
            metadata={"rejected": True} if found.rejected else None,
        )

    @property
    def pending(self) -> Sequence[Asked[Any]]:
        """The open questions, oldest first."""
        return tuple(self._pending.values())

    def is_live(self, id: str) -> bool:
        """Whether a run of the task has begun and has not ended."""
        return self._current is not None and self._current.id == id

    # ------------------------------------------------------------------ the fold

    def _updates(self, entry: e.Entry, event: e.LogEvent) -> Iterator[Update]:
        match event:
            case e.MessageAdded(text=text, command=command):
                self._said = Message(id=command, role="user", parts=(Text(text),), context=self.context)
            case e.RunStarted():
                yield self._begin(entry, event)
            case e.StepFinished(outcome=Replied(text=text, tool_calls=calls), key=key) if text and calls:
                yield self._status(entry, "working", self._message(f"{key}", Text(text)))
            case e.ToolFinished(need=None):
                yield from self._results(event)
            case e.ApprovalRequested() | e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                yield from self._approval(entry, event)
            case e.RunWaiting() | e.RunAuthRequired() | e.RunResumed():
                yield self._paused(entry, event)
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                yield from self._ended(entry, event)
            case (
                e.ConversationCreated()
                | e.ConversationCompleted()
                | e.StateSet()
                | e.StepFinished()
                | e.BatchFinished()
                | e.ToolStarted()
                | e.ToolFinished()
                | e.ToolUnknown()
            ):
                return
            case _:
                assert_never(event)

    def _begin(self, entry: e.Entry, event: e.RunStarted) -> Update:
        id = event.task or self.context
        self._current = task = self._tasks.setdefault(id, _Task(id))
        task.run = event.run
        self._pending.clear()
        if self._said is not None:
            task.history.append(attrs.evolve(self._said, task=id))
        return self._status(entry, "working")

    def _approval(self, entry: e.Entry, event: e.ApprovalEvent) -> Iterator[Update]:
        if isinstance(event, e.ApprovalRequested):
            asked = self._pending[event.asked.id] = event.asked
            # Other branches go on: the state says "input-required" only when the whole run waits.
            parts = (Text(asked.waits), Data({"pending": [item_of(asked)]}))
            yield self._status(entry, "working", self._message(asked.id, *parts))
        else:
            self._pending.pop(event.id, None)

    def _paused(self, entry: e.Entry, event: e.RunPause | e.RunResumed) -> Update:
        match event:
            case e.RunWaiting():
                sentences = "\n\n".join(asked.waits for asked in self.pending)
                data = {"pending": [item_of(asked) for asked in self.pending]}
                message = self._message(f"{entry.seq}", Text(sentences), Data(data))
                return self._status(entry, "input-required", message)
            case e.RunAuthRequired(wanted=wanted):
                sentence = f'Tool server "{wanted.server}" needs a bearer token. Send a message with one.'
                message = self._message(f"{entry.seq}", Text(sentence), Data({"auth": wanted.to_json()}))
                return self._status(entry, "auth-required", message)
            case e.RunResumed():
                return self._status(entry, "working")
            case _:
                assert_never(event)

    def _results(self, event: e.ToolFinished) -> Iterator[Update]:
        """The files and the data that a tool gave, as an artifact."""
        if parts := parts_of(event.result):
            yield self._artifact(Artifact(id=f"{self._live.run}:{event.key}", parts=parts))

    def _ended(self, entry: e.Entry, event: e.RunEnd) -> Iterator[Update]:
        task, run = self._live, self._head.run
        assert run is not None
        match event:
            case e.RunFinished(text=text):
                task.rejected = run.rejected
                answer = finished(run, text).response
                if answer:
                    yield self._artifact(
                        Artifact(id=f"{task.run}:answer", name=ANSWER, parts=(Text(answer),))
                    )
                yield self._status(entry, "completed")
            case e.RunFailed():
                yield self._status(entry, "failed", self._message(f"{entry.seq}", Text(answer_of(event))))
            case e.RunCancelled():
                yield self._status(entry, "canceled", self._message(f"{entry.seq}", Text(answer_of(event))))
            case _:
                assert_never(event)
        self._current = None

    @property
    def _live(self) -> _Task:
        if self._current is None:
            raise LookupError("an event of a run outside a run")
        return self._current

    def _status(self, entry: e.Entry, state: State, message: Message | None = None) -> StatusUpdate:
        task = self._live
        task.status = Status(state, entry.at, message)
        metadata = {"rejected": True} if task.rejected and state == "completed" else None
        return StatusUpdate(task=task.id, context=self.context, status=task.status, metadata=metadata)

    def _artifact(self, artifact: Artifact) -> ArtifactUpdate:
        task = self._live
        task.artifacts[artifact.id] = artifact
        return ArtifactUpdate(task=task.id, context=self.context, artifact=artifact)

    def _message(self, id: str, *parts: Part) -> Message:
        return Message(
            id=f"{self._live.run}:{id}", role="agent", parts=parts, task=self._live.id, context=self.context
        )


def item_of(asked: Asked[Any]) -> dict[str, Any]:
    """A pending question, for a program that answers it."""
    item = {
        "id": asked.id,
        "kind": asked.kind,
        "tool": asked.tool_name,
        "arguments": asked.tool_args,
        "server": asked.server,
        "path": [asked.node],
        "description": asked.description,
        "answer": asked.example(),
    }
    return {name: value for name, value in item.items() if value is not None}
