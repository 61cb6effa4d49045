"""A question of each kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stopgo.actors.approvals.asked import Asked
from stopgo.actors.approvals.kinds import question_of

_OF_ALL: Mapping[str, Any] = {"id": "q", "question": "q", "key": "1/", "node": "n", "description": "?"}
_OF_A_CALL: Mapping[str, Any] = {"tool_name": "t", "tool_args": {}, "server": "s"}
BODIES: Mapping[str, Mapping[str, Any]] = {
    "tool": {**_OF_A_CALL, "input_schema": {}, "tool_fingerprint": "f"},
    "outcome_unknown": _OF_A_CALL,
    "elicitation": {**_OF_A_CALL, "message": "?", "in_flight": False},
    "checkpoint": {"tool_name": "n", "tool_args": {}},
}


def body(kind: str = "tool", **changes: Any) -> dict[str, Any]:
    """Its stored form."""
    return {**_OF_ALL, "kind": kind, **BODIES[kind], **changes}


def asked(kind: str = "tool", **changes: Any) -> Asked[Any]:
    return question_of(body(kind, **changes))
