"""The shapes of the contract as JSON Schema 2020-12, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from ..actors.approvals.decided import MAX_TEXT
from ..actors.approvals.kinds import KINDS as KINDS_NOW
from ..actors.log.head import RunState, Status
from ..actors.log.record import CallState
from ..runtime.journal.protocol import QuestionState

Schema: TypeAlias = Mapping[str, Any]

STRING: Schema = {"type": "string"}
BOOLEAN: Schema = {"type": "boolean"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
TIME: Schema = {"type": "string", "format": "date-time"}
OBJECT: Schema = {"type": "object"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def words(*values: str) -> Schema:
    return {"type": "string", "enum": list(values)}


def shape(required: Mapping[str, Schema], optional: Mapping[str, Schema] | None = None) -> Schema:
    """An object. More keys than these may come with later versions."""
    schema: dict[str, Any] = {"type": "object", "properties": {**required, **(optional or {})}}
    if required:
        schema["required"] = list(required)
    return schema


KINDS = tuple(dict.fromkeys(("tool", "proxy", *KINDS_NOW)))
"""Of approvals, those of later versions included."""

APPROVAL_STATES = words(*get_args(QuestionState))
APPROVAL_KINDS = words(*KINDS)
STATUSES = words(*get_args(Status))
RUN_STATES: tuple[str, ...] = get_args(RunState)
CALL_STATES = words(*get_args(CallState))

_CONVERSATION = {
    "id": STRING,
    "session_id": STRING,
    "status": STATUSES,
    "created_at": TIME,
    "updated_at": TIME,
    "title": STRING,
    "last_seq": COUNT,
    "usage": ref("Usage"),
    "pending_approvals": array(ref("Approval")),
    "approvals": array(ref("Approval")),
}
_CONVERSATION_OPTIONAL = {
    "pending_approval": ref("Approval"),
    "pipeline_state": ref("PipelineState"),
    "run": ref("Run"),
}

SCHEMAS: Mapping[str, Schema] = {
    "Conversation": {
        "description": "`messages[0]` is the system prompt; `pending_approval` is the oldest pending one.",
        **shape({**_CONVERSATION, "messages": array(ref("Message"))}, _CONVERSATION_OPTIONAL),
    },
    "ConversationItem": {
        "description": "A conversation in a list: `messages` only with `view=full`.",
        **shape(_CONVERSATION, {**_CONVERSATION_OPTIONAL, "messages": array(ref("Message"))}),
    },
    "Message": shape(
        {
            "id": STRING,
            "role": words("system", "user", "assistant", "tool"),
            "content": STRING,
            "created_at": TIME,
        },
        {"tool_call": ref("ToolCall"), "node": STRING},
    ),
    "ToolCall": shape(
        {"id": STRING, "name": STRING, "arguments": OBJECT, "state": CALL_STATES},
        {"result": STRING, "is_error": BOOLEAN, "server": STRING},
    ),
    "Run": shape(
        {"id": STRING, "state": words(*RUN_STATES), "usage": ref("Usage")},
        {"code": STRING, "auth": ref("Wanted")},
    ),
    "Wanted": {
        "description": "A bearer token without which the run cannot go on.",
        **shape({"server": STRING}, {"status": COUNT, "challenge": STRING}),
    },
    "Usage": shape(
        {"input_tokens": COUNT, "output_tokens": COUNT},
        {"cached_tokens": COUNT, "cache_write_tokens": COUNT, "cost_usd": {"type": "number", "minimum": 0}},
    ),
    "Approval": shape(
        {
            "uuid": STRING,
            "conversation_id": STRING,
            "tool_name": STRING,
            "tool_args": OBJECT,
            "description": STRING,
            "created_at": TIME,
            "kind": APPROVAL_KINDS,
            "state": APPROVAL_STATES,
            "rule": {"type": ["string", "null"]},
        },
        {
            "decision": ref("Decision"),
            "server": STRING,
            "node": STRING,
            "input_schema": OBJECT,
            "message": STRING,
            "url": STRING,
            "expires_at": TIME,
            "replaces": STRING,
            "superseded_by": STRING,
            "remote_task_id": STRING,
            "remote_agent_name": STRING,
            "remote_kind": STRING,
            "path": array(STRING),
            "void_reason": STRING,
        },
    ),
    "Decision": shape(
        {"decided_at": TIME},
        {
            "approved": BOOLEAN,
            "action": STRING,
            "arguments": OBJECT,
            "content": OBJECT,
            "result": STRING,
            "reason": STRING,
            "decided_by": STRING,
        },
    ),
    "DecisionRequest": {
        "description": (
            "For `tool`, `proxy` and `checkpoint`: `answer` wins over `action` over `approved`; words count "
            "in any case. For `outcome_unknown` only `action`: `retry`, `done` or `failed`. "
            "For `elicitation` only `action`: `accept`, `decline` or `cancel`. A `proxy` whose `remote_kind` "
            "is one of these two takes its words."
        ),
        "additionalProperties": False,
        **shape(
            {},
            {
                "approved": BOOLEAN,
                "action": {
                    "type": "string",
                    "examples": [
                        "approve",
                        "reject",
                        "retry",
                        "done",
                        "failed",
                        "accept",
                        "decline",
                        "cancel",
                    ],
                },
                "answer": {"type": "string", "examples": ["yes", "no"]},
                "arguments": {"type": "object", "description": "Replaces the shown arguments in full."},
                "reason": {
                    "type": "string",
                    "maxLength": MAX_TEXT,
                    "description": "Told to the model with a rejection.",
                },
                "decided_by": {"type": "string", "maxLength": MAX_TEXT},
                "result": {"type": "string", "description": "With `done`: what the call came to."},
                "content": {"type": "object", "description": "With `accept`."},
            },
        ),
    },
    "PipelineState": shape(
        {
            "paused_node_path": array({"type": "integer"}),
            "paused_node_output_key": STRING,
            "session_state": {"type": "object", "additionalProperties": STRING},
            "user_message": STRING,
        }
    ),
    "Result": shape(
        {
            "response": STRING,
            "waiting_approval": BOOLEAN,
            "auth_required": BOOLEAN,
            "state": words("queued", *RUN_STATES),
            "approvals": array(ref("Approval")),
        },
        {
            "approval": ref("Approval"),
            "code": STRING,
            "usage": ref("Usage"),
            "run_id": STRING,
            "auth": ref("Wanted"),
        },
    ),
    "Tool": shape(
        {
            "name": STRING,
            "description": STRING,
            "inputSchema": OBJECT,
            "policy": words("run", "ask", "deny"),
        },
        {
            "server": STRING,
            "title": STRING,
            "destructiveHint": BOOLEAN,
            "readOnlyHint": BOOLEAN,
            "idempotentHint": BOOLEAN,
            "held": array(ref("HeldTool")),
        },
    ),
    "HeldTool": {
        "description": "A tool of which its server says less than before: what counts, what the server says "
        "now, and the hash that accepts it.",
        **shape(
            {"tool": STRING, "hash": STRING, "counts": ref("Hints"), "listed": ref("Hints"), "change": STRING}
        ),
    },
    "Hints": shape(
        {},
        {
            "readOnlyHint": BOOLEAN,
            "destructiveHint": BOOLEAN,
            "idempotentHint": BOOLEAN,
            "openWorldHint": BOOLEAN,
        },
    ),
    "Summary": shape(
        {"total": COUNT, "active": COUNT, "waiting_approval": COUNT, "completed": COUNT},
    ),
    "PartHealth": shape(
        {"name": STRING, "state": STRING},
        {"error": STRING, "held": array(STRING), "left_out": array(STRING)},
    ),
    "Readiness": shape(
        {
            "status": words("ready", "not_ready"),
            "mcp_servers": array(ref("PartHealth")),
            "models": array(ref("PartHealth")),
            "store": ref("PartHealth"),
        },
        {"agents": array(ref("PartHealth"))},
    ),
    "Error": {
        "description": "`error` is for people, `code` is stable for programs.",
        **shape(
            {"error": STRING, "code": STRING},
            {
                "hint": STRING,
                "field": STRING,
                "errors": array(STRING),
                "approval": ref("Approval"),
                "superseded_by": STRING,
                "accepted": BOOLEAN,
                "id": STRING,
            },
        ),
    },
    "Event": {
        "description": "The data of a server-sent event.",
        **shape({"conversation_id": STRING, "seq": COUNT, "type": STRING, "at": TIME, "body": OBJECT}),
    },
    "Delta": {
        "description": "The data of a `model.delta`: a further piece of a model's reply.",
        **shape(
            {
                "type": words("model.delta"),
                "conversation_id": STRING,
                "key": STRING,
                "node": STRING,
                "model": STRING,
                "attempt": COUNT,
            },
            {"text": STRING, "call": shape({"index": COUNT, "name": STRING, "json": STRING})},
        ),
    },
    "Progress": {
        "description": "The data of a `tool.progress`: how far a call is.",
        **shape(
            {
                "type": words("tool.progress"),
                "conversation_id": STRING,
                "key": STRING,
                "node": STRING,
                "tool": STRING,
                "server": STRING,
                "attempt": COUNT,
                "progress": NUMBER,
            },
            {"total": NUMBER, "message": STRING},
        ),
    },
    "Frame": {
        "description": "An Event (of all conversations: with `status`), a Delta, a Progress, "
        '`{"type": "heartbeat"}` or `{"type": "gap"}`.',
        **shape({"type": STRING}),
    },
    "Turn": shape({"conversation": ref("Conversation")}, {"result": ref("Result")}),
}
