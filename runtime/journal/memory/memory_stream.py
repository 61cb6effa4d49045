"""A stream of the journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, assert_never

import attrs

from ..errors import IntentExists, JournalError, QuestionTaken
from ..protocol import (
    REFUSAL_SECONDS,
    Command,
    Event,
    Json,
    KeyReused,
    NewIntent,
    Repeated,
    SettleIntent,
    StreamMark,
)
from ..question import CloseQuestion, NewQuestion, Question
from ..stream_extract import Extract
from ..summary import Row, Summary

_UNWRITTEN = Summary(status="", title="", open=False, body={})


@attrs.frozen
class Intent:
    key: str
    attempt: int
    effect: str
    state: Literal["started", "finished", "unknown", "cancelled"]
    body: Json


@attrs.frozen
class StoredCommand:
    command: Command
    state: Literal["open", "closed", "refused"] = "open"
    reply: Json | None = None
    """The reply, or the refusal."""
    refused: float = 0.0
    """The time of the refusal."""


@attrs.define
class MemoryStream:
    name: str
    number: int
    created: float
    updated: float
    summary: Summary = _UNWRITTEN
    epoch: int = 0
    """Of the latest save."""
    demands: int = 0
    """The lowest version of a member that may own the stream."""
    events: list[Event] = attrs.field(factory=list)
    inbox: dict[str, StoredCommand] = attrs.field(factory=dict)
    questions: dict[str, Question] = attrs.field(factory=dict)
    intents: dict[tuple[str, int], Intent] = attrs.field(factory=dict)
    extract: Extract | None = None

    def copy(self) -> MemoryStream:
        return attrs.evolve(
            self,
            events=list(self.events),
            inbox=dict(self.inbox),
            questions=dict(self.questions),
            intents=dict(self.intents),
        )

    def row(self) -> Row:
        return Row(self.name, self.summary, len(self.events), self.created, self.updated)

    def mark(self) -> StreamMark:
        waiting = self.waiting()
        return StreamMark(self.created, len(self.events), waiting[-1].key if waiting else None)

    def waiting(self) -> list[Command]:
        return [each.command for each in self.inbox.values() if each.state == "open"]

    @property
    def starts(self) -> bool:
        """Whether the first command in the inbox is about to be executed."""
        return bool(self.events) and not (self.summary.open or self.summary.rests)

    def known(self, key: str, is_same: Callable[[Command], bool]) -> Repeated | KeyReused | None:
        first = self.inbox.get(key)
        if first is None or first.state == "refused":
            return None
        return Repeated(first.reply) if is_same(first.command) else KeyReused()

    def put(self, command: Command) -> None:
        self.inbox.pop(command.key, None)  # a refused command: the new one is the last in the inbox
        self.inbox[command.key] = StoredCommand(command)

    def close(
        self, ack: Sequence[str], replies: Mapping[str, Json], refuse: Mapping[str, Json], at: float
    ) -> None:
        for key in set(ack) & self.inbox.keys():
            self.inbox[key] = attrs.evolve(self.inbox[key], state="closed")
        for key in replies.keys() & self.inbox.keys():
            if self.inbox[key].reply is None:
                self.inbox[key] = attrs.evolve(self.inbox[key], reply=replies[key])
        for key, each in list(self.inbox.items()):
            if key in refuse:
                self.inbox[key] = attrs.evolve(each, state="refused", reply=refuse[key], refused=at)
            elif refuse and each.state == "refused" and each.refused < at - REFUSAL_SECONDS:
                del self.inbox[key]

    def intend(self, intents: Sequence[NewIntent], settle: Sequence[SettleIntent]) -> None:
        for new in intents:
            place = (new.key, new.attempt)
            if place in self.intents:
                raise IntentExists(f"attempt {new.attempt} of {new.key!r} has already begun")
            self.intents[place] = Intent(new.key, new.attempt, new.effect, "started", new.body)
        for end in settle:
            place = (end.key, end.attempt)
            if place not in self.intents:
                raise JournalError(f"attempt {end.attempt} of {end.key!r} has not begun")
            self.intents[place] = attrs.evolve(self.intents[place], state=end.state)

    def ask(self, change: NewQuestion | CloseQuestion, at: float) -> None:
        match change:
            case NewQuestion(id=id, kind=kind, body=body, expires=expires):
                if id in self.questions:
                    raise JournalError(f"question {id!r} already exists")
                self.questions[id] = Question(
                    id, self.name, kind, "pending", body, None, created=at, expires=expires, settled=None
                )
            case CloseQuestion(id=id, state=state, patch=patch):
                asked = self.questions.get(id)
                if asked is not None and asked.state == "decided":
                    raise QuestionTaken(f"question {id!r} was decided")
                if asked is None or asked.state != "pending":
                    raise JournalError(f"question {id!r} is not pending in stream {self.name!r}")
                self.questions[id] = attrs.evolve(
                    asked, state=state, body={**asked.body, **patch}, settled=at
                )
            case _:
                assert_never(change)
