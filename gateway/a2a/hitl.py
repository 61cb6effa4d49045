"""The extension of kagent for approvals, version 1 (its docs/architecture/human-in-the-loop.md). Pure.

A status message carries the request in its metadata, under the URI of the extension; the client's message
carries the response in the same place. Tool calls are approved or rejected; any other question is answered
with one of a few words. A response must decide everything in its request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...actors.a2a.wire.a2a_errors import invalid
from ...actors.a2a.wire.a2a_headers import HITL
from ...actors.a2a.wire.task import Data, Message
from ...actors.approvals.asked import Asked
from ...actors.approvals.yes_or_no import YesOrNo

_RESPONSES = ("tool_approval_response", "ask_user_response")


def request_of(pending: Sequence[Asked[Any]], hint: str) -> Mapping[str, Any] | None:
    """The request for the pending questions; None: the extension cannot express any of them."""
    tools = [asked for asked in pending if isinstance(asked.original, YesOrNo)]
    if tools:
        return {
            "type": "tool_approval_request",
            "hint": hint,
            "tools": [
                {"id": each.id, "call_id": each.key, "name": each.tool_name, "args": each.tool_args}
                for each in tools
            ],
        }
    for asked in pending:
        if actions := actions_of(asked):
            question = {"question": asked.description, "choices": sorted(actions), "multiple": False}
            return {"type": "ask_user_request", "id": asked.id, "questions": [question]}
    return None


def actions_of(asked: Asked[Any]) -> frozenset[str]:
    """The words that decide a question other than yes or no."""
    return frozenset(
        value for _, value in (kind.marker for kind in asked.original.decisions) if isinstance(value, str)
    )


def response_in(message: Message) -> Mapping[str, Any] | None:
    """The response that a message carries, in its metadata or as a data part."""
    found = [(message.metadata or {}).get(HITL)]
    for part in message.parts:
        if isinstance(part, Data) and isinstance(part.data, Mapping):
            found.append(part.data)
            found += [
                {"type": kind, **part.data[kind]}
                for kind in _RESPONSES
                if isinstance(part.data.get(kind), Mapping)
            ]
    responses = (each for each in found if isinstance(each, Mapping) and each.get("type") in _RESPONSES)
    return next(responses, None)


def decisions_of(response: Mapping[str, Any], pending: Sequence[Asked[Any]]) -> dict[str, Mapping[str, Any]]:
    """The words of each decision by the id of its approval.

    Raises `A2AError` INVALID_PARAMS for a response that omits a tool or decides it twice.
    """
    if response["type"] == "ask_user_response":
        return _answered(response)
    approvals = response.get("approvals")
    if not isinstance(approvals, list):
        raise invalid("approvals", "must be a list")
    found: dict[str, Mapping[str, Any]] = {}
    for each in approvals:
        match each:
            case {"id": str(id), "approved": bool(approved)} if id not in found:
                reason = each.get("rejection_reason")
                given = {"reason": reason} if isinstance(reason, str) and not approved else {}
                found[id] = {"approved": approved, **given}
            case _:
                raise invalid("approvals", "must hold each id once, with `approved` true or false")
    missing = [asked.id for asked in pending if isinstance(asked.original, YesOrNo) and asked.id not in found]
    if missing:
        raise invalid("approvals", f"must decide {missing[0]}, too")
    return found


def _answered(response: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    match response:
        case {"id": str(id), "answers": [{"answer": [str(action)]}]}:
            return {id: {"action": action}}
        case _:
            raise invalid("answers", "must hold one answer of one choice, beside the id of the request")
