"""What the answers and streams of an agent say about a task, for the case that the task cannot be read. Pure.

Some agents keep no tasks, keep them in the memory of one of several processes, or have no method to read one.
An answer that they have sent counts nevertheless:

    ========================================  =========================================================
    what has arrived                          what it is
    ========================================  =========================================================
    a task, or a status update, at rest       the task, with the artifacts that have arrived
    a message as the last item of a stream    a completed task, but only if the task cannot be read: the
                                              agent may say it is busy, and go on
    anything else                             nothing: the outcome is not known
    ========================================  =========================================================

Sources: the specification, version 1.0.1, sections 3.1.1 and 3.1.2 (the response is the task, and a stream
ends with its final state), 4.1.3 (a final state does not change) and 4.2.2 (`append`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import assert_never

import attrs

from ..tools.delegation import RemoteTask
from .remote_state import MOST_PARTS, is_thought, size_of
from .wire.task import (
    INTERRUPTED,
    TERMINAL,
    Artifact,
    ArtifactUpdate,
    Message,
    Part,
    Status,
    StatusUpdate,
    StreamItem,
    Task,
    Text,
)


@attrs.define(eq=False)
class _Pieces:
    """The parts of an artifact, as they have arrived."""

    artifact: Artifact
    parts: list[Part] = attrs.field(factory=list)
    in_pieces: bool = False
    """Whether a text was appended to a text: agents stream a text in pieces."""


@attrs.define(eq=False)
class Arrived:
    """The fold of the items that follow one message. Parts over the limits are not kept, because the result
    of a call is cut there anyway."""

    _most: int
    """Maximum bytes of the parts. The part that exceeds it is kept, so that the result says it was cut."""
    _task: Task | None = None
    """The last whole task."""
    _status: Status | None = None
    _artifacts: dict[str, _Pieces] = attrs.field(factory=dict)
    _last_word: Message | None = None
    """The message that is the last item so far."""
    _size: int = 0
    _parts: int = 0

    def take(self, item: StreamItem) -> None:
        self._last_word = None
        match item:
            case Task(status=status):
                self._task = item
                self._change(status)
                for artifact in item.artifacts:
                    self._add(artifact, append=False)
            case StatusUpdate(status=status):
                self._change(status)
            case ArtifactUpdate(artifact=artifact, append=append):
                self._add(artifact, append=append)
            case Message():
                self._last_word = item
            case _:
                assert_never(item)

    def at_rest(self, task: RemoteTask) -> Task | None:
        """The task, if a final or an interrupted state of it has arrived."""
        if self._status is None or self._status.state not in TERMINAL | INTERRUPTED:
            return None
        return self._with(task, self._status)

    def instead_of_read(self, task: RemoteTask) -> Task | None:
        """The task if it cannot be read; None: no answer has arrived."""
        found = self.at_rest(task)
        if found is None and self._last_word is not None:
            return self._with(task, Status("completed", message=self._last_word))
        return found

    def complete(self, read: Task) -> Task:
        """The task that was read, with the artifacts that the agent has sent but does not keep. A text that
        arrived in pieces is one text there, too: the stores of agents keep each piece as a part."""
        read = attrs.evolve(read, artifacts=tuple(map(self._whole, read.artifacts)))
        mine = self.at_rest(RemoteTask(read.id, read.context))
        state = read.status.state
        if mine is None or mine.status.state != state or state not in TERMINAL or read.artifacts:
            return read
        status = read.status if read.status.message is not None else mine.status
        return attrs.evolve(read, status=status, artifacts=mine.artifacts)

    def _change(self, status: Status) -> None:
        if self._status is None or self._status.state not in TERMINAL:  # a final state does not change
            self._status = status

    def _with(self, task: RemoteTask, status: Status) -> Task:
        whole = self._task or Task(id=task.id, context=task.context, status=status)
        artifacts = [
            attrs.evolve(each.artifact, parts=tuple(each.parts)) for each in self._artifacts.values()
        ]
        return attrs.evolve(whole, status=status, artifacts=tuple(map(self._whole, artifacts)))

    def _whole(self, artifact: Artifact) -> Artifact:
        pieces = self._artifacts.get(artifact.id)
        if pieces is None or not pieces.in_pieces:
            return artifact
        return attrs.evolve(artifact, parts=_joined(artifact.parts))

    def _add(self, artifact: Artifact, *, append: bool) -> None:
        pieces = self._artifacts.get(artifact.id)
        if pieces is None or not append:
            if pieces is None and len(self._artifacts) >= MOST_PARTS:
                return
            pieces = self._artifacts[artifact.id] = _Pieces(artifact)
        for part in artifact.parts:
            if self._size > self._most or self._parts > MOST_PARTS:
                return
            if append and isinstance(part, Text) and pieces.parts and _continues(pieces.parts[-1], part):
                pieces.in_pieces = True
                self._size += len(json.dumps(part.text))
            else:
                self._size += size_of(part)
                self._parts += 1
            pieces.parts.append(part)


def _continues(last: Part, part: Text) -> bool:
    def kind(each: Text) -> tuple[object, ...]:
        return each.filename, each.media_type, is_thought(each)

    return isinstance(last, Text) and kind(last) == kind(part)


def _joined(parts: Sequence[Part]) -> tuple[Part, ...]:
    """The parts, with one part for each row of texts."""
    rows: list[list[Part]] = []
    for part in parts:
        if isinstance(part, Text) and rows and _continues(rows[-1][-1], part):
            rows[-1].append(part)
        else:
            rows.append([part])
    return tuple(map(_one, rows))


def _one(row: Sequence[Part]) -> Part:
    first = row[0]
    if not isinstance(first, Text):
        return first
    return attrs.evolve(first, text="".join(each.text for each in row if isinstance(each, Text)))
