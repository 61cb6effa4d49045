"""One model call of a node: bounded by the run's limits, and recorded before its reply is used.

If a model fails, the next model of the node is asked. A limit ends the call instead, because it applies to
all models.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from operator import attrgetter

import attrs
import trio

from ...config.sections.models import ContextConfig, Prices, chain_of
from ...config.sections.nodes import LlmNode, RouterNode
from ...runtime.errors import ActorCrashed, ActorUnavailable
from ..common.errors import NodeFailed
from ..log.words import keys
from ..log.words.deltas import ModelDelta
from ..log.words.outcomes import ModelHop, Replied, StepFailed
from ..log.writer.observer import CANCELLED, MODEL_ERROR, ModelCall
from ..log.writer.step import step
from ..models.context_window import TooLarge, fit
from ..models.messages.messages import (
    AskModel,
    ChatMessage,
    Delta,
    ModelFailed,
    ModelReply,
    ModelRequest,
    ModelTool,
    ToolCall,
)
from ..models.messages.usage import NOTHING, Spent, reached, spent_by
from ..run.scopes import Execute, RunScope

logger = logging.getLogger(__name__)

MAX_CALLS = 512
"""Maximum number of tool calls in one reply. If a reply has more, none of them is made."""


async def ask_model(
    scope: RunScope,
    execute: Execute,
    spec: LlmNode | RouterNode,
    *,
    call: int,
    system: str,
    messages: tuple[ChatMessage, ...],
    earlier: int = 0,
    before: int = 0,
    tools: tuple[ModelTool, ...],
    routing: str = "",
) -> Replied:
    """Return the reply as it is recorded.

    `earlier` and `before` are as in `ModelRequest`. `routing` is a line about the tools to add to the system
    prompt. Raises `NodeFailed`.
    """
    config = scope.services.config
    request = ModelRequest(
        system="\n\n".join(filter(None, [system, routing])),
        prompt=system,
        messages=messages,
        tools=tools,
        user=scope.user,
        node=spec.name,
        turn=scope.turn,
        call=call,
        earlier=earlier,
        before=before,
        iteration=max(1, execute.iteration),
        step=keys.reply(execute.key, call),
        message_id=scope.log.run.started.message_id or "",
        trimmed=any(map(attrgetter("left_out"), messages)),
        kept=scope.log.state.kept,
    )
    chain = chain_of(spec.model or config.llm.model, spec.fallbacks, config.llm, config.models)
    asking = _Asking(scope, execute, chain, request)
    recorded = await step(scope.log, request.step, Replied, spec.name, asking.outcome)
    if isinstance(recorded, StepFailed):
        raise NodeFailed.of(recorded.error)
    return recorded


@attrs.define(eq=False)
class _Asking:
    scope: RunScope
    execute: Execute
    chain: Sequence[str]
    """The names of the models to ask, in order."""
    request: ModelRequest
    hops: list[ModelHop] = attrs.field(factory=list)
    """The models that failed, with the reasons."""
    spent: Spent = NOTHING
    """The usage of all models, because failed calls may be billed as well."""
    tries: int = 0

    async def outcome(self) -> Replied | StepFailed:
        """Return the outcome to record."""
        try:
            await self.scope.log.admit(self.execute.work_timers)
            self._bound()
            for name in self.chain:
                await self.scope.log.admit(self.execute.work_timers)
                try:
                    return self._recorded(name, await self._ask(name))
                except ModelFailed as error:
                    self._failed(name, error)
            raise NodeFailed("model_error", self._why())
        except NodeFailed as error:
            usage = None if self.spent == NOTHING else self.spent.usage
            return StepFailed(error=error.fault, usage=usage, hops=self._told_hops())

    def _bound(self) -> None:
        limit = self.scope.services.config.limits.max_turns
        if not self.scope.log.take("model_calls", limit):
            text = f"the run stopped after {limit} model calls (limits.max_turns)"
            raise NodeFailed("limit_reached", text, fatal=True)

    def _failed(self, name: str, error: ModelFailed) -> None:
        self.hops.append(ModelHop(name, str(error), error.status))
        left = self.chain[len(self.hops) :]
        if left:
            logger.warning("node %s: model %s failed, asking %s: %s", self.request.node, name, left[0], error)

    async def _ask(self, name: str) -> ModelReply:
        """Return a complete reply. Raises `ModelFailed`, or `NodeFailed` for a limit."""
        model = await self.scope.services.model(name)
        self._within_limits(name, model.prices)
        request = self._fitted(name, model.context, images=model.images)
        call = ModelCall(name, request, self.scope.log.wall())
        try:
            reply = await model.ref.ask(AskModel(request, partial(self._tell, name, self.tries)))
        except ModelFailed as error:
            spent = NOTHING if error.usage is None else spent_by(error.usage, model.prices)
            status = MODEL_ERROR if error.status is None else str(error.status)
            self._end(attrs.evolve(call, error=status, spent=spent))
            raise
        except (ActorCrashed, ActorUnavailable) as error:
            self._end(attrs.evolve(call, error=MODEL_ERROR))
            raise ModelFailed(f'model "{name}" is not available: {error}') from error
        except trio.Cancelled:
            self._end(attrs.evolve(call, error=CANCELLED))
            raise
        self._end(attrs.evolve(call, reply=reply, spent=spent_by(reply.usage, model.prices)))
        _check(reply)
        return reply

    def _within_limits(self, name: str, prices: Prices | None) -> None:
        limits, head = self.scope.services.config.limits, self.scope.log.state.head
        assert head.run is not None
        for whose, used, bounds, section in (
            ("it", head.run.usage, limits, "limits"),
            ("the conversation", head.usage, limits.conversation, "limits.conversation"),
        ):
            if bounds.max_cost_usd is not None and prices is None:
                text = f'there are no prices for model "{name}" ({section}.max_cost_usd)'
                raise NodeFailed("limit_reached", text, fatal=True)
            found = reached(used if self.spent == NOTHING else used.plus(self.spent.usage), bounds)
            if found is not None:
                text = f"the run stopped: {whose} has used {found[0]} ({section}.{found[1]})"
                raise NodeFailed("limit_reached", text, fatal=True)

    def _fitted(self, name: str, context: ContextConfig | None, *, images: bool) -> ModelRequest:
        request = self.request if images else self.request.without_pictures()
        if context is None:
            return request
        try:
            return fit(request, context)
        except TooLarge as error:
            text = (
                f'the request is about {error.tokens} tokens, and model "{name}" is sent at most '
                f"{context.max_input_tokens} (context.max_input_tokens)"
            )
            raise NodeFailed("context_too_large", text) from None

    def _end(self, call: ModelCall) -> None:
        """Count the tokens and the cost of a call of a model, and report it."""
        self.spent = self.spent.plus(call.spent.usage)
        log = self.scope.log
        self.scope.services.spending.add(log.run.started.by, call.spent.cost_usd)
        log.observer.model_called(log.state, attrs.evolve(call, ended=log.wall()))

    def _tell(self, name: str, before: int, attempt: int, delta: Delta) -> None:
        state, request = self.scope.log.state, self.request
        self.tries = before + attempt
        told = ModelDelta(state.id, state.last_seq, request.step, request.node, name, self.tries, delta)
        self.scope.log.publish_delta(told)

    def _why(self) -> str:
        if len(self.hops) == 1:
            return self.hops[0].message
        reasons = "; ".join(f'"{hop.model}": {hop.message}' for hop in self.hops)
        return f"none of the models answered: {reasons}"

    def _recorded(self, name: str, reply: ModelReply) -> Replied:
        return Replied(
            text=reply.text,
            tool_calls=_with_unique_ids(reply.tool_calls, self.request.call),
            model=name,
            verbatim=reply.verbatim,
            a2a=reply.a2a,
            usage=self.spent.usage,
            hops=self._told_hops(),
        )

    def _told_hops(self) -> Sequence[ModelHop]:
        return tuple(self.hops) if len(self.chain) > 1 else ()


def _check(reply: ModelReply) -> None:
    """Refuse a reply that is cut off or has too many calls."""
    if reply.stop == "max_tokens" and reply.tool_calls:
        raise ModelFailed("the reply was cut off in the middle of its tool calls")
    if len(reply.tool_calls) > MAX_CALLS:
        asked = len(reply.tool_calls)
        text = f"the model asked for {asked} tool calls in one reply (limit: {MAX_CALLS}); none was made"
        raise NodeFailed("limit_reached", text)


def _with_unique_ids(calls: tuple[ToolCall, ...], number: int) -> Sequence[ToolCall]:
    seen: set[str] = set()
    kept = []
    for index, call in enumerate(calls):
        id = call.id if call.id and call.id not in seen else f"call_{number}_{index}"
        seen.add(id)
        kept.append(attrs.evolve(call, id=id))
    return tuple(kept)
