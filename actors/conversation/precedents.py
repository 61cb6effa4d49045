"""Precedents: earlier decisions about calls of the same tool, and the outcomes of these calls.

The work is bounded: only the latest decided approvals are read, and the last events of their conversations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, TypeAlias

import attrs

from ...runtime.journal.errors import Reading, StreamDamaged
from ...runtime.journal.protocol import Journal, Row
from ..approvals.kinds import Approval
from ..log import events as e
from ..log import stored
from ..log.event_json import decode

LOOKED_AT = 200
"""The maximum number of decided approvals to read."""
MOST = 10
"""The maximum number of precedents."""
MOST_EVENTS = 1000
"""The maximum number of events to read of a conversation."""

Outcome: TypeAlias = Literal["succeeded", "failed", "unknown"]


@attrs.frozen
class Precedent:
    approval: Approval
    title: str
    """The title of its conversation."""
    outcome: Outcome | None
    """The outcome of the call. None: it was not sent, or its events are not among the last ones."""


async def precedents(journal: Journal, approval: Approval) -> tuple[Precedent, ...]:
    """The precedents of an approval, newest first."""
    page = await stored.decided(journal, LOOKED_AT)
    earlier = [each for each in page.questions if isinstance(each, Approval) and _alike(each, approval)][
        :MOST
    ]
    rows: dict[str, Row] = {}
    outcomes: dict[tuple[str, str], Outcome] = {}
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


def _alike(one: Approval, other: Approval) -> bool:
    a, b = one.asked, other.asked
    same = (a.kind, a.server, a.tool_name) == (b.kind, b.server, b.tool_name)
    return same and a.is_of_call and one.id != other.id


def _title(row: Row) -> str:
    return row.summary.title if row.summary is not None else ""


async def _outcomes(journal: Journal, row: Row, keys: Collection[str]) -> Mapping[str, Outcome]:
    """The outcomes of the calls with these keys, from the last events. Raises `StreamDamaged`."""
    outcomes: dict[str, Outcome] = {}
    for event in await journal.events_since(row.stream, max(0, row.last_seq - MOST_EVENTS), MOST_EVENTS):
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
