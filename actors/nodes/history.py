"""What a node's model is told of the past: made of the record alone, so a replay tells it the same."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from ...config.nodes import LlmNode
from ..calls.settler import end_of
from ..log.outcomes import Replied
from ..models.messages import (
    AssistantMessage,
    ChatMessage,
    ToolMessage,
    UserMessage,
)
from ..tools.facade import wrapped
from .node import Execute, RunScope


def earlier_turns(scope: RunScope, spec: LlmNode) -> list[ChatMessage]:
    """Their user messages and final answers, never what other nodes said (FR-004)."""
    messages: list[ChatMessage] = []
    if spec.history == "conversation":
        for turn in scope.earlier:
            messages.append(UserMessage(turn.user))
            if turn.answer:  # a provider refuses a message without text
                messages.append(AssistantMessage(turn.answer))
    return messages


def this_turn(scope: RunScope, spec: LlmNode, execute: Execute) -> list[ChatMessage]:
    """What was said of it before the node's first model call of this execution.

    In a loop the node remembers its own earlier iterations.
    """
    messages: list[ChatMessage] = [UserMessage(scope.user)]
    if execute.iteration > 1:
        for key in _earlier_steps(scope, spec, execute):
            messages.extend(exchange(scope, key))
        messages.append(UserMessage(f"Iteration {execute.iteration}."))
    return messages


def _earlier_steps(scope: RunScope, spec: LlmNode, execute: Execute) -> Iterator[str]:
    """Keys of the node's model calls in earlier iterations of the nearest loop."""
    loop, _, _ = execute.key.rpartition("@")
    current = f"{loop}@{execute.iteration}."
    for key in scope.log.run.said.get(spec.name, ()):
        if key.startswith(f"{loop}@") and not key.startswith(current):
            yield key


def exchange(scope: RunScope, key: str) -> Iterator[ChatMessage]:
    """A reply of the model and the results of its calls; nothing of a reply that came to no end.

    Arguments are the final ones: a human may have edited some.
    """
    log = scope.log
    reply = log.run.steps[key].outcome
    if not isinstance(reply, Replied):
        return
    calls, results = [], []
    for index, call in enumerate(reply.tool_calls):
        end = end_of(log, f"{key}.{index}")
        if end is None:
            return
        arguments = wrapped(call.arguments, end.arguments) if end.inner else end.arguments
        calls.append(attrs.evolve(call, arguments=arguments))
        content = shown(end.content, scope.services.config.tools.max_result_chars)
        results.append(ToolMessage(call.id, call.name, content, end.is_error))
    if reply.text or calls:
        yield AssistantMessage(reply.text, tuple(calls), reply.verbatim)
        yield from results


def shown(text: str, limit: int) -> str:
    """As much of a result as a model is shown; all of it is on record."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}\n[cut here: {len(text) - limit} of {len(text)} characters are not shown]"
