"""The history that models get: earlier replies, each followed by the results of all its calls. Pure.

Providers refuse a call without a result, so a call that was not sent or has no result gets a text instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from ...models.messages.messages import AssistantMessage, ChatMessage, ToolMessage
from ...tools.facade import wrapped
from ..words import keys
from ..words.outcomes import Replied
from .record import CallRecord, CallView, Message, Run

NOT_SENT = "The call was not sent: its run, or its branch of the run, was stopped before. Nothing was done."
NO_RESULT = "The call has no result: its run, or its branch of the run, was stopped before."


def exchange(run: Run, messages: Sequence[Message], key: str) -> Iterator[ChatMessage]:
    """The reply `key`, then one result for each of its calls, in order; nothing for a failed model call.

    Arguments are those of the call as it was sent: a human may have edited them. `messages` are those of the
    conversation.
    """
    reply = run.steps[key].outcome
    if not isinstance(reply, Replied):
        return
    calls, results = [], []
    for index, call in enumerate(reply.tool_calls):
        record = run.calls[keys.call(key, index)]
        view = messages[record.message].call
        assert view is not None
        arguments = view.arguments if view.facade is None else wrapped(call.arguments, view.arguments)
        calls.append(attrs.evolve(call, arguments=arguments))
        results.append(_result(call.id, call.name, record, view))
    if reply.text or calls:
        yield AssistantMessage(reply.text, tuple(calls), reply.verbatim)
        yield from results


def calls_of(run: Run, messages: Sequence[Message]) -> Mapping[str, Sequence[ChatMessage]]:
    """The exchanges of a run that have calls, by node, oldest first, without their pictures.

    A reply without calls is the end of a node. Later turns get the answer of the run instead of it.
    """
    found: dict[str, list[ChatMessage]] = {}
    for key, step in run.steps.items():
        if isinstance(step.outcome, Replied) and step.outcome.tool_calls:
            found.setdefault(step.node, []).extend(map(_without_pictures, exchange(run, messages, key)))
    return found


def _without_pictures(message: ChatMessage) -> ChatMessage:
    """A message for later turns. Each picture would be paid for in all of their calls."""
    return attrs.evolve(message, pictures=(), left_out=False) if isinstance(message, ToolMessage) else message


def _result(id: str, name: str, record: CallRecord, view: CallView) -> ToolMessage:
    if view.result is not None:
        return ToolMessage(id, name, view.result, bool(view.is_error), record.pictures, record.left_out)
    return ToolMessage(id, name, NOT_SENT if record.started is None else NO_RESULT, is_error=True)
