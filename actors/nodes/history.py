"""The messages of earlier calls and turns for a model, made from the record only, so that a replay repeats
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter

import attrs

from ...config.sections.nodes import LlmNode
from ..common.kept_forms import PER_ITEM
from ..log.fold import past
from ..log.words import keys
from ..models.messages.messages import AssistantMessage, ChatMessage, ToolMessage, UserMessage
from ..run.scopes import Execute, RunScope
from ..tools.pictures import surplus


def earlier_turns(scope: RunScope, spec: LlmNode) -> list[ChatMessage]:
    """Return the user messages and final answers of earlier turns, and the node's own calls with their
    results, but nothing of other nodes (FR-004)."""
    if spec.history != "conversation":
        return []
    kept, key = scope.log.state.kept, ("earlier", spec.name)
    found = kept.take(key, _Earlier) if kept is not None else None
    if found is None:
        found = _Earlier()
    for turn in scope.earlier[found.turns :]:
        found.messages.append(UserMessage(turn.user, turn.pictures))
        recorded = turn.calls.get(spec.name, ())
        shown = _shown(scope, recorded)
        found.messages.extend(shown)
        found.cut += sum(_own_text(*pair) for pair in zip(shown, recorded, strict=True))
        if turn.answer:  # a provider refuses a message without text
            found.messages.append(AssistantMessage(turn.answer))
    found.turns = len(scope.earlier)
    if kept is not None:
        kept.keep(key, found, PER_ITEM * len(found.messages) + found.cut)
    return found.messages.copy()


@attrs.define(eq=False)
class _Earlier:
    """The messages of earlier turns for a node. Turns are only added to a state, so the first ones stay."""

    turns: int = 0
    messages: list[ChatMessage] = attrs.field(factory=list)
    cut: int = 0
    """Characters of the results that were cut. The other texts are those of the state."""


def _own_text(shown: ChatMessage, recorded: ChatMessage) -> int:
    return len(shown.content) if isinstance(shown, ToolMessage) and shown is not recorded else 0


def this_turn(scope: RunScope, spec: LlmNode, execute: Execute) -> list[ChatMessage]:
    """Return the messages of this turn before the first model call of this execution.

    In a loop, they include the node's own earlier iterations.
    """
    messages: list[ChatMessage] = [UserMessage(scope.user, scope.log.run.pictures)]
    if execute.iteration > 1:
        for key in _earlier_steps(scope, spec, execute):
            messages.extend(exchange(scope, key))
        messages.append(UserMessage(f"Iteration {execute.iteration}."))
    return messages


def _earlier_steps(scope: RunScope, spec: LlmNode, execute: Execute) -> Iterator[str]:
    """Yield the keys of the node's model calls in earlier iterations of the nearest loop."""
    loop = keys.loop_around(execute.key)
    current = keys.iteration(loop, execute.iteration)
    for key in scope.log.run.reply_keys.get(spec.name, ()):
        if keys.is_within_attempt(key, loop) and not keys.is_within(key, current):
            yield key


def exchange(scope: RunScope, key: str) -> list[ChatMessage]:
    """Return a reply of this run and the results of its calls, cut to the length for models."""
    log = scope.log
    return _shown(scope, past.exchange(log.run, log.state.messages, key))


def _shown(scope: RunScope, messages: Iterable[ChatMessage]) -> list[ChatMessage]:
    limit = scope.services.config.tools.max_result_chars
    return [
        _cut(each, limit) if isinstance(each, ToolMessage) and len(each.content) > limit else each
        for each in messages
    ]


def newest_pictures(messages: list[ChatMessage], *, first: bool = False) -> list[ChatMessage]:
    """The messages with as many of the newest pictures as a request may have. `first`: no earlier request had
    the pictures that are left out."""
    pictured = filter(None, map(attrgetter("pictures"), messages))
    left = surplus([len(each.data) for pictures in pictured for each in pictures])
    if left == 0:
        return messages
    shown: list[ChatMessage] = []
    for message in messages:
        count = len(message.pictures)
        if not isinstance(message, AssistantMessage) and count and left > 0:
            left_out = message.left_out or not first
            message = attrs.evolve(message, pictures=message.pictures[left:], left_out=left_out)
        left = max(0, left - count)
        shown.append(message)
    return shown


def _cut(message: ToolMessage, limit: int) -> ToolMessage:
    """Cut a result to the length for models. The record has the full result."""
    text = message.content
    cut = f"{text[:limit]}\n[cut here: {len(text) - limit} of {len(text)} characters are not shown]"
    return attrs.evolve(message, content=cut)
