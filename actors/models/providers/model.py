"""The model actor: one client of one model, its retries and its deadline."""

from __future__ import annotations

import logging
import re
import secrets
from typing import Protocol, assert_never

import attrs
import trio

from ....runtime.context import Behaviour, Context
from ....runtime.errors import leaf
from ....runtime.restart import Backoff
from ..messages.messages import (
    AskModel,
    Delta,
    Emit,
    ModelFailed,
    ModelMessage,
    ModelReply,
    ModelRequest,
    ModelTool,
    Usage,
    unheard,
)
from .refused_tools import MAX_ROUNDS, RefusedTools, named_tools, without_tools

MAX_ATTEMPTS = 3
BUSY = 429
"""HTTP status of a busy provider. The call is retried as long as its deadline allows."""
LONGEST_WAIT = 30.0
"""Seconds. If a provider asks to wait longer, the call fails."""
FULL_JITTER = Backoff(first=0.5, factor=2.0, limit=8.0, jitter=1.0)
"""A random delay up to the ceiling, so that calls which failed together are not retried together."""

_REFUSALS = (400, 404, 413, 415, 422)
"""HTTP statuses with which providers refuse a request with pictures."""
_ABOUT_PICTURES = re.compile(r"image[ _](?:input|url)|mmproj|multimodal", re.IGNORECASE)
"""Texts of servers that refuse them with 500: llama.cpp#13566 and #12947, and Ollama."""

logger = logging.getLogger(__name__)


class Model(Protocol):
    """A model of any provider. It must accept concurrent calls."""

    async def complete(self, request: ModelRequest, emit: Emit) -> ModelReply:
        """Return one reply. A streaming model calls `emit` with each piece as it arrives.

        Raises `ModelFailed`. Any other exception counts as a bug in the model.
        """
        ...


def model_actor(
    model: Model,
    *,
    max_concurrency: int = 64,
    timeout: float = 60.0,
    backoff: Backoff = FULL_JITTER,
    refused: RefusedTools | None = None,
) -> Behaviour[ModelMessage]:
    """The actor of a model: it answers `max_concurrency` messages `AskModel` at a time.

    A call has `timeout` seconds from its start, retries included, time in the mailbox excluded. A
    retryable failure is retried up to `MAX_ATTEMPTS` attempts in all, status `BUSY` until the deadline. An
    empty answer is asked for once more. The delay between attempts is that of `backoff`, or a longer one that
    the provider asks for. The usage of the reply is that of all attempts. No failure of the model ends the
    actor. A tool that the provider refuses is left out from then on, and kept in `refused`.
    """
    unusable = RefusedTools() if refused is None else refused

    async def behaviour(ctx: Context[ModelMessage]) -> None:
        async def handle(message: ModelMessage) -> ModelReply:
            match message:
                case AskModel():
                    return await _complete(model, message, timeout, backoff, unusable)
                case _:
                    assert_never(message)

        await ctx.serve(handle, concurrency=max_concurrency)

    return behaviour


async def _complete(
    model: Model, message: AskModel, timeout: float, backoff: Backoff, refused: RefusedTools
) -> ModelReply:
    billed = _Billed()
    try:
        with trio.move_on_after(timeout) as scope:
            return await _try_repeatedly(model, message, scope, backoff, billed, refused)
    except Exception as error:
        failure = leaf(error)
        if isinstance(failure, ModelFailed):
            failure.usage = billed.usage
            raise failure from None
        error_id = secrets.token_hex(6)
        logger.error(
            "model call of node %s failed, error id=%s", message.request.node, error_id, exc_info=error
        )
        raise ModelFailed(
            f"the model failed unexpectedly; the log says why under {error_id}", usage=billed.usage
        ) from error
    raise ModelFailed(f"the model did not answer within {timeout:g} s", usage=billed.usage)


@attrs.define(eq=False)
class _Billed:
    """The usage of a call's failed attempts."""

    usage: Usage | None = None

    def add(self, usage: Usage | None) -> None:
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


async def _try_repeatedly(
    model: Model,
    message: AskModel,
    scope: trio.CancelScope,
    backoff: Backoff,
    billed: _Billed,
    refused: RefusedTools,
) -> ModelReply:
    request = refused.without(message.request)
    left_out: list[ModelTool] = []
    rounds = 0
    attempt = 1
    empty = False
    while True:
        try:
            reply = await model.complete(request, _emit(message, attempt))
            refused.remember(left_out)  # only now, because the error may have had another cause
            return reply if billed.usage is None else attrs.evolve(reply, usage=reply.usage + billed.usage)
        except Exception as error:
            failure = leaf(error)
            if not isinstance(failure, ModelFailed):
                raise
            billed.add(failure.usage)
            named = named_tools(failure, request.tools)
            if named and rounds < MAX_ROUNDS:
                logger.warning(
                    'model call of node %s is tried without the tool "%s", which the provider refuses: %s',
                    request.node,
                    '", "'.join(tool.name for tool in named),
                    failure,
                )
                rounds += 1
                left_out += named
                request = without_tools(request, named)
                continue
            if request.has_pictures and _refuses_pictures(failure):
                logger.warning(
                    "model call of node %s is tried without pictures (images: false avoids this): %s",
                    request.node,
                    failure,
                )
                request = request.without_pictures()
                continue
            if failure.empty and empty:
                raise ModelFailed(f"{failure}; it was asked for twice", usage=failure.usage) from None
            again = failure.retryable and (attempt < MAX_ATTEMPTS or failure.status == BUSY)
            if not again and not failure.empty:
                raise
            empty |= failure.empty
            asked = failure.retry_after or 0.0
            delay = max(backoff.delay(attempt), asked)
            # Without time for another attempt, raise the failure, which says more than the deadline.
            if asked > LONGEST_WAIT or trio.current_time() + delay >= scope.deadline:
                raise _with_wait(failure) from None
            logger.warning("model call of node %s failed, attempt %d: %s", request.node, attempt, failure)
        await trio.sleep(delay)
        attempt += 1
        request = attrs.evolve(request, attempt=attempt)


def _refuses_pictures(failure: ModelFailed) -> bool:
    about = failure.status == 500 and _ABOUT_PICTURES.search(str(failure)) is not None
    return failure.status in _REFUSALS or about


def _with_wait(failure: ModelFailed) -> ModelFailed:
    if not failure.retry_after:
        return failure
    return ModelFailed(
        f"{failure}; it asks to wait {failure.retry_after:g} s",
        status=failure.status,
        retry_after=failure.retry_after,
    )


def _emit(message: AskModel, attempt: int) -> Emit:
    forward = message.emit
    if forward is None:
        return unheard

    def emit(delta: Delta) -> None:
        forward(attempt, delta)

    return emit
