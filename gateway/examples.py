"""The values the contract's examples are made of: one conversation that adds a resource."""

from __future__ import annotations

from typing import Any

CONVERSATION_ID = "5b0c1a52-9d1e-4c0a-8f0e-2f6f0a1f7c11"
APPROVAL_ID = "b7f2a9de-35c4-4a8e-9a51-6c1f9f0b4d02"
RUN_ID = "0e9d6b1c-7a52-4e0f-b1a7-5d2c8f3e6a10"
AT = "2026-11-21T10:00:00.000Z"
USAGE = {"input_tokens": 0, "output_tokens": 0}
RUN = {"id": RUN_ID, "state": "waiting", "usage": USAGE}

APPROVAL: dict[str, Any] = {
    "uuid": APPROVAL_ID,
    "conversation_id": CONVERSATION_ID,
    "tool_name": "resources_add",
    "tool_args": {"name": "web-1", "value": 42},
    "description": "**ADD Resource**\n\nName: web-1\nValue: 42",
    "created_at": AT,
    "kind": "tool",
    "state": "pending",
    "rule": None,
    "server": "resources",
    "node": "agent",
}

ITEM: dict[str, Any] = {
    "id": CONVERSATION_ID,
    "session_id": "1f0c9a7e",
    "status": "waiting_approval",
    "created_at": AT,
    "updated_at": AT,
    "title": "add a server web-1 with value 42",
    "last_seq": 5,
    "usage": USAGE,
    "pending_approvals": [APPROVAL],
    "approvals": [APPROVAL],
    "pending_approval": APPROVAL,
    "run": RUN,
}

WAITING: dict[str, Any] = {
    **ITEM,
    "messages": [
        {"id": "m1", "role": "system", "content": "You manage resources.", "created_at": AT},
        {"id": "m2", "role": "user", "content": "add a server web-1 with value 42", "created_at": AT},
        {
            "id": "m3",
            "role": "tool",
            "content": "",
            "created_at": AT,
            "node": "agent",
            "tool_call": {
                "id": "call-1",
                "name": "resources_add",
                "arguments": {"name": "web-1", "value": 42},
                "state": "waiting",
            },
        },
    ],
}

_QUIET: dict[str, Any] = {"status": "active", "pending_approvals": [], "approvals": []}
NEW: dict[str, Any] = {
    **{key: WAITING[key] for key in ("id", "session_id", "created_at", "updated_at")},
    **_QUIET,
    "title": "",
    "last_seq": 1,
    "usage": USAGE,
    "messages": WAITING["messages"][:1],
}
ENDED: dict[str, Any] = {
    **{key: value for key, value in WAITING.items() if key != "pending_approval"},
    **_QUIET,
    "run": {**RUN, "state": "cancelled"},
}

WAITING_RESULT: dict[str, Any] = {
    "response": (
        "This action requires approval:\n\n**ADD Resource**\n\nName: web-1\nValue: 42\n\n"
        f"Please approve or reject using the approval UUID: {APPROVAL_ID}"
    ),
    "waiting_approval": True,
    "auth_required": False,
    "state": "waiting",
    "approvals": [APPROVAL],
    "approval": APPROVAL,
    "run_id": RUN_ID,
    "usage": USAGE,
}
FINISHED_RESULT: dict[str, Any] = {
    "response": "Added web-1.",
    "waiting_approval": False,
    "auth_required": False,
    "state": "finished",
    "approvals": [],
    "run_id": RUN_ID,
    "usage": USAGE,
}

TOOL: dict[str, Any] = {
    "name": "resources_add",
    "description": "Add a new resource with a name and value",
    "inputSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": ["integer", "string"]}},
        "required": ["name", "value"],
    },
    "policy": "ask",
    "server": "resources",
    "destructiveHint": True,
}

HASH = "9f2c6d1b5a0e4f7788c3d2a1b0e9f8a76b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e"
"""Of a definition whose hints have become weaker."""

READINESS: dict[str, Any] = {
    "status": "ready",
    "mcp_servers": [{"name": "resources", "state": "connected"}],
    "models": [{"name": "offline:rules", "state": "ready"}],
    "store": {"name": "journal", "state": "ready"},
}

EVENT = (
    "id: 2\n"
    "event: message.added\n"
    f'data: {{"conversation_id":"{CONVERSATION_ID}","seq":2,"type":"message.added","at":"{AT}",'
    '"body":{"text":"add a server web-1 with value 42","command":"c1"}}\n\n'
)
