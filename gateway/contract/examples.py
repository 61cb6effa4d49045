"""The examples in the OpenAPI document: one conversation that adds a resource. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

from ..http import sse
from . import agui_shapes as g
from . import frame_shapes as f
from . import shapes as w
from . import system_shapes as s
from .declaration import Shape

S = TypeVar("S", bound=Shape)


def changed(shape: S, **changes: Any) -> S:
    """A copy of the shape with other values in some fields."""
    return type(shape)(**vars(shape) | changes)


CONVERSATION_ID = "5b0c1a52-9d1e-4c0a-8f0e-2f6f0a1f7c11"
APPROVAL_ID = "b7f2a9de-35c4-4a8e-9a51-6c1f9f0b4d02"
RUN_ID = "0e9d6b1c-7a52-4e0f-b1a7-5d2c8f3e6a10"
AT = "2026-11-21T10:00:00.000Z"
MESSAGE = "add a server web-1 with value 42"
ARGUMENTS = {"name": "web-1", "value": 42}
USAGE = w.Usage(input_tokens=0, output_tokens=0)

APPROVAL = w.Approval(
    uuid=APPROVAL_ID,
    conversation_id=CONVERSATION_ID,
    tool_name="resources_add",
    tool_args=ARGUMENTS,
    description="**ADD Resource**\n\nName: web-1\nValue: 42",
    created_at=AT,
    kind="tool",
    state="pending",
    rule=None,
    server="resources",
    node="agent",
)
APPROVAL_NAME = w.ApprovalName(
    uuid=APPROVAL.uuid, kind=APPROVAL.kind, tool_name=APPROVAL.tool_name, node=APPROVAL.node
)
CALL = w.ToolCall(id="call-1", name="resources_add", arguments=ARGUMENTS, state="waiting")
MESSAGES = (
    w.Message(id="m1", role="system", content="You manage resources.", created_at=AT),
    w.Message(id="m2", role="user", content=MESSAGE, created_at=AT),
    w.Message(id="m3", role="tool", content="", created_at=AT, node="agent", tool_call=CALL),
)
RUN = w.Run(id=RUN_ID, state="waiting", usage=USAGE)
ITEM = w.ConversationItem(
    id=CONVERSATION_ID,
    session_id="1f0c9a7e",
    status="waiting_approval",
    created_at=AT,
    updated_at=AT,
    title=MESSAGE,
    last_seq=5,
    usage=USAGE,
    pending_approvals=[APPROVAL_NAME],
    approvals=[APPROVAL],
    pending_approval=APPROVAL,
    run=RUN,
)
_WITH_MESSAGES: dict[str, Any] = {**vars(ITEM), "messages": MESSAGES}
WAITING = w.Conversation(**_WITH_MESSAGES)
ENDED = changed(
    WAITING,
    status="active",
    pending_approvals=(),
    approvals=(),
    pending_approval=None,
    run=changed(RUN, state="cancelled"),
)
NEW = changed(ENDED, title="", last_seq=1, run=None, messages=MESSAGES[:1])
CONVERSATIONS = w.ConversationList(
    conversations=[ITEM], summary=w.Summary(total=1, active=0, waiting_approval=1, completed=0)
)

ASKED = w.Result(
    response=(
        f"This action requires approval:\n\n{APPROVAL.description}\n\n"
        f"Please approve or reject using the approval UUID: {APPROVAL_ID}"
    ),
    waiting_approval=True,
    auth_required=False,
    state="waiting",
    approvals=[APPROVAL_NAME],
    approval=APPROVAL,
    run_id=RUN_ID,
    usage=USAGE,
)
FINISHED = w.Result(
    response="Added web-1.",
    waiting_approval=False,
    auth_required=False,
    state="finished",
    approvals=(),
    run_id=RUN_ID,
    usage=USAGE,
)

TOOL = s.Tool(
    name="resources_add",
    description="Add a new resource with a name and value",
    inputSchema={
        "type": "object",
        "properties": {"name": {"type": "string"}, "value": {"type": ["integer", "string"]}},
        "required": ["name", "value"],
    },
    policy="ask",
    server="resources",
    destructiveHint=True,
)
ACCEPTANCE = s.Acceptance(hash="9f2c6d1b5a0e4f7788c3d2a1b0e9f8a76b5c4d3e2f1a0b9c8d7e6f5a4b3c2d1e")

READINESS = s.Readiness(
    status="ready",
    mcp_servers=[s.PartHealth(name="resources", state="connected")],
    models=[s.PartHealth(name="offline:rules", state="ready")],
    store=s.PartHealth(name="journal", state="ready"),
    memory=s.Memory(
        used_bytes=99_614_720,
        limits=[
            s.MemoryLimit(name="memory.max", value=1_073_741_824, unit="bytes"),
            s.MemoryLimit(name="server.max_connections", value=2000, unit="connections"),
        ],
    ),
)

AGUI_INPUT = g.RunAgentInput(
    threadId=CONVERSATION_ID,
    runId="r-1",
    messages=[g.AGUIMessage(id="m-1", role="user", content=MESSAGE)],
)
_STARTED = {"type": "RUN_STARTED", "threadId": CONVERSATION_ID, "runId": "r-1", "protocolVersion": "1.0"}
AGUI_STREAM = sse.encode(_STARTED).decode()

EVENT = f.Event(
    conversation_id=CONVERSATION_ID,
    seq=2,
    type="message.added",
    at=AT,
    body={"text": MESSAGE, "command": "c1"},
)
HEARTBEAT = f.Heartbeat()
STREAM = sse.encode(EVENT, EVENT.type, EVENT.seq).decode()
