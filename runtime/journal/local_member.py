"""A member of a store whose members share one process: a base class of journals."""

from __future__ import annotations

import math
import uuid
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager
from copy import copy
from typing import Self

import trio

from ..clock import WallClock
from ..event_bus import EventBus, Subscription
from .errors import Fenced, needs_newer
from .note import Revisions
from .ownership import Fence, Hint, Owners, Renewed

_HINTS = "hints"


class LocalMember:
    """The part of `Journal` about members.

    `wall` is the store's clock, `lease` the length of leases in seconds, and `version` that of the program.
    `member` is the name of the member; empty: a new one.
    """

    def __init__(self, wall: WallClock, lease: float, version: int, member: str) -> None:
        self.member = member or uuid.uuid4().hex[:12]
        self.version = version
        self._wall = wall
        self._owners = Owners(lease)
        self._hints = EventBus()
        self._revisions = Revisions()

    def another(self, member: str, *, version: int = 0) -> Self:
        """Another member on the same store."""
        other = copy(self)
        other.member, other.version = member, version
        return other

    async def owns(self, fence: Fence) -> bool:
        await trio.lowlevel.checkpoint_if_cancelled()
        return self._owners.owns(fence)

    async def renew(self) -> Renewed:
        await trio.lowlevel.checkpoint()
        now = self._wall()
        self._owners.renew(self.member, now, self.version)
        return Renewed(self._owners.seconds, now)

    async def leave(self) -> None:
        await trio.lowlevel.checkpoint()
        self._owners.leave(self.member)
        self._changed("")

    async def living(self) -> Mapping[str, float]:
        await trio.lowlevel.checkpoint()
        return self._owners.living(self._wall())

    async def owners(self, streams: Collection[str]) -> Mapping[str, str]:
        await trio.lowlevel.checkpoint()
        now = self._wall()
        return {name: owner for name in streams if (owner := self._owners.owner(name, now)) is not None}

    async def note_revisions(self) -> Mapping[str, int]:
        await trio.lowlevel.checkpoint()
        return self._revisions.latest()

    def watch(self) -> AbstractContextManager[Subscription]:
        return self._hints.subscribe(_HINTS, wants=lambda hint: hint.member != self.member)

    def _check(self, fence: Fence) -> None:
        """Raises `Fenced`."""
        if not self._owners.owns(fence):
            raise Fenced(f"stream {fence.stream!r} was claimed by another owner")

    @property
    def _newest(self) -> int:
        """The highest version of this member and of the living members."""
        return max(self.version, self._owners.newest(self._wall()))

    def _check_version(self, stream: str, demands: int) -> None:
        """Before a new command is put into an inbox. Raises `NeedsNewer`."""
        if demands > self._newest:
            raise needs_newer(stream, demands)

    def _is_free(self, stream: str, demands: int) -> bool:
        """Whether this member may own the stream, and no other living member owns it."""
        return demands <= self.version and self._owners.owner(stream, self._wall()) in (None, self.member)

    @property
    def _is_shared(self) -> bool:
        """Whether there can be other members."""
        return self._owners.seconds < math.inf

    def _changed(self, stream: str, after: int | None = None) -> None:
        if self._is_shared:
            self._hints.publish(_HINTS, Hint(stream, self.member, after))
