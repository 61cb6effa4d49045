"""Recognizes a save that is made again because the answer to the first was lost. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .. import json_text
from .protocol import Event, Json, NewEvent, Saved


def outcome(expected_seq: int, stored: Sequence[Event], events: Sequence[NewEvent]) -> Saved | None:
    """The outcome of the first save, if these are its events. None: it is not a repetition.

    `stored` are the events of the stream after `expected_seq`. The latest of them was saved with the same
    fence, so no other writer can have saved them. A save without events has the same effect twice.
    """
    if not events or len(stored) != len(events):
        return None
    pairs = list(zip(stored, events, strict=True))
    if not all(each.type == new.type and _same(each.body, new.body) for each, new in pairs):
        return None
    return Saved(expected_seq + 1, next((each.at for each, new in pairs if new.at is None), stored[-1].at))


def _same(one: Json, other: Json) -> bool:
    return json_text.same(json_text.dump(one), json_text.dump(other))
