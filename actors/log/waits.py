"""The waits of a run's branches for humans: for the end of an approval, and for a token.

The code that ends a wait counts the branch as active again, without a checkpoint in between (`branches.py`).
"""

from __future__ import annotations

from collections.abc import Collection

import attrs
import trio

from ..tools.needs import Wanted
from .branches import Branches, WorkTimers


@attrs.frozen(eq=False)
class _Wait:
    approvals: Collection[str]
    """The wait ends when the first of these is settled."""
    work_timers: WorkTimers
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, kw_only=True)
class Waits(Branches):
    _waiting: dict[str, _Wait] = attrs.field(factory=dict)
    """Waits for approvals, by approval."""
    _unauthorized: dict[object, tuple[Wanted, trio.Event, WorkTimers]] = attrs.field(factory=dict)
    """Waits for tokens."""

    async def wait_for_end(self, approvals: Collection[str], work_timers: WorkTimers) -> None:
        """Wait until one of these approvals is settled. The branch is not active meanwhile."""
        wait = _Wait(approvals, work_timers)
        self._waiting.update(dict.fromkeys(approvals, wait))
        self.release(work_timers)
        try:
            await wait.ended.wait()
        finally:
            if not wait.ended.is_set():  # cancelled: `end_wait` has not counted the branch
                self._forget(wait)
                self.resume(work_timers)

    def end_wait(self, approval: str) -> None:
        """End the wait for this approval, if there is one: it is settled."""
        wait = self._waiting.get(approval)
        if wait is not None:
            self._forget(wait)
            self.resume(wait.work_timers)
            wait.ended.set()

    def _forget(self, wait: _Wait) -> None:
        for approval in wait.approvals:
            del self._waiting[approval]

    async def credential(self, wanted: Wanted, work_timers: WorkTimers) -> None:
        """Wait until a command moves the run on, perhaps with a token. The branch is not active meanwhile."""
        waiter = object()
        ready = trio.Event()
        self._unauthorized[waiter] = (wanted, ready, work_timers)
        self.release(work_timers)
        try:
            await ready.wait()
        finally:
            if self._unauthorized.pop(waiter, None) is not None:
                self.resume(work_timers)

    def end_credential_waits(self) -> None:
        """End all waits for tokens: a command has moved the run on."""
        for _wanted, ready, work_timers in list(self._unauthorized.values()):
            self.resume(work_timers)
            ready.set()
        self._unauthorized.clear()

    @property
    def unauthorized(self) -> Wanted | None:
        """The token that a branch needs. Of several, one that a server demanded in a refusal comes first."""
        wanted = [each for each, _, _ in self._unauthorized.values()]
        return next((each for each in wanted if each.status), wanted[0] if wanted else None)
