"""The actor of one remote agent: its card, its connections, and the exchanges with it.

Requests do not depend on each other, so there is no connection to restore. An agent that cannot be reached
fails only the calls to it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import assert_never

import attrs
import trio

from ...config.sections.a2a import RemoteAgentConfig
from ...config.sections.agent_config import MAX_STORED_BYTES
from ...config.sections.secrets import weak_secrets
from ...runtime.context import Behaviour, Context
from ..servers.masking import WEAK_SECRET, Secrets
from ..tools.delegation import (
    CancelRemote,
    Delegate,
    Delegated,
    LookAt,
    RemoteAgentMessage,
    RemoteAgentStatus,
    RemoteInputRequired,
)
from ..tools.tool import Progress, ToolAuthRequired, ToolOutcomeUnknown, ToolUnavailable
from .agent_link import AgentLink
from .exchange import CANCEL_TIME, LOOK_TIME, Exchange, cancel, look

HANDLERS = 4096
"""Maximum number of concurrent requests. Exchanges are bounded by their slots (`max_concurrency`); looks at
tasks and cancellations need no slot."""
CLOSE_GRACE = 2.0


def remote_agent_actor(
    config: RemoteAgentConfig,
    *,
    report: Callable[[RemoteAgentStatus], None],
    max_stored_bytes: int = MAX_STORED_BYTES,
) -> Behaviour[RemoteAgentMessage]:
    """The actor that exchanges messages with one agent.

    Args:
        report: called when it becomes known whether the agent can be reached; must not block.
        max_stored_bytes: the maximum size of a result. Longer results are cut.
    """

    async def behaviour(ctx: Context[RemoteAgentMessage]) -> None:
        log = logging.getLogger(f"stopgo.a2a.{config.name}")
        secrets = Secrets.of(config)
        log.addFilter(secrets.in_log)
        for name, reason in weak_secrets(config):
            log.info(WEAK_SECRET, name, reason)
        link = AgentLink(config, lambda status: report(secrets.masked(status)), log)

        async def handle(message: RemoteAgentMessage) -> object:
            match message:
                case Delegate():
                    known = secrets.beside(message.bearer)
                    exchange = Exchange(
                        config, link, _with_masked_progress(message, known), log, max_stored_bytes, known
                    )
                    return await _masked(exchange, known, log)
                case CancelRemote():
                    with trio.move_on_after(CANCEL_TIME):
                        await cancel(link, message.task, message)
                    return None
                case LookAt():
                    with trio.move_on_after(LOOK_TIME):
                        known = secrets.beside(message.bearer)
                        return known.masked(await look(link, message, known))
                    return None
                case _:
                    assert_never(message)

        try:
            await ctx.serve(handle, concurrency=HANDLERS)
        finally:
            log.removeFilter(secrets.in_log)
            with trio.move_on_after(CLOSE_GRACE, shield=True):
                await link.aclose()

    return behaviour


async def _masked(exchange: Exchange, secrets: Secrets, log: logging.Logger) -> Delegated:
    """Run an exchange, and mask the secrets of the configuration and of the call in its outcome."""
    try:
        return secrets.masked(await exchange.run())
    except RemoteInputRequired as asked:
        raise RemoteInputRequired(
            secrets.masked(tuple(asked.items)), secrets.masked(dict(asked.refusals))
        ) from None
    except ToolAuthRequired as error:
        challenge = error.challenge and secrets.mask(error.challenge)
        raise ToolAuthRequired(secrets.mask(str(error)), status=error.status, challenge=challenge) from None
    except (ToolUnavailable, ToolOutcomeUnknown) as error:
        text = secrets.mask(str(error))
        log.warning("%s", text)
        raise type(error)(text) from None


def _with_masked_progress(message: Delegate, secrets: Secrets) -> Delegate:
    """The same message, with secrets masked in the reported progress."""
    report = message.on_progress
    if report is None or secrets.empty:
        return message

    def on_progress(progress: Progress) -> None:
        assert report is not None
        report(secrets.masked(progress))

    return attrs.evolve(message, on_progress=on_progress)
