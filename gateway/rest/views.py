"""Conversion of the runtime's values to the shapes of the contract. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any, assert_never, get_args

import attrs

from ...actors.agent.lists import ApprovalPage, ConversationItem, ConversationPage, ListedTool
from ...actors.approvals.kinds import Approval, approval_of
from ...actors.common import errors
from ...actors.common.kept_forms import KeptForms
from ...actors.conversation.result import Result, Turn
from ...actors.gate.halt import HaltState
from ...actors.log.fold.head import Head, RunHead, Status
from ...actors.log.fold.record import Message
from ...actors.log.fold.state import Conversation
from ...actors.log.words import keys
from ...actors.log.words.deltas import ModelDelta, ToolProgress
from ...actors.models.messages.messages import ArgumentsDelta, TextDelta
from ...actors.models.messages.usage import Spent
from ...actors.servers.health import Health, PartHealth
from ...actors.tools.delegation import is_remote
from ...actors.tools.known import change
from ...actors.tools.tool import Tool
from ...runtime.journal.protocol import Event
from ...runtime.journal.question import Question
from ..contract import frame_shapes as f
from ..contract import shapes as w
from ..contract import system_shapes as s
from ..http.chunked_json import PART_ITEMS, PART_SIZE, KeptParts, Many, listed
from ..http.errors import NOT_STORED

STATUSES: tuple[Status, ...] = get_args(Status)


# ----------------------------------------------------------------- times

_SECONDS = [f"{number:02}." for number in range(60)]
_MILLISECONDS = [f"{number:03}Z" for number in range(1000)]


def timestamp(at: float) -> str:
    """UTC seconds since the epoch as RFC 3339."""
    minute = int(at // 60)
    seconds, milliseconds = divmod(round((at - 60 * minute) * 1_000_000) // 1000, 1000)
    if seconds == 60:
        minute, seconds = minute + 1, 0
    return _minute(minute) + _SECONDS[seconds] + _MILLISECONDS[milliseconds]


@lru_cache(maxsize=4096)
def _minute(number: int) -> str:
    # Cached, because most messages and events share their minute with others.
    return datetime.fromtimestamp(60 * number, UTC).isoformat()[: len("2026-11-21T10:00:")]


# ----------------------------------------------------------------- conversations


def conversation_view(conversation: Conversation, *, tree: bool, minimal: bool = False) -> w.Conversation:
    """`tree`: the agent has a tree of nodes, so a paused run has a `pipeline_state`. `minimal`: leave out the
    messages before the user's last one, and the settled approvals of earlier turns."""
    approvals: Sequence[Approval] = tuple(conversation.approvals.values())
    messages: Sequence[Message] = conversation.messages
    if minimal:
        messages = messages[_begin_of_turn(messages) :]
        turn = keys.root(0 if conversation.head.run is None else conversation.head.run.turn)
        approvals = [each for each in approvals if each.settled is None or each.asked.key.startswith(turn)]
    pending = conversation.pending_approvals
    kept = None if minimal else conversation.kept
    return w.Conversation(
        **_common(
            conversation,
            pending,
            listed(approvals, brief_approval, _size_of_approval, _kept(kept, "approvals")),
            tree,
        ),
        messages=listed(messages, message_view, _size_of_message, _kept(kept, "messages")),
    )


def _begin_of_turn(messages: Sequence[Message]) -> int:
    """The index of the last message of the user."""
    found = (index for index in range(len(messages) - 1, 0, -1) if messages[index].role == "user")
    return next(found, 0)


def _kept(forms: KeptForms | None, key: str) -> KeptParts | None:
    """The written parts of a list of a conversation that is active."""
    if forms is None:
        return None
    found = forms.get(key, KeptParts)
    return KeptParts(lambda grown: forms.keep(key, grown, grown.size)) if found is None else found


def item_view(item: ConversationItem, *, tree: bool) -> w.ConversationItem:
    """A conversation in a list: without messages, unless the item has the full conversation."""
    if item.conversation is not None:
        return conversation_view(item.conversation, tree=tree)
    approvals = listed(item.approvals, brief_approval, _size_of_approval)
    return w.ConversationItem(**_common(item, item.pending_approvals, approvals, tree))


def _size_of_item(item: ConversationItem) -> int:
    messages = 0 if item.conversation is None else len(item.conversation.messages)
    return (messages + len(item.approvals)) * PART_SIZE // PART_ITEMS


def _common(
    of: Conversation | ConversationItem,
    pending: Sequence[Question],
    approvals: Sequence[w.Approval],
    tree: bool,
) -> dict[str, Any]:
    head: Head = of.head
    oldest = pending[0] if pending else None
    return {
        "id": of.id,
        "session_id": head.session_id,
        "status": head.status,
        "created_at": timestamp(of.created),
        "updated_at": timestamp(of.updated),
        "title": head.title,
        "owner": head.owner or None,
        "last_seq": of.last_seq,
        "usage": _usage(head.usage),
        "pending_approvals": [approval_name(each) for each in pending],
        "approvals": approvals,
        "pending_approval": oldest and approval_view(oldest),
        "pipeline_state": _pipeline_state(oldest.body) if oldest is not None and tree else None,
        "run": head.run and run_view(head.run),
    }


