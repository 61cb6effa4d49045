"""The recorded calls of a journal, with the first verdict on each and what a person decided. Pure.

A call is in several events; `docs/architecture.md` has the table. Its facts are those of the first event that
has any, because later ones depend on the decision in between:

    =========================================  ==============================================================
    the call                                   has its arguments in
    =========================================  ==============================================================
    asked                                      ``approval.requested``
    ran unasked                                ``tool.started``
    was not sent                               the facts; else the reply of the model, in which a server
                                               facade has them inside
    =========================================  ==============================================================

Bodies of other steps than calls are parsed only when a call needs them.

What cannot be read is counted and named, and never makes a call look harmless: if an event of a turn cannot
be read, or a call went on although no decision about it is on record, then what people decided is
``unknown``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs
import trio

from ...runtime.journal.passage import JournalReader, PassagePlace, StoredEvent, WantedEvents
from ...runtime.journal.rows import object_of
from ..approvals.requirement import Requirement
from ..common.stored_json import exactly, from_json
from ..log.words import keys
from ..log.words.events import TYPES as ALL_TYPES
from ..tools.facade import Malformed, unwrap
from ..tools.verdict_facts import UnsentCall, VerdictFacts

TYPES = (
    "approval.expired",
    "approval.requested",
    "approval.resolved",
    "approval.void",
    "step.finished",
    "tool.started",
)
"""The types of the events that are read."""

MOST_FACTS = 1000
"""Facts that are remembered."""
MOST_NAMED = 20
"""Damaged conversations that are named."""

_END_OF_TIME = 253_402_300_800.0
"""The end of the year 9999, the last one that a time can be shown in."""

Answer: TypeAlias = Literal[
    "approved", "edited", "rejected", "answered", "expired", "void", "pending", "unknown"
]
DECIDED: tuple[Answer, ...] = ("approved", "edited", "rejected", "answered")
"""The answers that are decisions of people."""

_STEP = re.compile(r'\{"key":"([^"\\]*)","kind":"([a-z]+)"')


@attrs.define
class RecordedCall:
    stream: str
    seq: int
    at: float
    key: str
    node: str
    tool: str
    """The name that the model called, if there is no such tool."""
    server: str
    """Empty if there is no such tool."""
    facts: VerdictFacts | None
    """None: an early version did not record them."""
    arguments: Mapping[str, Any] | None
    unfit: bool = False
    """The arguments do not fit the tool, or cannot be read."""
    judged_anew: bool = False
    """It was judged again, on other facts."""
    anew: VerdictFacts | None = None
    """The facts of the last question to people, if they are others than the first ones."""
    asked: int = 0
    """The number of questions to people whether it may run."""
    requires: Requirement | None = None
    """Who had to approve it."""
    answer: Answer | None = None
    """The outcome of the question; None: there was none."""
    waited: float | None = None
    """Seconds from the first question to the decision."""
    edited: Mapping[str, Any] | None = None
    after_damage: bool = False
    """An earlier event of the conversation cannot be read."""


@attrs.define
class Damage:
    """Events that cannot be read."""

    events: int = 0
    named: dict[str, str] = attrs.field(factory=dict)
    """The reasons by conversation, of the first ones."""

    def add(self, stream: str, why: str) -> None:
        self.events += 1
        if len(self.named) < MOST_NAMED:
            self.named.setdefault(stream, why)

    def copy(self) -> Damage:
        return Damage(self.events, dict(self.named)) if self.events else NO_DAMAGE

    def merge(self, other: Damage) -> None:
        self.events += other.events
        for stream, why in other.named.items():
            if len(self.named) < MOST_NAMED:
                self.named.setdefault(stream, why)


NO_DAMAGE = Damage()
"""For readers only."""


@attrs.frozen
class Boundary:
    """A place between two turns, from which calls can be read again."""

    place: PassagePlace
    is_damaged: bool
    """An earlier event of the conversation cannot be read."""
    damage: Damage
    """What could not be read up to here."""


@attrs.define(eq=False)
class CallReader:
    """Reads calls from passages, in their order. Has the calls of one turn in memory."""

    _begin: Boundary | None = None
    """Where the reading begins, if that is within a conversation."""
    damage: Damage = attrs.field(factory=Damage)
    turn: Boundary | None = None
    """The beginning of the turn whose calls come next, if there is one."""
    index: int = 0
    """The index of the call that was given last among the calls of its turn."""
    is_damaged: bool = False
    """An event of the conversation so far cannot be read."""
    _stream: str = ""
    _number: str = ""
    """The number of the turn."""
    _calls: dict[str, RecordedCall] = attrs.field(factory=dict)
    _replies: dict[str, StoredEvent] = attrs.field(factory=dict)
    _verdicts: dict[str, Any] = attrs.field(factory=dict)
    """The facts of calls as they are stored, by key."""
    _questions: dict[str, str | None] = attrs.field(factory=dict)
    """The keys of calls by the ids of the approvals about them; None: it is about something else."""
    _is_turn_damaged: bool = False
    _read_facts: dict[tuple[Any, ...], VerdictFacts] = attrs.field(factory=dict)
    """Facts by their stored form."""

    def read(self, events: Iterable[StoredEvent]) -> Iterable[RecordedCall]:
        """The calls of the turns that these events end."""
        for event in events:
            if event.stream != self._stream:
                yield from self.rest()
                self._stream = event.stream
                begin, self._begin = self._begin, None
                self.is_damaged = (
                    begin is not None and begin.place.stream == event.number and begin.is_damaged
                )
            try:
                if event.type not in TYPES:
                    why = f"{str(event.type)[:40]!r} is no type of an event"
                    raise ValueError(why if event.seq else event.body)
                if type(event.at) is not float or not 0 <= event.at < _END_OF_TIME:
                    raise TypeError(f"{str(event.at)[:40]!r} is no time")
                key, body = self._parsed(event)
                if key is not None and (turn := key.partition("/")[0]) != self._number:
                    yield from self.rest()
                    before = PassagePlace(event.number, event.seq - 1)
                    self._number, self.turn = turn, Boundary(before, self.is_damaged, self.damage.copy())
                if body is not None:
                    self._take(event, key, body)
                elif key is not None:
                    self._replies[key] = event
            except (LookupError, TypeError, ValueError) as error:
                self.is_damaged = self._is_turn_damaged = True
                self.damage.add(event.stream, f"event {event.seq}: {type(error).__name__}: {error}")

    def rest(self) -> Iterable[RecordedCall]:
        """The calls of the last turn, at the end or before another one."""
        for index, call in enumerate(self._calls.values()):
            self.index = index
            if call.answer == "pending" and self._is_turn_damaged:
                call.answer = "unknown"
            yield call
        self._calls.clear()
        self._replies.clear()
        self._verdicts.clear()
        self._questions.clear()
        self._number, self.turn, self._is_turn_damaged = "", None, False

    def _parsed(self, event: StoredEvent) -> tuple[str | None, Mapping[str, Any] | None]:
        """The key of an event, if it has one, and its body, if it is needed now."""
        if event.type != "step.finished":
            body = object_of(event.body)
            return body.get("key"), body
        if found := _STEP.match(event.body):
            key, kind = found.groups()
        else:
            body = object_of(event.body)
            key, kind = body["key"], body["kind"]
        if kind == "call":
            return key, object_of(event.body)
        return (key, None) if kind in ("model", "delegation") else (None, None)

    def _take(self, event: StoredEvent, key: str | None, body: Mapping[str, Any]) -> None:
        if event.type in ("tool.started", "step.finished"):
            known = self._calls.get(exactly(key, str))
            if known is not None and known.answer == "pending":
                known.answer = "unknown"  # it went on, so there was a decision
            if known is not None and event.type == "tool.started":
                known.judged_anew |= body.get("verdict") != self._verdicts[known.key]
        match event.type:
            case "tool.started" if key not in self._calls:
                self._add(event, body, body["tool"], body["server"], body["arguments"])
            case "approval.requested":
                self._question(event, body)
            case "approval.resolved" | "approval.expired" | "approval.void":
                if body["id"] not in self._questions:
                    raise LookupError(f"no question has the id {str(body['id'])[:40]!r}")
                if (asked := self._questions[body["id"]]) is not None:
                    _decide(self._calls[asked], event, body)
            case "step.finished" if key not in self._calls and body.get("outcome") != "exit_loop":
                self._add_unsent(event, body)
            case _:
                pass

    def _question(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        id, key = exactly(body["id"], str), exactly(body["key"], str)
        if body["kind"] != "tool":
            self._questions[id] = None
            return
        if key not in self._calls:
            self._add(event, body, body["tool_name"], body["server"], body["tool_args"])
        call = self._calls[key]
        self._questions[id] = key
        call.asked += 1
        call.answer = "pending"  # also if the rest cannot be read
        if (verdict := body.get("verdict")) != self._verdicts[key]:
            call.judged_anew = True
            call.anew = None if verdict is None else self._facts(verdict)
        requires = body.get("requires")
        call.requires = None if requires is None else from_json(requires, Requirement)

    def _add(
        self, event: StoredEvent, body: Mapping[str, Any], tool: str, server: str, arguments: Any
    ) -> None:
        verdict = body.get("verdict")
        facts = None if verdict is None else self._facts(verdict)
        call = self._call(event, body, tool, server, facts, arguments)
        self._calls[call.key], self._verdicts[call.key] = call, verdict

    def _call(
        self,
        event: StoredEvent,
        body: Mapping[str, Any],
        tool: str,
        server: str,
        facts: VerdictFacts | None,
        arguments: Mapping[str, Any] | None,
    ) -> RecordedCall:
        key, node = (exactly(body[name], str) for name in ("key", "node"))
        if not isinstance(arguments, Mapping | None):
            raise TypeError("the arguments are no object")
        call = RecordedCall(event.stream, event.seq, event.at, key, node, tool, server, facts, arguments)
        call.after_damage = self.is_damaged
        return call

    def _facts(self, verdict: Any) -> VerdictFacts:
        """The facts of a call that was sent or asked. Many calls have equal ones."""
        try:
            key = tuple(verdict.items())
            found = self._read_facts.get(key)
        except (AttributeError, TypeError):  # damaged, which `from_json` finds out
            return from_json(verdict, VerdictFacts)
        if found is None:
            if len(self._read_facts) >= MOST_FACTS:
                self._read_facts.clear()
            found = self._read_facts[key] = from_json(verdict, VerdictFacts)
        return found

    def _add_unsent(self, event: StoredEvent, body: Mapping[str, Any]) -> None:
        verdict = body.get("verdict")
        facts = None if verdict is None else from_json(verdict, UnsentCall)
        name, given = self._of_reply(body["key"])
        tool, server, arguments = name, "", given
        if facts is not None:
            tool, server = facts.tool_name or name, facts.server or ""
            if facts.arguments is not None:
                arguments = facts.arguments
            elif facts.facade is not None and given is not None:
                arguments = _inside(facts.facade, given)
        call = self._call(event, body, tool, server, facts, arguments)
        self._calls[call.key], self._verdicts[call.key] = call, verdict
        call.unfit = body["outcome"] == "invalid"

    def _of_reply(self, key: str) -> tuple[str, Mapping[str, Any] | None]:
        """The name and the arguments of a call in the reply of the model, or of what a node delegates."""
        reply = self._replies.get(keys.reply_of(key))
        if reply is None:
            return "", None
        body = object_of(reply.body)
        index = int(key.rpartition(".")[2])
        made = body["call"] if "call" in body else body["tool_calls"][index]
        return made["name"], made["arguments"]


def _inside(facade: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
    try:
        return unwrap(facade, arguments).arguments
    except Malformed:
        return None


def _decide(call: RecordedCall, event: StoredEvent, body: Mapping[str, Any]) -> None:
    match event.type:
        case "approval.expired":
            call.answer = "expired"
        case "approval.void":
            call.answer = "void"
        case _:
            match body["decision"]:
                case {"approved": True, "arguments": Mapping() as edited}:
                    call.answer, call.edited = "edited", edited
                case {"approved": True}:  # of what was edited, if this is a later question
                    call.answer = "approved" if call.edited is None else "edited"
                case {"approved": False}:
                    call.answer = "rejected"
                case {"action": "respond"}:
                    call.answer = "answered"
                case _:
                    call.answer = "unknown"
                    raise ValueError("the decision is neither an approval, a rejection nor a response")
    call.waited = event.at - call.at


MOST_AT_ONCE = 100
"""Events that are read without a pause, in which an agent does something else."""


async def read_calls(
    journal: JournalReader,
    take: Callable[[RecordedCall], bool],
    *,
    since: float = 0.0,
    part: int = 0,
    of: int = 1,
) -> Damage:
    """Give all calls of a journal to `take`, until that returns False. Returns what could not be read. For
    `since`, `part` and `of` see `WantedEvents`."""
    wanted = WantedEvents(types=TYPES, known=ALL_TYPES, since=since, part=part, of=of)
    reader, at = CallReader(), None
    while True:
        passage = await journal.passage(wanted, at)
        for events in batched(passage.events):
            if not all(map(take, reader.read(events))):
                return reader.damage
            await trio.lowlevel.checkpoint()
        if (at := passage.next) is None:
            all(map(take, reader.rest()))
            return reader.damage


def batched(events: Sequence[StoredEvent]) -> Iterable[Sequence[StoredEvent]]:
    """The events in parts of `MOST_AT_ONCE`."""
    for start in range(0, len(events), MOST_AT_ONCE):
        yield events[start : start + MOST_AT_ONCE]
