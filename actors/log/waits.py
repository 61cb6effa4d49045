"""The waits of a run's branches for people: for the ends of approvals, and for credentials.

The code that ends a wait counts its branch in again, without a checkpoint in between (`activity`).
"""

from __future__ import annotations

from collections.abc import Collection

import attrs
import trio

from ..tools.needs import Wanted
from .activity import Branches, Meters


@attrs.frozen(eq=False)
class _Wait:
    approvals: Collection[str]
    """The first of these that ends ends the wait."""
    meters: Meters
    ended: trio.Event = attrs.field(factory=trio.Event)


@attrs.define(eq=False, kw_only=True)
class Waits(Branches):
    _waiting: dict[str, _Wait] = attrs.field(factory=dict)
    """The waits in this life, by approval."""
    _unauthorized: dict[object, tuple[Wanted, trio.Event, Meters]] = attrs.field(factory=dict)
    """The waits for credentials."""

    async def wait_for_end(self, approvals: Collection[str], meters: Meters) -> None:
        """Wait, without keeping the run active, until one of these approvals is settled."""
        wait = _Wait(approvals, meters)
        self._waiting.update(dict.fromkeys(approvals, wait))
        self.release(meters)
        try:
            await wait.ended.wait()
        finally:
            if not wait.ended.is_set():  # cancelled: `end_wait` did not count us in again
                self._forget(wait)
                self.resume(meters)

    def end_wait(self, approval: str) -> None:
        """This approval is settled."""
        wait = self._waiting.get(approval)
        if wait is not None:
            self._forget(wait)
            self.resume(wait.meters)
            wait.ended.set()

    def _forget(self, wait: _Wait) -> None:
        for approval in wait.approvals:
            del self._waiting[approval]

    async def credential(self, wanted: Wanted, meters: Meters) -> None:
        """Wait, without keeping the run active, until a command moves the run on, perhaps with a token."""
        waiter = object()
        ready = trio.Event()
        self._unauthorized[waiter] = (wanted, ready, meters)
        self.release(meters)
        try:
            await ready.wait()
        finally:
            if self._unauthorized.pop(waiter, None) is not None:
                self.resume(meters)

    def end_credential_waits(self) -> None:
        """A command has moved the run on."""
        for _wanted, ready, meters in list(self._unauthorized.values()):
            self.resume(meters)
            ready.set()
        self._unauthorized.clear()

    @property
    def unauthorized(self) -> Wanted | None:
        """The credential that a branch needs; of several, one that a server has asked for itself."""
        wanted = [each for each, _, _ in self._unauthorized.values()]
        return next((each for each in wanted if each.status), wanted[0] if wanted else None)
