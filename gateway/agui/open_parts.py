"""The open text messages, steps and subagents of a stream. Pure.

The protocol requires that each is closed before the run ends, that one agent has no two open steps of the
same name, and that no subagent starts twice. The log has no event for the start of a node, so a step opens
with the first event inside its node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import attrs

from ...actors.log.words import keys
from . import agui_events as ag
from .node_keys import Execution

STOPPED = "It was stopped before its end."
SUPERSEDED: dict[str, bool] = {"superseded": True}
"""The metadata of a text message that another one replaces."""


@attrs.define
class _Text:
    id: str
    attempt: int
    owner: str | None
    text: str = ""


@attrs.frozen
class _Step:
    name: str
    owner: str | None


@attrs.frozen
class _Subagent:
    id: str


_Part: TypeAlias = _Text | _Step | _Subagent


@attrs.define(eq=False)
class OpenParts:
    run: str = ""
    """The run's id, the prefix of all ids made here."""
    _parts: dict[tuple[str, type[_Part]], _Part] = attrs.field(factory=dict)
    """The open parts by key and kind, in opening order."""
    _ended: set[str] = attrs.field(factory=set)
    """The keys of ended executions and subagents, which late events must not open again."""
    _texts: dict[str, int] = attrs.field(factory=dict)
    """Numbers of messages by the key of the model call."""

    def id_of(self, key: str) -> str:
        """The id of the message, tool call or subagent with this key."""
        return f"{self.run}:{key}"

    def owner(self, inside: Sequence[Execution]) -> str | None:
        """The subagent of the innermost branch."""
        branches = [each for each in inside if each.is_branch]
        return self.id_of(branches[-1].key) if branches else None

    # --------------------------------------------------------------------- executions

    def enter(self, inside: Sequence[Execution]) -> Iterator[ag.AGUIEvent]:
        """Open the executions that contain an event, from the root down."""
        owner: str | None = None
        for each in inside:
            if each.is_branch:
                id = self.id_of(each.key)
                yield from self.begin_subagent(each.key, each.name, parent=owner)
                owner = id
            if each.key not in self._ended and (each.key, _Step) not in self._parts:
                self._parts[each.key, _Step] = _Step(each.name, owner)
                yield ag.StepStarted(step_name=each.name, subagent_run_id=owner)

    def begin_subagent(
        self, key: str, name: str, *, parent: str | None, call: str | None = None
    ) -> Iterator[ag.AGUIEvent]:
        if key in self._ended or (key, _Subagent) in self._parts:
            return
        id = self.id_of(key)
        self._parts[key, _Subagent] = _Subagent(id)
        yield ag.SubagentStarted(
            subagent_run_id=id, name=name, parent_subagent_run_id=parent, parent_tool_call_id=call
        )

    def end(
        self, key: str, *, result: str | None = None, failed: tuple[str, str | None] | None = None
    ) -> Iterator[ag.AGUIEvent]:
        """Close an execution, or the subagent of a call; `failed` has a sentence and a code."""
        yield from self.close(key, but=key)
        if (step := self._parts.pop((key, _Step), None)) is not None:
            yield from _closed(step)
        if self._parts.pop((key, _Subagent), None) is not None:
            id = self.id_of(key)
            if failed is None:
                yield ag.SubagentFinished(subagent_run_id=id, result=result)
            else:
                yield ag.SubagentError(subagent_run_id=id, message=failed[0], code=failed[1])
        self._ended.add(key)

    # --------------------------------------------------------------------------- text

    def add_text(
        self, key: str, attempt: int, text: str, name: str | None, owner: str | None
    ) -> Iterator[ag.AGUIEvent]:
        """Stream a further piece of a reply. A higher attempt supersedes the open message."""
        current = self._parts.get((key, _Text))
        assert current is None or isinstance(current, _Text)
        if current is not None and attempt < current.attempt:
            return
        if current is not None and attempt > current.attempt:
            yield from self._end_text(key, current, superseded=True)
            current = None
        if current is None:
            number = self._texts[key] = self._texts.get(key, 0) + 1
            id = self.id_of(key) if number == 1 else f"{self.id_of(key)}~{number}"
            current = self._parts[key, _Text] = _Text(id, attempt, owner)
            yield ag.TextMessageStart(message_id=id, name=name, subagent_run_id=owner)
        current.text += text
        yield ag.TextMessageContent(message_id=current.id, delta=text, subagent_run_id=owner)

    def complete_text(
        self, key: str, text: str, name: str | None, owner: str | None
    ) -> Iterator[ag.AGUIEvent]:
        """Complete the streamed text of a recorded reply, or replace it if the reply does not begin with
        it."""
        current = self._parts.get((key, _Text))
        assert current is None or isinstance(current, _Text)
        attempt = 1 if current is None else current.attempt
        if current is not None and not (text and text.startswith(current.text)):
            attempt += 1
        rest = text[len(current.text) :] if current is not None and attempt == current.attempt else text
        if rest:
            yield from self.add_text(key, attempt, rest, name, owner)
            current = self._parts[key, _Text]
            assert isinstance(current, _Text)
        if current is not None:
            yield from self._end_text(key, current, superseded=not text)

    def message_of(self, key: str) -> str:
        """The id of a model call's last message; without text, of a message for its tool calls."""
        number = self._texts.get(key, 1)
        return self.id_of(key) if number == 1 else f"{self.id_of(key)}~{number}"

    def _end_text(self, key: str, text: _Text, *, superseded: bool) -> Iterator[ag.AGUIEvent]:
        del self._parts[key, _Text]
        yield from _closed(text, superseded=superseded)

    # ------------------------------------------------------------------------ closing

    def close(self, execution: str = "", *, but: str | None = None) -> Iterator[ag.AGUIEvent]:
        """Close all parts in an execution, or all parts, as stopped."""
        for key, kind in reversed(list(self._parts)):
            if key != but and (not execution or keys.is_within(key, execution)):
                self._ended.add(key)
                yield from _closed(self._parts.pop((key, kind)))

    def suspend(self, interrupts: Sequence[ag.Interrupt]) -> Iterator[ag.AGUIEvent]:
        """Close all parts, because the run waits for these interrupts."""
        for key, kind in reversed(list(self._parts)):
            part = self._parts.pop((key, kind))
            if isinstance(part, _Subagent):
                own = [each.id for each in interrupts if each.subagent_run_id == part.id]
                yield ag.SubagentFinished(subagent_run_id=part.id, outcome=ag.Suspended(interrupt_ids=own))
            else:
                yield from _closed(part)


def _closed(part: _Part, *, superseded: bool = True) -> Iterator[ag.AGUIEvent]:
    match part:
        case _Text(id=id, owner=owner):
            yield ag.TextMessageEnd(
                message_id=id, subagent_run_id=owner, metadata=SUPERSEDED if superseded else None
            )
        case _Step(name=name, owner=owner):
            yield ag.StepFinished(step_name=name, subagent_run_id=owner)
        case _Subagent(id=id):
            yield ag.SubagentError(subagent_run_id=id, message=STOPPED, code="stopped")
