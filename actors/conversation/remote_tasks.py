"""Cancels the tasks that other agents have for the calls of a run, if the run ends before them."""

from __future__ import annotations

from contextlib import suppress

import trio

from ...runtime.errors import ActorError
from ..calls.call_scope import hop_of
from ..log.log import ConversationLog
from ..log.record import CallRecord
from ..nodes.services import Services
from ..tools.delegation import CancelRemote
from ..tools.registry import RemoteServer, Resolve, Resolved, bearer_for

MAX_CONCURRENT = 8


async def cancel_open(log: ConversationLog, services: Services) -> None:
    """Cancel the open tasks of the live run, which is about to end.

    The actors of the agents limit the time. An agent that cannot be reached keeps its task.
    """
    run = log.state.live_run
    calls = run.calls if run is not None else {}
    open_calls = [(key, record) for key, record in calls.items() if _is_open(record)]
    if not open_calls:
        return
    limiter = trio.CapacityLimiter(MAX_CONCURRENT)
    async with trio.open_nursery() as nursery:
        for key, record in open_calls:
            nursery.start_soon(_cancel, log, services, key, record, limiter)


def _is_open(record: CallRecord) -> bool:
    if record.remote is None:
        return False
    return record.need is not None or record.attempts[max(record.attempts)] != "finished"


async def _cancel(
    log: ConversationLog, services: Services, key: str, record: CallRecord, limiter: trio.CapacityLimiter
) -> None:
    started, hop = record.started, hop_of(log, services.agent_id)
    assert started is not None
    assert record.remote is not None
    async with limiter:
        with suppress(ActorError):
            found = await services.registry.ask(Resolve(started.tool, {}, started.server))
            if isinstance(found, Resolved) and isinstance(found.server, RemoteServer):
                token = services.tokens.get(log.state.id, log.run.command_of(key))
                bearer = bearer_for(found.server, token)
                await found.server.ref.ask(CancelRemote(task=record.remote, hop=hop, bearer=bearer))
