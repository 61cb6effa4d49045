"""Questions to humans and what may be answered to them. Pure.

A decision is kept in one of three forms, whatever words it came in:

* for a tool call or a checkpoint: ``{"approved": bool, "arguments"?, "reason"?, "decided_by"?, "token"?}``
* for an unknown outcome: ``{"action": "retry" | "done" | "failed", "result"?, "reason"?, ...}``
* for a server's question: ``{"action": "accept" | "decline" | "cancel", "content"?, ...}``
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ...runtime.journal import json_text
from ...runtime.journal.json_text import MAX_DEPTH, depth
from ..common.errors import AgentError
from ..tools.tool import Elicitation, Tool
from .description import describe, describe_elicitation

_YES_ACTIONS = frozenset({"approve", "approved", "yes"})
_NO_ACTIONS = frozenset({"reject", "rejected", "no"})
_YES_ANSWERS = frozenset({"yes", "y", "true", "approve", "approved"})
_NO_ANSWERS = frozenset({"no", "n", "false", "reject", "rejected"})
_OUTCOMES = ("retry", "done", "failed")
_ANSWERS = ("accept", "decline", "cancel")

_FIELDS = ("approved", "action", "answer", "arguments", "reason", "decided_by", "result", "content")

CANCELLED = "Operation cancelled by user"
"""What a run answers after a rejection."""

MAX_TEXT = 4000
"""Characters of a reason or of who decided."""


def parse_decision(kind: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Turn the words of a decision into the form that is kept.

    `answer` wins over `action` over `approved`. Raises `AgentError`: ``decision_required`` for anything
    that is not a known word, ``invalid_request`` for wrong types and for fields nobody knows: who edits
    arguments under a wrong name must not find that the call ran with the old ones.
    """
    decision: dict[str, Any] = {}
    if kind == "elicitation":
        decision["action"] = _one_of(words, _ANSWERS, "what to answer the server", ANSWER_HINT)
        if decision["action"] == "accept" and words.get("content") is not None:
            decision["content"] = _object(words["content"], "content", ANSWER_HINT)
    elif kind == "outcome_unknown":
        decision["action"] = _one_of(words, _OUTCOMES, "what became of the call", _OUTCOME_HINT)
        if decision["action"] == "done" and "result" in words:
            decision["result"] = _text(words, "result", limit=None)
    else:
        decision["approved"] = _yes_or_no(words)
        arguments = words.get("arguments")
        if decision["approved"] and arguments is not None:
            if kind != "tool":
                raise AgentError("invalid_arguments", "this approval has no arguments to edit")
            decision["arguments"] = _object(arguments, "arguments", EDIT_HINT)
    for name in ("reason", "decided_by"):
        if words.get(name) is not None:
            decision[name] = _text(words, name, limit=MAX_TEXT)
    if (unknown := next((name for name in words if name not in _FIELDS), None)) is not None:
        raise AgentError(
            "invalid_request",
            f"a decision has no field {unknown!r}",
            hint=f"A decision knows {', '.join(_FIELDS)}.",
            details={"field": unknown},
        )
    return decision


EDIT_HINT = "Edited arguments replace the shown ones in full."
_DECISION_HINT = 'Send {"approved": true}, {"action": "approve"} or {"answer": "yes"}, or their opposites.'
ANSWER_HINT = 'Send {"action": "accept", "content": {...}}, {"action": "decline"} or {"action": "cancel"}.'
_OUTCOME_HINT = 'Send {"action": "retry"}, {"action": "done", "result"?: "..."} or {"action": "failed"}.'


def _yes_or_no(words: Mapping[str, Any]) -> bool:
    if "answer" in words:
        return _word(words["answer"], _YES_ANSWERS, _NO_ANSWERS)
    if "action" in words:
        return _word(words["action"], _YES_ACTIONS, _NO_ACTIONS)
    approved = words.get("approved")
    if isinstance(approved, bool):
        return approved
    raise AgentError("decision_required", "the request does not say yes or no", hint=_DECISION_HINT)


def _word(word: object, yes: frozenset[str], no: frozenset[str]) -> bool:
    if isinstance(word, str) and word.strip().lower() in yes | no:
        return word.strip().lower() in yes
    raise AgentError("decision_required", "the request does not say yes or no", hint=_DECISION_HINT)


def _one_of(words: Mapping[str, Any], known: Sequence[str], what: str, hint: str) -> str:
    action = words.get("action")
    if isinstance(action, str) and action.strip().lower() in known:
        return action.strip().lower()
    raise AgentError("decision_required", f"the request does not say {what}", hint=hint)


def _object(value: object, name: str, hint: str) -> Mapping[str, Any]:
    """The same as JSON has it. HTTP lets nothing else in, but a program or a terminal may."""
    if not isinstance(value, Mapping):
        raise AgentError("invalid_arguments", f"{name} must be an object", hint=hint)
    try:
        plain: Mapping[str, Any] = json_text.load(json_text.dump(value))
        if depth(plain) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
    except (TypeError, ValueError, RecursionError) as error:
        raise AgentError("invalid_arguments", f"{name} must be JSON: {error}", hint=hint) from error
    return plain


