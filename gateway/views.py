"""What the runtime's values look like as JSON. Pure.

Keys that existing clients rely on come first in each function and keep their names and types;
what was added stands below them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, TypeAlias, assert_never, get_args

from ..actors.common import errors
from ..actors.conversation.lists import ConversationItem, ListedTool
from ..actors.conversation.result import Result, Turn
from ..actors.log.deltas import MODEL_DELTA, TOOL_PROGRESS, ModelDelta, ToolProgress
from ..actors.log.head import Head, RunHead, Status
from ..actors.log.record import Message
from ..actors.log.state import Conversation
from ..actors.models.messages import ArgumentsDelta, TextDelta
from ..actors.tools.delegation import is_remote
from ..actors.tools.health import Health, PartHealth
from ..actors.tools.known import change
from ..actors.tools.tool import Tool
from ..runtime.journal.protocol import Event, Question
from .http.chunked_json import PART_ITEMS, PART_SIZE, Many, listed, parted

Json: TypeAlias = dict[str, Any]

STATUSES: tuple[Status, ...] = get_args(Status)


def timestamp(at: float) -> str:
    """UTC seconds since the epoch as RFC 3339."""
    minute = int(at // 60)
    milliseconds = round((at - 60 * minute) * 1_000_000) // 1000
    if milliseconds == 60_000:
        minute, milliseconds = minute + 1, 0
    return f"{_minute(minute)}{milliseconds // 1000:02}.{milliseconds % 1000:03}Z"


@lru_cache(maxsize=4096)
def _minute(number: int) -> str:
    # Kept, for each message and event has its time, and most of them share their minute with others.
    return datetime.fromtimestamp(60 * number, UTC).isoformat()[: len("2026-11-21T10:00:")]


def conversation_view(conversation: Conversation, *, tree: bool) -> Json:
    """`tree`: the agent has a tree of nodes, so a pause has a place in it. For `parts`, as all with lists."""
    approvals = conversation.approvals
    view = _conversation(
        conversation.id,
        conversation.head,
        conversation.created,
        conversation.updated,
        conversation.last_seq,
        [approvals[id] for id in conversation.head.pending],
        tuple(approvals.values()),
        tree,
    )
    view["messages"] = listed(conversation.messages, message_view, _size_of_message)
    return parted(view)


def items_view(items: Sequence[ConversationItem], *, tree: bool) -> Many[ConversationItem]:
    return listed(items, partial(item_view, tree=tree), _size_of_item)


def rest_of_page(next_cursor: str | None, broken: Mapping[str, str]) -> Json:
    """What a page has beside its items: where the next begins, and conversations that cannot be read, by id
    with the reason."""
    rest: Json = {} if next_cursor is None else {"next_cursor": next_cursor}
    if broken:
        told = {id: errors.broken(why) for id, why in broken.items()}
        rest["broken"] = [
            {"id": id, "error": it.message, "code": it.code, "hint": it.hint} for id, it in told.items()
        ]
    return rest


def item_view(item: ConversationItem, *, tree: bool) -> Json:
    """A conversation as lists show it: without messages, unless the item has the full conversation."""
    if item.conversation is not None:
        return conversation_view(item.conversation, tree=tree)
    view = _conversation(
        item.id, item.head, item.created, item.updated, item.last_seq, item.pending, item.approvals, tree
    )
    return parted(view)


def _size_of_item(item: ConversationItem) -> int:
    messages = 0 if item.conversation is None else len(item.conversation.messages)
    return (messages + len(item.approvals)) * PART_SIZE // PART_ITEMS


def _conversation(
    id: str,
    head: Head,
    created: float,
    updated: float,
    last_seq: int,
    pending: Sequence[Question],
    approvals: Sequence[Question],
    tree: bool,
) -> Json:
    view: Json = {
        "id": id,
        "session_id": head.session_id,
        "status": head.status,
        "created_at": timestamp(created),
        "updated_at": timestamp(updated),
        "title": head.title,
        "last_seq": last_seq,
        "usage": head.used.to_json(),
        "pending_approvals": approvals_view(pending),
        "approvals": approvals_view(approvals),
    }
    if pending:
        view["pending_approval"] = approval_view(pending[0])
        if tree:
            view["pipeline_state"] = _pipeline_state(pending[0].body)
    if head.run is not None:
        view["run"] = run_view(head.run)
    return view


def _pipeline_state(body: Mapping[str, Any]) -> Json:
    return {
        "paused_node_path": list(body.get("path") or ()),
        "paused_node_output_key": body.get("output_key") or "",
        "session_state": dict(body.get("session_state") or {}),
        "user_message": body.get("user_message") or "",
    }


def run_view(run: RunHead) -> Json:
    view: Json = {
        "id": run.id,
        "state": run.state,
        "usage": run.used.to_json(),
    }
    if run.code is not None:
        view["code"] = run.code
    if run.auth is not None:
        view["auth"] = dict(run.auth)
    return view


def message_view(message: Message) -> Json:
    view: Json = {
        "id": message.id,
        "role": message.role,
        "content": message.content,
        "created_at": timestamp(message.created),
    }
    if message.node is not None:
        view["node"] = message.node
    if (call := message.call) is not None:
        tool_call: Json = {"name": call.name, "arguments": call.arguments, "id": call.id, "state": call.state}
        for key, value in (("result", call.result), ("is_error", call.is_error), ("server", call.server)):
            if value is not None:
                tool_call[key] = value
        view["tool_call"] = tool_call
    return view


def _size_of_message(message: Message) -> int:
    call = message.call
    return len(message.content) if call is None else 2 * len(message.content) + _size(call.arguments)


def _size(values: Mapping[str, Any]) -> int:
    """Of the texts among them: whatever is long in there, hardly ever is it anything else."""
    return sum(len(value) for value in values.values() if isinstance(value, str))


_OPTIONAL_OF_APPROVAL = (
    "remote_task_id",
    "remote_agent_name",
    "remote_kind",
    "server",
    "node",
    "input_schema",
    "message",
    "url",
    "replaces",
    "superseded_by",
    "void_reason",
)


def approval_view(question: Question) -> Json:
    body = question.body
    view: Json = {
        "uuid": question.id,
        "conversation_id": question.stream,
        "tool_name": body.get("tool_name") or "",
        "tool_args": body.get("tool_args") or {},
        "description": body.get("description") or "",
        "created_at": timestamp(question.created),
        "kind": question.kind,
        "state": question.state,
        "rule": body.get("rule") or None,
    }
    if body.get("agents"):
        view["path"] = list(body["agents"])
    for key in _OPTIONAL_OF_APPROVAL:
        if body.get(key) is not None:
            view[key] = body[key]
    if question.expires is not None:
        view["expires_at"] = timestamp(question.expires)
    if question.decision is not None:
        view["decision"] = _decision(question.decision, question.settled)
    return view


def approvals_view(questions: Sequence[Question]) -> Many[Question]:
    return listed(questions, approval_view, _size_of_approval)


def _size_of_approval(question: Question) -> int:
    return _size(question.body) + _size(question.body.get("tool_args") or {})


def _decision(decision: Mapping[str, Any], settled: float | None) -> Json:
    assert settled is not None  # with every decision there is
    view = {**decision, "decided_at": timestamp(settled)}
    view.pop("token", None)  # that there was one is for the run to know
    return view


def result_view(result: Result, approvals: Mapping[str, Question]) -> Json:
    """`approvals` are those of the conversation by id."""
    asked = [approval_view(approvals[id]) for id in result.approvals if id in approvals]
    view: Json = {
        "response": result.response,
        "waiting_approval": result.waiting_approval,
        "auth_required": result.auth_required,
        "state": result.state,
        "approvals": asked,
    }
    if asked:
        view["approval"] = asked[0]
    if result.code is not None:
        view["code"] = result.code
    if result.run_id is not None:
        view["run_id"] = result.run_id
        view["usage"] = result.used.to_json()
    if result.auth is not None:
        view["auth"] = dict(result.auth)
    return view


def turn_view(turn: Turn, *, tree: bool) -> Json:
    view: Json = {"conversation": conversation_view(turn.conversation, tree=tree)}
    if turn.result is not None:
        view["result"] = result_view(turn.result, turn.conversation.approvals)
    return parted(view)


def tally_view(tally: Mapping[str, int]) -> Json:
    counts: dict[str, int] = {status: tally.get(status, 0) for status in STATUSES}
    return {"total": sum(counts.values()), **counts}


def tool_view(listed: ListedTool) -> Json:
    tool = listed.tool
    view: Json = {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": tool.input_schema,
        # Existing clients take a server for one that has tools.
        **({} if is_remote(tool.server) else {"server": tool.server}),
        "policy": listed.policy,
    }
    optional = (
        ("title", tool.title),
        ("destructiveHint", tool.hints.destructive),
        ("readOnlyHint", tool.hints.read_only),
        ("idempotentHint", tool.hints.idempotent),
    )
    view.update((key, value) for key, value in optional if value is not None)
    if listed.held:
        view["held"] = [_held(each) for each in listed.held]
    return view


def _held(tool: Tool) -> Json:
    return {
        "tool": tool.own_name,
        "hash": tool.hash,
        "counts": tool.hints.to_json(),
        "listed": tool.listed_hints.to_json(),
        "change": change(tool),
    }


def health_view(health: Health) -> Json:
    view: Json = {
        "status": "ready" if health.ready else "not_ready",
        "mcp_servers": [_part(server) for server in health.servers],
        "models": [_part(model) for model in health.models],
        "store": _part(health.store),
    }
    if health.agents:
        view["agents"] = [_part(agent) for agent in health.agents]
    return view


def _part(part: PartHealth) -> Json:
    view: Json = {"name": part.name, "state": part.state}
    if part.error is not None:
        view["error"] = part.error
    if part.held:
        view["held"] = part.held
    if part.left_out:
        view["left_out"] = list(part.left_out)
    return view


def event_view(event: Event) -> Json:
    return {
        "conversation_id": event.stream,
        "seq": event.seq,
        "type": event.type,
        "at": timestamp(event.at),
        "body": event.body,
    }


def delta_view(told: ModelDelta) -> Json:
    view: Json = {
        "type": MODEL_DELTA,
        "conversation_id": told.conversation,
        "key": told.key,
        "node": told.node,
        "model": told.model,
        "attempt": told.attempt,
    }
    match told.delta:
        case TextDelta(text=text):
            view["text"] = text
        case ArgumentsDelta(index=index, name=name, json=piece):
            view["call"] = {"index": index, "name": name, "json": piece}
        case _:
            assert_never(told.delta)
    return view


def progress_view(told: ToolProgress) -> Json:
    view: Json = {
        "type": TOOL_PROGRESS,
        "conversation_id": told.conversation,
        "key": told.key,
        "node": told.node,
        "tool": told.tool,
        "server": told.server,
        "attempt": told.attempt,
        "progress": told.progress.progress,
    }
    if told.progress.total is not None:
        view["total"] = told.progress.total
    if told.progress.message is not None:
        view["message"] = told.progress.message
    return view
