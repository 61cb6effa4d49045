"""A stream of the journal in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, assert_never

import attrs

from .errors import IntentExists, JournalError, QuestionTaken
from .protocol import Command, Event, Fence, Json, KeyReused, NewIntent, Repeated, Row, SettleIntent, Summary
from .question import CloseQuestion, NewQuestion, Question

_UNWRITTEN = Summary(status="", title="", open=False, body={})


@attrs.frozen
class Intent:
    key: str
    attempt: int
    effect: str
    state: Literal["started", "finished", "unknown", "cancelled"]
    body: Json


@attrs.frozen
class Delivered:
    command: Command
    open: bool = True
    reply: Json | None = None


@attrs.define
class Stream:
    name: str
    number: int
    created: float
    updated: float
    summary: Summary = _UNWRITTEN
    fence: Fence | None = None
    events: list[Event] = attrs.field(factory=list)
    inbox: dict[str, Delivered] = attrs.field(factory=dict)
    questions: dict[str, Question] = attrs.field(factory=dict)
    intents: dict[tuple[str, int], Intent] = attrs.field(factory=dict)

    def copy(self) -> Stream:
        return attrs.evolve(
            self,
            events=list(self.events),
            inbox=dict(self.inbox),
            questions=dict(self.questions),
            intents=dict(self.intents),
        )

    def row(self) -> Row:
        return Row(self.name, self.summary, len(self.events), self.created, self.updated)

    def waiting(self) -> list[Command]:
        return [each.command for each in self.inbox.values() if each.open]

    def known(self, key: str, is_same: Callable[[Command], bool]) -> Repeated | KeyReused | None:
        if key not in self.inbox:
            return None
        first = self.inbox[key]
        return Repeated(first.reply) if is_same(first.command) else KeyReused()

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
