"""Sends a call to another agent, or follows the task of a call that an earlier process has sent.

As for all calls, the intent is on disk before anything is sent. The id of the agent's task is recorded as
soon as it is known; from then on the task can be followed, also after a restart, and cancelled. While an
attempt is in flight, three tasks accompany it:

    =======================  ===========================================================================
    `_record_task`           records the id of the task when the agent has accepted the call
    `_end_when_cancelled`    if the run is cancelled: cancels the task, and gives the agent `REMOTE_GRACE`
                             seconds to end it
    `_leave_at_shutdown`     at a shutdown: stops following once the id is on record; the next start
                             continues
    =======================  ===========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

import attrs
import trio

from ...runtime.errors import ActorCrashed, ActorError, ActorUnavailable
from ..gate.halt import Departure
from ..log.fold.past import NOT_SENT
from ..log.words import events as e
from ..log.words.deltas import ToolProgress
from ..run.scopes import CallScope
from ..tools import needs
from ..tools.delegation import (
    MESSAGE,
    SERVER,
    CancelRemote,
    Delegate,
    Delegated,
    Hop,
    RemoteInputRequired,
    RemoteTask,
)
from ..tools.needs import Need
from ..tools.registry import RemoteServer, bearer_for
from ..tools.slots import TakenSlots
from ..tools.tool import Progress, Tool, ToolAuthRequired, ToolOutcomeUnknown, ToolResult, ToolUnavailable
from .call_end import save_cancelled, save_ends
from .proxies import answers_in, items_left

REMOTE_GRACE = 8.0
"""Seconds that an agent gets to cancel its task when the run is cancelled. More than `CANCEL_GRACE`, which
the agent gives its own calls."""


@attrs.define(eq=False)
class RemoteExchange:
    """One attempt of a call of another agent."""

    _scope: CallScope
    _key: str
    _attempt: int
    _tool: Tool
    _server: RemoteServer
    _slots: TakenSlots
    _departure: Departure
    _text: str
    _brings: Sequence[str]
    """The approvals whose ends it delivers to the agent."""
    _task: RemoteTask | None
    _anew: bool
    _is_over: bool = False
    _accepted: trio.Event = attrs.field(factory=trio.Event)
    _saving: trio.Lock = attrs.field(factory=trio.Lock)
    """Held while the id of the task or the end is saved, so that the id is saved once."""

    @classmethod
    def of(
        cls,
        scope: CallScope,
        key: str,
        attempt: int,
        tool: Tool,
        server: RemoteServer,
        slots: TakenSlots,
        departure: Departure,
    ) -> RemoteExchange:
        """The exchange for an attempt whose intent is on record."""
        record = scope.log.run.calls[key]
        assert record.started is not None
        text = str(record.started.arguments.get(MESSAGE, ""))
        repeats = record.attempts.get(attempt - 1) == "unknown"
        brings, task = record.started.brings, record.remote
        return cls(scope, key, attempt, tool, server, slots, departure, text, brings, task, repeats)

    async def carry_out(self, *, lost: bool = False, may_send: bool = True) -> None:
        """Make the exchange, and record its end.

        If the run is cancelled meanwhile, have the agent cancel its task, and wait up to `REMOTE_GRACE`
        seconds. A shutdown does not wait: the next start continues. `lost` and `may_send` are as in
        `Delegate`.
        """
        shield = trio.CancelScope(shield=True)
        if trio.current_effective_deadline() == -math.inf:  # while the intent was being saved
            shield.cancel()
        self._departure.has_left = self._task is not None or lost
        if self._task is not None and not self._anew:
            self._accepted.set()  # on record: the next start can follow the task
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._record_task)
                nursery.start_soon(self._end_when_cancelled, shield)
                nursery.start_soon(self._leave_at_shutdown, shield)
                with shield:
                    await self._exchange(lost, may_send)
                if shield.cancelled_caught and not (self._departure.has_left or self._draining):
                    result = ToolResult(NOT_SENT, is_error=True)
                    await save_cancelled(self._scope.log, e.ToolFinished(self._key, self._attempt, result))
                self._is_over = True
                nursery.cancel_scope.cancel()
        finally:
            with trio.CancelScope(shield=True):  # short: one commit
                await self._save_task()

    @property
    def _draining(self) -> bool:
        return self._scope.draining.is_set()

    async def _record_task(self) -> None:
        await self._accepted.wait()
        await self._save_task()

    async def _save_task(self) -> None:
        async with self._saving:
            if new := self._new_task():
                await self._scope.log.save(*new)

    def _new_task(self) -> tuple[e.LogEvent, ...]:
        """The event with the id of the agent's task, unless that is on record."""
        run = self._scope.log.state.live_run
        record = None if run is None else run.calls.get(self._key)
        if self._task is None or record is None or record.remote == self._task:
            return ()
        return (e.ToolAccepted(self._key, self._attempt, self._task.id, self._task.context),)

    async def _end_when_cancelled(self, shield: trio.CancelScope) -> None:
        try:
            await trio.sleep_forever()
        finally:
            # If the tenure is lost, another member may follow the task.
            goes_on = self._draining or self._scope.log.tenure.is_lost
            waits = self._departure.has_left and not (self._is_over or goes_on)
            shield.deadline = trio.current_time() + (REMOTE_GRACE if waits else 0.0)
            if waits and self._task is not None:
                with trio.CancelScope(shield=True, deadline=shield.deadline), suppress(ActorError):
                    await self._server.ref.ask(
                        CancelRemote(task=self._task, hop=self._hop, bearer=self._bearer)
                    )

    async def _leave_at_shutdown(self, shield: trio.CancelScope) -> None:
        await self._scope.draining.wait()
        await self._accepted.wait()  # the id may still arrive during the grace period of the shutdown
        shield.cancel()

    @property
    def _bearer(self) -> str | None:
        return bearer_for(self._server, self._scope.token(self._key))

    @property
    def _hop(self) -> Hop:
        return self._scope.hop(self._key, self._attempt)

    async def _exchange(self, lost: bool, may_send: bool) -> None:
        command = self._scope.log.run.command_of(self._key)
        need: Need | None = None
        rejected = False
        try:
            end = await self._ask(lost, may_send)
            result, rejected = end.result, end.rejected
        except (ToolUnavailable, ActorUnavailable) as error:
            if lost:
                await self._save_end(e.ToolUnknown(self._key, self._attempt, str(error)))
                return
            result = ToolResult(str(error), is_error=True)
        except ToolAuthRequired as refusal:
            if self._task is not None and not self._server.forwards_bearer:
                await self._save_end(e.ToolUnknown(self._key, self._attempt, str(refusal)))
                return
            result = ToolResult(str(refusal), is_error=True)
            if self._server.forwards_bearer:  # otherwise only a change of the configuration helps
                need = needs.token(refusal, command)
        except RemoteInputRequired as wanted:
            result = ToolResult(str(wanted))
            need = needs.decisions(wanted)
        except (ToolOutcomeUnknown, ActorCrashed) as error:
            await self._save_end(e.ToolUnknown(self._key, self._attempt, str(error)))
            return
        self._slots.give_back()  # before the commit: the agent is free already
        await self._save_end(e.ToolFinished(self._key, self._attempt, result, need, rejected))

    async def _ask(self, lost: bool, may_send: bool) -> Delegated:
        """Raises the errors of `Delegate`."""
        log = self._scope.log
        try:
            return await self._server.ref.ask(self._request(lost, may_send))
        except (ToolUnavailable, ToolAuthRequired, RemoteInputRequired):
            if log.tenure.owns() or self._anew:
                raise
        # This process was paused, and so has perhaps withheld what the agent waits for.
        await log.confirm()
        return await self._server.ref.ask(self._request(lost, may_send))

    def _request(self, lost: bool, may_send: bool) -> Delegate:
        log = self._scope.log
        return Delegate(
            agent=self._server.name.removeprefix(SERVER),
            text=self._text,
            key=f"{log.state.id}/{log.run.id}/{self._key}/{self._attempt}",
            hop=self._hop,
            task=self._task,
            items=items_left(log, self._key, self._brings),
            answers=answers_in(log, self._brings),
            lost=lost,
            may_send=may_send,
            anew=self._anew,
            bearer=self._bearer,
            may_leave=self._departure.may_leave_now,
            on_sent=self._set_sent,
            on_accepted=self._accept,
            on_progress=self._tell,
        )

    async def _save_end(self, end: e.ToolFinished | e.ToolUnknown) -> None:
        with trio.CancelScope(shield=True):
            async with self._saving:
                await save_ends(self._scope.log, end, before=self._new_task())

    def _set_sent(self) -> None:
        self._departure.has_left = True

    def _accept(self, task: RemoteTask) -> None:
        self._task = task
        self._accepted.set()

    def _tell(self, progress: Progress) -> None:
        log = self._scope.log
        where = (log.state.id, log.state.last_seq, self._key, self._attempt)
        log.publish_delta(
            ToolProgress(*where, self._scope.spec.name, self._tool.name, self._tool.server, progress)
        )
