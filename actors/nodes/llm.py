"""Llm: ask the model, settle all the calls of its reply, and again, until it answers with text."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import attrs
import trio

from stopgo.actors import events as e
from stopgo.actors.models.messages import (
    AssistantMessage,
    ChatMessage,
    Complete,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from stopgo.actors.nodes.call import CallEnd, Calls
from stopgo.actors.nodes.node import Execute, NodeEnd, NodeFailed, RunScope, execute_once
from stopgo.actors.nodes.prompt import fill
from stopgo.actors.result import CANCELLED
from stopgo.config.model import LlmNode
from stopgo.config.placeholders import USER_MESSAGE
from stopgo.runtime.context import Behaviour, Context
from stopgo.runtime.errors import ActorCrashed, ActorUnavailable

MAX_CALLS = 64
"""Tool calls in one reply; a reply with more is not acted upon."""


def llm(spec: LlmNode, scope: RunScope) -> Behaviour[Execute]:
    async def behaviour(ctx: Context[Execute]) -> None:
        await execute_once(ctx, _Llm(spec, scope).execute)

    return behaviour


class _Llm:
    def __init__(self, spec: LlmNode, scope: RunScope) -> None:
        self._spec = spec
        self._scope = scope

    async def execute(self, execute: Execute) -> NodeEnd:
        spec, scope, log = self._spec, self._scope, self._scope.log
        system = fill(spec.prompt, {**execute.session, USER_MESSAGE: scope.user})
        messages = self._history()
        calls = Calls(scope, spec, execute)
        for turn in range(1, spec.max_turns + 1):
            key = f"{scope.key(execute.path)}:{turn}"
            ask = partial(self._complete, system, tuple(messages), turn)
            # Whatever follows saves first: an intent, a question, or the node's end.
            recorded = await log.step(key, "model", spec.name, ask, with_next=True)
            if "error" in recorded:
                raise NodeFailed(recorded["error"]["code"], recorded["error"]["message"])
            if not recorded["tool_calls"]:
                return NodeEnd(recorded["text"])
            asked = tuple(ToolCall(**call) for call in recorded["tool_calls"])
            ends = await self._settle(calls, key, asked)
            if execute.place.in_sequence and any(end.rejected for end in ends):
                return NodeEnd(CANCELLED, rejected=True)
            messages.append(AssistantMessage(recorded["text"], self._as_sent(key, asked)))
            messages.extend(
                ToolMessage(call.id, call.name, end.content, end.is_error)
                for call, end in zip(asked, ends, strict=True)
            )
        raise NodeFailed(
            "limit_reached", f'node "{spec.name}" stopped after {spec.max_turns} model calls (max_turns)'
        )

    def _as_sent(self, key: str, asked: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        """The calls with their final arguments: a human may have edited some."""
        records = [self._scope.log.run.calls[f"{key}.{index}"] for index in range(len(asked))]
        return tuple(
            attrs.evolve(call, arguments=record.started["arguments"]) if record.started else call
            for call, record in zip(asked, records, strict=True)
        )

    def _history(self) -> list[ChatMessage]:
        messages: list[ChatMessage] = []
        if self._spec.history == "conversation":
            for exchange in self._scope.earlier:
                messages.append(UserMessage(exchange.user))
                if exchange.answer:  # a provider refuses a message without text
                    messages.append(AssistantMessage(exchange.answer))
        messages.append(UserMessage(self._scope.user))
        return messages

    async def _settle(self, calls: Calls, key: str, asked: tuple[ToolCall, ...]) -> list[CallEnd]:
        log = self._scope.log
        limiter = trio.CapacityLimiter(self._scope.services.config.tools.max_parallel)
        jobs = [partial(calls.settle, f"{key}.{index}", call, limiter) for index, call in enumerate(asked)]
        ends = await log.gather(*jobs)
        if key not in log.run.batches:
            failed = sum(end.is_error for end in ends)
            log.note(
                e.batch_finished(
                    key, self._spec.name, size=len(ends), succeeded=len(ends) - failed, failed=failed
                )
            )
        return ends

    async def _complete(self, system: str, messages: tuple[ChatMessage, ...], turn: int) -> Mapping[str, Any]:
        services = self._scope.services
        await self._scope.log.admit()
        try:
            model = await services.model(self._spec.model)
            request = ModelRequest(
                system=system,
                messages=messages,
                tools=services.offered(),
                user=self._scope.user,
                node=self._spec.name,
                turn=self._scope.turn,
                call=turn,
            )
            reply = await model.ask(Complete(request))
        except ModelFailed as error:
            return _error("model_error", str(error))
        except (ActorCrashed, ActorUnavailable) as error:
            return _error("model_error", f'model "{self._spec.model}" is not available: {error}')
        return _recorded(reply, turn)


def _error(code: str, message: str) -> Mapping[str, Any]:
    return {"error": {"code": code, "message": message}}


def _recorded(reply: ModelReply, turn: int) -> Mapping[str, Any]:
    """What is kept of a reply; a broken one is an error, so that nothing of it is acted upon."""
    if reply.stop == "max_tokens" and reply.tool_calls:
        return _error("model_error", "the reply was cut off in the middle of its tool calls")
    if len(reply.tool_calls) > MAX_CALLS:
        return _error(
            "limit_reached",
            f"the model asked for {len(reply.tool_calls)} tool calls at once; {MAX_CALLS} are allowed",
        )
    return {
        "text": reply.text,
        "tool_calls": _with_unique_ids(reply.tool_calls, turn),
        "usage": {
            "input_tokens": reply.usage.input_tokens,
            "output_tokens": reply.usage.output_tokens,
        },
    }


def _with_unique_ids(calls: tuple[ToolCall, ...], turn: int) -> list[dict[str, Any]]:
    seen: set[str] = set()
    kept = []
    for index, call in enumerate(calls):
        id = call.id if call.id and call.id not in seen else f"call_{turn}_{index}"
        seen.add(id)
        kept.append({"id": id, "name": call.name, "arguments": dict(call.arguments)})
    return kept
