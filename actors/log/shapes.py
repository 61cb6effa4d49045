"""What the fold, the views and the run may rely on in what was stored. Pure.

A shape is a type; a list of one shape; a dictionary of shapes by key, of which those that end in ``?`` may
be absent; or a function that raises. A body may have more than its shape says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..approvals.kinds import decision_of, question_of
from . import events as e

Shape: TypeAlias = Any
"""See the module docstring; a recursive type would be longer than the code."""


def check(value: object, shape: Shape, where: str = "body") -> None:
    """Raises TypeError, KeyError or ValueError, naming the place, when the value has not this shape."""
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            raise TypeError(f"{where} is no object")
        for key, inner in shape.items():
            if key[-1] == "?":
                key = key[:-1]
                if value.get(key) is None:
                    continue
            elif key not in value:
                raise KeyError(f"{where}.{key} is missing")
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise TypeError(f"{where} is no list")
        for each in value:
            check(each, shape[0], where)
    elif isinstance(shape, type):
        if not isinstance(value, shape):
            raise TypeError(f"{where} is no {shape.__name__}")
    else:
        shape(value, where)


def check_event(type: str, body: Mapping[str, Any]) -> None:
    """As `check`. Types that this version does not know are not looked into."""
    if (shape := _EVENTS.get(type)) is not None:
        check(body, shape)
        if type == e.STEP_FINISHED:
            check(body, _STEPS.get("error" if "error" in body else body["kind"], {}))
        elif type == e.TOOL_FINISHED and "need" not in body:
            check(body, {"result": {"content": str, "is_error": bool}})


def check_command(kind: str, body: Mapping[str, Any]) -> None:
    """As `check`."""
    check(body, _COMMANDS.get(kind, {}))


def _number(value: object, where: str) -> None:
    if not isinstance(value, int | float):
        raise TypeError(f"{where} is no number")


def _decision(value: Any, where: str) -> None:
    decision_of(value)


def _question(value: Any, where: str) -> None:
    question_of(value)


_RUN = {"run": str}
_USAGE = {"input_tokens": int, "output_tokens": int, "cost_usd?": _number}
_CALL = {"id": str, "name": str, "arguments": dict, "problem?": str}

_EVENTS: Mapping[str, Shape] = {
    e.CONVERSATION_CREATED: {"session_id": str, "prompt": str},
    e.MESSAGE_ADDED: {"text": str},
    e.RUN_STARTED: {
        **_RUN,
        "turn": int,
        "command": str,
        "tree_id": str,
        "tree?": dict,
        "replay_version": int,
        "token": bool,
    },
    e.STEP_FINISHED: {"key": str, "kind": str, "node": str, "fingerprint": str, "usage?": _USAGE},
    e.BATCH_FINISHED: {"key": str},
    e.TOOL_STARTED: {
        "key": str,
        "attempt": int,
        "tool": str,
        "server": str,
        "arguments": dict,
        "effect": str,
        "asks": bool,
        "node": str,
        "facade?": str,
    },
    e.TOOL_FINISHED: {"key": str, "attempt": int, "need?": {"kind": str}},
    e.TOOL_UNKNOWN: {"key": str, "attempt": int, "reason": str},
    e.APPROVAL_REQUESTED: _question,
    e.APPROVAL_RESOLVED: {"id": str, "decision": _decision, "command": str, "token": bool},
    e.APPROVAL_EXPIRED: {"id": str},
    e.APPROVAL_VOID: {"id": str, "superseded_by?": str},
    e.STATE_SET: {"key": str, "value": str},
    e.RUN_WAITING: {**_RUN, "worked": dict},
    e.RUN_AUTH_REQUIRED: {**_RUN, "worked": dict},
    e.RUN_RESUMED: {**_RUN, "command": str, "token": bool, "answer": bool},
    e.RUN_FINISHED: {**_RUN, "text": str},
    e.RUN_FAILED: {**_RUN, "code": str, "message": str},
    e.RUN_CANCELLED: _RUN,
}
_STEPS: Mapping[str, Shape] = {
    "error": {"error": {"code": str, "message": str}},
    "model": {"text": str, "tool_calls": [_CALL]},
    "call": {"outcome": str, "content": str},
}
_COMMANDS: Mapping[str, Shape] = {
    "create": {"message?": str, "session_id?": str, "token": bool},
    "message": {"message": str, "token": bool},
    "decision": {"question": str, "decision": _decision},
    "expire": {"question": str},
}
SUMMARY = {"session_id?": str, "run?": {"id": str, "turn": int, "state": str, "code?": str, "auth?": dict}}
REPLY = {"result?": {"response": str, "state": str, "approvals": list}}
