"""Precedents: earlier decisions about calls of the same tool, and the outcomes of these calls.

Only the newest decided approvals are searched, and only the last events of their conversations are read, so
the cost does not grow with the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Literal, TypeAlias

import attrs

from ...runtime.journal.errors import Reading, StreamDamaged
from ...runtime.journal.protocol import Journal
from ...runtime.journal.summary import Row
from ..approvals.kinds import Approval
from ..log.fold import stored
from ..log.words import events as e
from ..log.words.event_json import decode

MAX_APPROVALS = 200
"""The maximum number of decided approvals to search."""
MAX_PRECEDENTS = 10
MAX_EVENTS = 1000
"""The maximum number of events to read of a conversation."""

PrecedentOutcome: TypeAlias = Literal["succeeded", "failed", "unknown"]


@attrs.frozen
class Precedent:
    approval: Approval
    title: str
    """The title of its conversation."""
    outcome: PrecedentOutcome | None
    """The outcome of the call. None: the call was not sent, or its end is not among the last events."""


async def precedents(
    journal: Journal, approval: Approval, may_see: Callable[[Approval], Awaitable[bool]] | None = None
) -> tuple[Precedent, ...]:
    """The precedents of an approval, newest first; with `may_see`, only those that it allows."""
    page = await stored.decided(journal, MAX_APPROVALS)
    earlier: list[Approval] = []
    for each in page.questions:
        if not (isinstance(each, Approval) and _is_similar(each, approval)):
            continue
        if may_see is None or await may_see(each):
            earlier.append(each)
        if len(earlier) == MAX_PRECEDENTS:
            break
    rows: dict[str, Row] = {}
    outcomes: dict[tuple[str, str], PrecedentOutcome] = {}
    for id in {each.stream: None for each in earlier}:
        if (row := await journal.row(id)) is None:
            continue  # deleted meanwhile
        rows[id] = row
        keys = {each.asked.key for each in earlier if each.stream == id}
        try:
            found = await _outcomes(journal, row, keys)
        except StreamDamaged:
            continue
        outcomes.update({(id, key): outcome for key, outcome in found.items()})
    return tuple(
        Precedent(each, _title(rows[each.stream]), outcomes.get((each.stream, each.asked.key)))
        for each in earlier
        if each.stream in rows
    )


def _is_similar(one: Approval, other: Approval) -> bool:
    """Whether these are two approvals about calls of the same tool."""
    a, b = one.asked, other.asked
    same = (a.kind, a.server, a.tool_name) == (b.kind, b.server, b.tool_name)
    return same and a.is_of_call and one.id != other.id


def _title(row: Row) -> str:
    return row.summary.title if row.summary is not None else ""


async def _outcomes(journal: Journal, row: Row, keys: Collection[str]) -> Mapping[str, PrecedentOutcome]:
    """The outcomes of the calls with these keys, from the last events. Raises `StreamDamaged`."""
    outcomes: dict[str, PrecedentOutcome] = {}
    for event in await journal.events_since(row.stream, max(0, row.last_seq - MAX_EVENTS), MAX_EVENTS):
        if event.type not in (e.ToolFinished.type, e.ToolUnknown.type) or event.body.get("key") not in keys:
            continue
        with Reading(row.stream, f"event {event.seq}"):
            match decode(event).event:
                case e.ToolFinished(key=key, need=None, result=result):
                    outcomes[key] = "failed" if result.is_error else "succeeded"
                case e.ToolUnknown(key=key):
                    outcomes[key] = "unknown"
                case _:
                    pass
    return outcomes