def _usage(used: Spent) -> w.Usage:
    return w.Usage(**used.to_json())


def _pipeline_state(body: Mapping[str, Any]) -> w.PipelineState:
    return w.PipelineState(
        paused_node_path=body.get("path") or (),
        paused_node_output_key=body.get("output_key") or "",
        session_state=body.get("session_state") or {},
        user_message=body.get("user_message") or "",
    )


def run_view(run: RunHead) -> w.Run:
    return w.Run(id=run.id, state=run.state, usage=_usage(run.usage), code=run.code, auth=_wanted(run.auth))


def _wanted(auth: Mapping[str, Any] | None) -> w.Wanted | None:
    if auth is None:
        return None
    return w.Wanted(server=auth["server"], status=auth.get("status"), challenge=auth.get("challenge"))


def message_view(message: Message) -> w.Message:
    call = message.call
    return w.Message(
        id=message.id,
        role=message.role,
        content=message.content,
        created_at=timestamp(message.created),
        node=message.node,
        pictures=[w.Picture(media_type=each.media_type, size=each.size) for each in message.pictures] or None,
        tool_call=None
        if call is None
        else w.ToolCall(
            name=call.name,
            arguments=call.arguments,
            id=call.id,
            state=call.state,
            result=call.result,
            is_error=call.is_error,
            server=call.server,
        ),
    )


def _size_of_message(message: Message) -> int:
    call = message.call
    return len(message.content) if call is None else 2 * len(message.content) + _size(call.arguments)


def _size(values: Mapping[str, Any]) -> int:
    """Characters of the texts among the values; other values are never long."""
    return sum(len(value) for value in values.values() if isinstance(value, str))


def result_view(result: Result) -> w.Result:
    return w.Result(
        response=result.response,
        waiting_approval=result.waiting_approval,
        auth_required=result.auth_required,
        state=result.state,
        approvals=[approval_name(each) for each in result.approvals],
        approval=None if result.approval is None else approval_view(result.approval),
        code=result.code,
        run_id=result.run_id,
        usage=None if result.run_id is None else _usage(result.usage),
        auth=_wanted(result.auth),
    )


def turn_view(turn: Turn, *, tree: bool, minimal: bool = False) -> w.Turn:
    return w.Turn(
        conversation=conversation_view(turn.conversation, tree=tree, minimal=minimal),
        result=None if turn.result is None else result_view(turn.result),
    )


def not_stored_view(turn: Turn, *, tree: bool, minimal: bool) -> s.Error:
    """The error for a message that was refused because an approval is pending. Clients of the former API read
    `result`."""
    shown, result = turn_view(turn, tree=tree, minimal=minimal), turn.result
    assert result is not None
    return s.Error(
        error=result.response,
        code=NOT_STORED[1],
        hint="Decide the approvals, or cancel the run. Then send the message again.",
        approvals=listed(result.approvals, approval_view, _size_of_approval),
        conversation=shown.conversation,
        result=shown.result,
    )


def conversations_view(page: ConversationPage, *, tree: bool) -> w.ConversationList:
    counts: dict[str, int] = {status: page.summary.get(status, 0) for status in STATUSES}
    return w.ConversationList(
        conversations=Many(page.conversations, partial(item_view, tree=tree), _size_of_item),
        summary=w.Summary(total=sum(counts.values()), **counts),
        next_cursor=page.next_cursor,
        broken=_broken(page.broken),
    )


def _broken(reasons: Mapping[str, str]) -> Sequence[w.Broken] | None:
    found = ((id, errors.broken(reason)) for id, reason in reasons.items())
    broken = [w.Broken(id=id, error=error.message, code=error.code, hint=error.hint) for id, error in found]
    return broken or None


# ----------------------------------------------------------------- approvals

_FROM_DECISION = attrs.fields_dict(w.Decision).keys() - {"decided_at"}
_FROM_BODY = {field.name for field in attrs.fields(w.Approval) if field.default is None} - {
    "path",
    "expires_at",
    "decision",
    "requires",
    "hash",
    "votes",
    "policy",
}
"""Fields whose values are in the question's body under the same names."""


def approval_view(question: Question, *, with_schema: bool = True) -> w.Approval:
    """`with_schema`: include the schema of edited arguments, which is often larger than all the rest."""
    body, expires = question.body, question.expires
    voting: dict[str, Any] = {}
    if body.get("requires") is not None:
        body, voting = _voting(question)
    named = _FROM_BODY if with_schema else _FROM_BODY - {"input_schema"}
    return w.Approval(
        uuid=question.id,
        conversation_id=question.stream,
        tool_name=body.get("tool_name") or "",
        tool_args=body.get("tool_args") or {},
        description=body.get("description") or "",
        created_at=timestamp(question.created),
        kind=question.kind,
        state=question.state,
        rule=body.get("rule") or None,
        path=body.get("agents") or None,
        policy=(body.get("verdict") or {}).get("policy"),
        **{name: body[name] for name in named & body.keys()},
        **voting,
        expires_at=None if expires is None else timestamp(expires),
        decision=None if question.decision is None else _decision(question.decision, question.settled),
    )


