"""The messages between two members that pass deltas on. Pure.

The member of a watcher reads ``GET /fleet/deltas`` of each other member, a stream of server-sent events with
one delta each. By ``PUT /fleet/deltas`` it says which conversations the deltas shall be of: the whole list at
each change. Both have ``?node=`` with its name, and are signed with the key of the fleet (`fleet_key.py`).
"""

from __future__ import annotations

from typing import Any, cast

from ...actors.common.stored_json import from_json, to_json
from ...actors.log.words.deltas import AnyDelta
from ...actors.workers.delta_exchange import WantedDeltas
from ...runtime import json_text
from ..http import sse
from ..http.errors import RequestError

PATH = "/fleet/deltas"
MOST_LISTED = 20_000
"""Maximum number of conversations in a list; a member that watches more wants the deltas of all."""


def address_of(advertised: str, member: str) -> str:
    """Where a member reads the deltas of the one that advertises a URL. `member` names the reader."""
    return f"{advertised}{PATH}?node={member}"


def encode(delta: AnyDelta) -> bytes:
    return sse.encode(to_json(delta))


def decode(text: str) -> AnyDelta | None:
    """None: the other member is of a version with other deltas."""
    try:
        return from_json(json_text.load(text), cast("type[AnyDelta]", AnyDelta))
    except (LookupError, TypeError, ValueError):
        return None


def as_body(wanted: WantedDeltas) -> dict[str, object]:
    if len(wanted.conversations) > MOST_LISTED:
        wanted = WantedDeltas(all=True)
    return {"conversations": sorted(wanted.conversations), "all": wanted.all}


def wanted_from(body: dict[str, Any]) -> WantedDeltas:
    """Raises `RequestError` ``invalid_request_body``."""
    match body:
        case {"conversations": [*ids], "all": bool(all)} if {*map(type, ids)} <= {str}:
            return WantedDeltas(frozenset(ids), all)
        case _:
            raise RequestError(400, "invalid_request_body", "the body does not say which deltas are wanted")