def _text(words: Mapping[str, Any], name: str, *, limit: int | None) -> str:
    value = words[name]
    if not isinstance(value, str):
        raise AgentError("invalid_request", f"{name} must be a string", details={"field": name})
    if limit is not None and len(value) > limit:
        text = f"{name} is longer than {limit} characters"
        raise AgentError("invalid_request", text, details={"field": name})
    return value


@attrs.frozen(kw_only=True)
class Occasion:
    """Where in its run a question comes up."""

    id: str
    """What the question is going to be called."""
    question: str
    """Its key in the run."""
    key: str
    """Of the call or the node that it is about."""
    node: str
    path: Sequence[int]
    output_key: str | None
    session_state: Mapping[str, str]
    user_message: str

    def body(self, kind: str, *, expires: float | None = None, on_expiry: str = "") -> dict[str, Any]:
        """What questions of all kinds have."""
        body = {
            "id": self.id,
            "kind": kind,
            "key": self.key,
            "question": self.question,
            "node": self.node,
            "path": list(self.path),
            "output_key": self.output_key or "",
            "session_state": dict(self.session_state),
            "user_message": self.user_message,
        }
        return body if expires is None else {**body, "expires": expires, "on_expiry": on_expiry}


def tool_question(
    occasion: Occasion,
    *,
    tool: Tool,
    facade: str | None,
    arguments: Mapping[str, Any],
    rule: str,
    replaces: str | None,
    expires: float | None,
    on_expiry: str,
) -> dict[str, Any]:
    """The body of a question about a tool call: all a human and a later check need.

    `facade` is what the model called, when that stands for a whole server.
    """
    body = occasion.body("tool", expires=expires, on_expiry=on_expiry) | {
        "tool_name": tool.name,
        "tool_args": arguments,
        "description": describe(tool.own_name, arguments),
        "server": tool.server,
        "input_schema": tool.input_schema,
        "tool_fingerprint": tool.fingerprint,
        "rule": rule,
    }
    if replaces is not None:
        body["replaces"] = replaces
    if facade is not None:
        body["facade"] = facade
    return body


def checkpoint_question(
    occasion: Occasion, *, message: str, expires: float | None, on_expiry: str
) -> dict[str, Any]:
    """The body of a question that an approval node puts."""
    return occasion.body("checkpoint", expires=expires, on_expiry=on_expiry) | {
        "tool_name": occasion.node,
        "tool_args": {},
        "description": message,
        "rule": "an approval node",
    }


def elicitation_question(
    occasion: Occasion,
    *,
    started: Mapping[str, Any],
    elicitation: Elicitation,
    in_flight: bool,
    expires: float | None,
) -> dict[str, Any]:
    """The body of a question that a server puts before it goes on with a call.

    `in_flight`: the call waits for the answer where it is, and is lost with this process.
    """
    body = occasion.body("elicitation", expires=expires, on_expiry="cancel") | {
        "tool_name": started["tool"],
        "tool_args": started["arguments"],
        "description": describe_elicitation(started["server"], elicitation.message, elicitation.url),
        "message": elicitation.message,
        "server": started["server"],
        "rule": "the server asks",
        "in_flight": in_flight,
    }
    if elicitation.url is not None:
        body["url"] = elicitation.url
    else:
        body["input_schema"] = elicitation.schema or {"type": "object"}
    return body


def outcome_question(occasion: Occasion, *, started: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The body of a question about a call that left and whose outcome nobody knows."""
    asked = describe(started["tool"], started["arguments"])
    return occasion.body("outcome_unknown") | {
        "tool_name": started["tool"],
        "tool_args": started["arguments"],
        "description": f"**OUTCOME UNKNOWN**\n\n{asked}\n\nThe call was sent, but {reason}. It may or may not"
        " have happened. Look, then say: retry, done or failed.",
        "server": started["server"],
        "rule": "the outcome is unknown",
    }


def rejection_text(decision: Mapping[str, Any]) -> str:
    """What the model, and whoever reads the conversation, is told of a call that a human rejected."""
    text = "Operation rejected by the user. Nothing was done."
    return f"{text} Reason: {decision['reason']}" if "reason" in decision else text


def verdict_text(decision: Mapping[str, Any]) -> str:
    """What a human said at a checkpoint."""
    if "expired" in decision:
        return EXPIRED
    said = "Approved." if decision["approved"] else "Rejected."
    return f"{said} Reason: {decision['reason']}" if "reason" in decision else said


def outcome_text(decision: Mapping[str, Any]) -> str:
    """The same of a call whose outcome a human found out."""
    if decision["action"] == "done":
        return str(decision.get("result", "Done, as a human confirmed."))
    return f"Failed, as a human found: {decision['reason']}" if "reason" in decision else _FAILED


_FAILED = "Failed, as a human found."

EXPIRED = "Nobody approved the operation in time. Nothing was done."


def unknown_text(reason: str) -> str:
    """The same of a call whose outcome nobody knows."""
    return f"The outcome is unknown: {reason}. The call was not repeated."
