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
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from ...runtime.journal.passage import StoredEvent
from ...runtime.journal.rows import object_of
from ..common.stored_json import from_json
from ..log.words import keys
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

MOST_NAMED = 20
"""Damaged conversations that are named."""

Answer: TypeAlias = Literal["approved", "edited", "rejected", "expired", "void", "pending"]

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
    """The arguments do not fit the tool."""
    answer: Answer | None = None
    """What a person decided; None: nobody was asked."""
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

    def merge(self, other: Damage) -> None:
        self.events += other.events
        for stream, why in other.named.items():
            if len(self.named) < MOST_NAMED:
                self.named.setdefault(stream, why)


@attrs.define(eq=False)
class CallReader:
    """Reads calls from passages, in their order. Has the calls of one turn in memory."""

    damage: Damage = attrs.field(factory=Damage)
    _stream: str = ""
    _turn: str = ""
    _calls: dict[str, RecordedCall] = attrs.field(factory=dict)
    _replies: dict[str, StoredEvent] = attrs.field(factory=dict)
    _questions: dict[str, str] = attrs.field(factory=dict)
    """The keys of calls by the ids of the approvals about them."""
    _is_damaged: bool = False

    def read(self, events: Iterable[StoredEvent]) -> Iterable[RecordedCall]:
        """The calls of the turns that these events end."""
        for event in events:
            if event.stream != self._stream:
                yield from self.rest()
                self._stream, self._is_damaged = event.stream, False
            try:
                if type(event.at) is not float:
                    raise TypeError(f"{str(event.at)[:40]!r} is no time")
                key, body = self._parsed(event)
                if key is not None and (turn := key.partition("/")[0]) != self._turn:
                    yield from self.rest()
                    self._turn = turn
                if body is not None:
                    self._take(event, key, body)
                elif key is not None:
                    self._replies[key] = event
            except (LookupError, TypeError, ValueError) as error:
                self._is_damaged = True
                self.damage.add(event.stream, f"event {event.seq}: {type(error).__name__}: {error}")

    def rest(self) -> Iterable[RecordedCall]:
        """The calls of the last turn, at the end or before another one."""
        yield from self._calls.values()
        self._calls.clear()
        self._replies.clear()
        self._questions.clear()
        self._turn = ""

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
        match event.type:
            case "tool.started" if key not in self._calls:
                self._add(event, body, body["tool"], body["server"], body["arguments"])
            case "approval.requested" if body["kind"] == "tool":
                if key not in self._calls:
                    self._add(event, body, body["tool_name"], body["server"], body["tool_args"])
                call = self._calls[body["key"]]
                self._questions[body["id"]] = call.key
                if call.answer in (None, "void"):
                    call.answer = "pending"
            case "approval.resolved" | "approval.expired" | "approval.void":
                if (asked := self._questions.get(body["id"])) is not None:
                    _decide(self._calls[asked], event, body)
            case "step.finished" if key not in self._calls and body.get("outcome") != "exit_loop":
                self._add_unsent(event, body)
            case _:
                pass

    def _add(
        self, event: StoredEvent, body: Mapping[str, Any], tool: str, server: str, arguments: Any
    ) -> None:
        verdict = body.get("verdict")
        facts = None if verdict is None else from_json(verdict, VerdictFacts)
        self._calls[body["key"]] = self._call(event, body, tool, server, facts, arguments)

    def _call(
        self,
        event: StoredEvent,
        body: Mapping[str, Any],
        tool: str,
        server: str,
        facts: VerdictFacts | None,
        arguments: Mapping[str, Any] | None,
    ) -> RecordedCall:
        key, node = body["key"], body["node"]
        return RecordedCall(
            event.stream,
            event.seq,
            event.at,
            key,
            node,
            tool,
            server,
            facts,
            arguments,
            after_damage=self._is_damaged,
        )

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
        call = self._calls[body["key"]] = self._call(event, body, tool, server, facts, arguments)
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
            decision = body["decision"]
            call.edited = decision.get("arguments")
            agreed = "approved" if call.edited is None else "edited"
            call.answer = agreed if decision["approved"] is True else "rejected"  # type: ignore[assignment]
    call.waited = event.at - call.at