def _voting(question: Question) -> tuple[Mapping[str, Any], dict[str, Any]]:
    """The body of a question with a requirement as it is shown now, and the fields about its votes."""
    approval = question if isinstance(question, Approval) else approval_of(question)
    shown, body = approval.shown, question.body
    if approval.state == "pending" and shown is not approval.asked:
        body = {**body, "tool_args": shown.tool_args, "description": shown.description}
    votes = [
        w.Vote(by=each.voter, at=timestamp(each.at), reason=each.decision.get("reason"))
        for each in question.votes
    ]
    requires = w.Requirement(**body["requires"])
    return body, {"requires": requires, "hash": shown.hash, "votes": votes or None}


brief_approval = partial(approval_view, with_schema=False)


def approval_name(question: Question) -> w.ApprovalName:
    body = question.body
    return w.ApprovalName(
        uuid=question.id, kind=question.kind, tool_name=body.get("tool_name") or "", node=body.get("node")
    )


def _size_of_approval(question: Question) -> int:
    return _size(question.body) + _size(question.body.get("tool_args") or {})


def _decision(decision: Mapping[str, Any], settled: float | None) -> w.Decision:
    assert settled is not None  # set together with the decision
    given = {name: decision[name] for name in _FROM_DECISION & decision.keys()}
    return w.Decision(**given, decided_at=timestamp(settled))


def approvals_view(page: ApprovalPage) -> w.ApprovalList:
    return w.ApprovalList(
        approvals=listed(page.approvals, approval_view, _size_of_approval),
        next_cursor=page.next_cursor,
        broken=_broken(page.broken),
    )


# ----------------------------------------------------------------- the agent


def tool_view(listed: ListedTool) -> s.Tool:
    tool, hints = listed.tool, listed.tool.hints.in_effect
    return s.Tool(
        name=tool.name,
        description=tool.description,
        inputSchema=tool.input_schema,
        # Existing clients assume that a named server is a tool server.
        server=None if is_remote(tool.server) else tool.server,
        policy=listed.policy,
        nodes=None if listed.nodes is None else [s.NodePolicy(node=n, policy=p) for n, p in listed.nodes],
        title=tool.title,
        destructiveHint=hints.destructive,
        readOnlyHint=hints.read_only,
        idempotentHint=hints.idempotent,
        held=[_held(each) for each in listed.held] or None,
    )


def _held(tool: Tool) -> s.HeldTool:
    return s.HeldTool(
        tool=tool.own_name,
        hash=tool.hash,
        counts=s.Hints(**tool.hints.in_effect.to_json()),
        listed=s.Hints(**tool.listed_hints.to_json()),
        change=change(tool),
    )


def halt_view(state: HaltState) -> s.Halt:
    return s.Halt(
        halted=state.halted,
        in_flight=state.in_flight,
        reason=state.reason,
        by=state.by,
        at=None if state.at is None else timestamp(state.at),
    )


def health_view(health: Health, halt: HaltState, memory: s.Memory | None = None) -> s.Readiness:
    return s.Readiness(
        status="ready" if health.ready else "not_ready",
        mcp_servers=[_part(server) for server in health.servers],
        models=[_part(model) for model in health.models],
        store=_part(health.store),
        agents=[_part(agent) for agent in health.agents] or None,
        channels=[_part(channel) for channel in health.channels] or None,
        halt=halt_view(halt) if halt.halted else None,
        need_newer=health.need_newer or None,
        memory=memory,
    )


def _part(part: PartHealth) -> s.PartHealth:
    held, left_out = part.held or None, part.left_out or None
    return s.PartHealth(name=part.name, state=part.state, error=part.error, held=held, left_out=left_out)


# ----------------------------------------------------------------- frames


def event_view(event: Event, status: Status | None = None) -> f.Event:
    """`status`: the conversation's status after the event, in a stream over all conversations."""
    return f.Event(
        conversation_id=event.stream,
        seq=event.seq,
        type=event.type,
        at=timestamp(event.at),
        body=event.body,
        status=status,
    )


def delta_view(delta: ModelDelta) -> f.Delta:
    text: str | None = None
    call: f.ArgumentsPiece | None = None
    match delta.delta:
        case TextDelta(text=text):
            pass
        case ArgumentsDelta(index=index, name=name, json=json):
            call = f.ArgumentsPiece(index=index, name=name, json=json)
        case _:
            assert_never(delta.delta)
    return f.Delta(
        conversation_id=delta.conversation,
        key=delta.key,
        node=delta.node,
        model=delta.model,
        attempt=delta.attempt,
        text=text,
        call=call,
    )


def progress_view(report: ToolProgress) -> f.Progress:
    return f.Progress(
        conversation_id=report.conversation,
        key=report.key,
        node=report.node,
        tool=report.tool,
        server=report.server,
        attempt=report.attempt,
        progress=report.progress.progress,
        total=report.progress.total,
        message=report.progress.message,
    )
