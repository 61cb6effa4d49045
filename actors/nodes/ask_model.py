"""One model call of a node: bounded by the run's limits, recorded before anything is done about it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from stopgo.actors.models.messages import (
    ChatMessage,
    Complete,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    ToolCall,
)
from stopgo.actors.nodes.node import Execute, NodeFailed, RunScope
from stopgo.runtime.errors import ActorCrashed, ActorUnavailable

MAX_CALLS = 64
"""Tool calls in one reply; a reply with more is not acted upon."""


async def ask_model(
    scope: RunScope,
    execute: Execute,
    *,
    node: str,
    model: str,
    call: int,
    system: str,
    messages: tuple[ChatMessage, ...],
    tools: tuple[ModelTool, ...],
) -> Mapping[str, Any]:
    """The reply as it is recorded: `text`, `tool_calls`, `usage`. Raises `NodeFailed`."""
    request = ModelRequest(
        system=system,
        messages=messages,
        tools=tools,
        user=scope.user,
        node=node,
        turn=scope.turn,
        call=call,
        iteration=max(1, execute.iteration),
        step=f"{execute.key}:{call}",
    )
    work = partial(_complete, scope, execute, model, request)
    # Whatever follows saves first: an intent, a question, or the node's end.
    recorded = await scope.log.step(f"{execute.key}:{call}", "model", node, work, with_next=True)
    if "error" in recorded:
        raise NodeFailed.from_json(recorded["error"])
    return recorded


async def _complete(scope: RunScope, execute: Execute, name: str, request: ModelRequest) -> Mapping[str, Any]:
    services = scope.services
    await scope.log.admit(execute.meters)
    limit = services.config.limits.max_turns
    if not scope.log.take("model_calls", limit):
        return _error(
            "limit_reached", f"the run stopped after {limit} model calls (limits.max_turns)", fatal=True
        )
    try:
        model = await services.model(name)
        reply = await model.ref.ask(Complete(request))
    except ModelFailed as error:
        return _error("model_error", str(error))
    except (ActorCrashed, ActorUnavailable) as error:
        return _error("model_error", f'model "{name}" is not available: {error}')
    return _recorded(reply, request.call)


def _error(code: str, message: str, *, fatal: bool = False) -> Mapping[str, Any]:
    return {"error": NodeFailed(code, message, fatal=fatal).to_json()}


def _recorded(reply: ModelReply, call: int) -> Mapping[str, Any]:
    """What is kept of a reply; a broken one is an error, so that nothing of it is acted upon."""
    if reply.stop == "max_tokens" and reply.tool_calls:
        return _error("model_error", "the reply was cut off in the middle of its tool calls")
    if len(reply.tool_calls) > MAX_CALLS:
        count = len(reply.tool_calls)
        return _error(
            "limit_reached", f"the model asked for {count} tool calls at once; {MAX_CALLS} are allowed"
        )
    return {
        "text": reply.text,
        "tool_calls": _with_unique_ids(reply.tool_calls, call),
        "usage": {"input_tokens": reply.usage.input_tokens, "output_tokens": reply.usage.output_tokens},
    }


def _with_unique_ids(calls: tuple[ToolCall, ...], number: int) -> list[dict[str, Any]]:
    seen: set[str] = set()
    kept = []
    for index, call in enumerate(calls):
        id = call.id if call.id and call.id not in seen else f"call_{number}_{index}"
        seen.add(id)
        body = {"id": id, "name": call.name, "arguments": dict(call.arguments)}
        kept.append(body if call.problem is None else {**body, "problem": call.problem})
    return kept
