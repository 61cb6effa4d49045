"""The right to write to a stream: owners of streams, and leases of members.

A *member* is one opening of a store, usually one process. It has one lease, which it renews. A member owns a
stream from `claim` until it releases the stream, or until its lease has run out and another member claims the
stream. `Owners` has the rules for stores whose members share one process:

    ====  =======================================================  =======================================
    rule  the stream                                               `claim`
    ====  =======================================================  =======================================
    1     demands a newer version than that of the member          `Owned`
    2     is owned by another member whose lease has not run out   `Owned`
    3     otherwise                                                `Fence`, with an epoch of its own
    ====  =======================================================  =======================================

`deliver` and `decide` refuse a new command (`NeedsNewer`) for a stream that demands a newer version than that
of each living member: it would wait for a member that may never come. They can claim as well (`follow`): by
the rules above, and also from a living owner if the stream is at rest and its inbox was empty. A member that
owns the stream already keeps its fence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import attrs


@attrs.frozen
class Fence:
    """The right to write to a stream until it is released, or claimed again. Compared by value."""

    stream: str
    owner: str
    """The member."""
    epoch: int
    """Higher than those of all earlier fences of the stream that have written."""


@attrs.frozen
class Owned:
    """The stream cannot be claimed now."""

    owner: str
    """The member that owns it; empty if the stream demands a newer version."""


@attrs.frozen
class Renewed:
    """The lease of a member was renewed."""

    seconds: float
    """The length of the lease; infinite if no other process can open the store."""
    now: float
    """The time of the renewal on the store's clock."""


@attrs.frozen
class Member:
    """A member of a store, as others see it."""

    name: str
    about: str
    """A text about the process, which it gave itself."""
    seconds: float
    """Seconds until its lease runs out; 0 if it has. Infinite if no other process can open the store."""
    streams: int
    """The number of streams that it owns."""
    open: int
    """Those of them with an open command or an open summary."""


@attrs.frozen
class Fleet:
    """A store and its members."""

    store: str
    """The program that stores the journal, with its version."""
    standbys: str
    """The setting of the store that says which replicas confirm a commit; empty: none."""
    unowned: int
    """The number of streams with an open command or an open summary that no member owns."""
    need_newer: int
    """The number of streams that demand a newer version than that of each living member."""
    members: Sequence[Member]
    """The members whose leases have not run out, and those whose streams have open work, by name."""


@attrs.frozen
class Hint:
    """A stream was changed by another member."""

    stream: str
    """Empty: the member has ended its lease, and no hint of it was lost."""
    member: str
    after: int | None = None
    """The last seq before the change; None if it added no events."""


HINTS_LOST = Hint("", "")
"""In place of hints that may have been lost."""


@attrs.frozen
class Claim:
    """The conditions of a claim of a stream, besides its owner."""

    epoch: int
    """The stored epoch of the stream."""
    demands: int
    """The lowest version of a member that may own the stream."""
    version: int
    """The version of the member."""


@attrs.define
class Owners:
    """Owners and leases, in memory. Times are those of the store's clock."""

    seconds: float
    """The length of a lease; infinite if no other process can open the store."""
    _until: dict[str, float] = attrs.field(factory=dict)
    """The ends of the leases, by member."""
    _versions: dict[str, int] = attrs.field(factory=dict)
    """By member."""
    _fences: dict[str, Fence] = attrs.field(factory=dict)
    """The fences of the owned streams."""
    _last: int = 0
    """The highest epoch so far."""

    def renew(self, member: str, now: float, version: int) -> None:
        self._until[member], self._versions[member] = now + self.seconds, version

    def leave(self, member: str) -> None:
        """End the lease of a member, which gives up its streams."""
        self._until.pop(member, None)

    def living(self, now: float) -> Mapping[str, float]:
        """The members whose leases have not run out, with the ends of their leases."""
        return {member: until for member, until in self._until.items() if now < until}

    def newest(self, now: float) -> int:
        """The highest version of a living member; 0 if there is none."""
        return max((self._versions[member] for member in self.living(now)), default=0)

    def owner(self, stream: str, now: float) -> str | None:
        """The living member that owns the stream; None if it is free."""
        fence = self._fences.get(stream)
        return fence.owner if fence is not None and now < self._until.get(fence.owner, now) else None

    def fleet(self, store: str, now: float, working: Collection[str], need_newer: int) -> Fleet:
        """`working`: the streams with open work."""
        owned = Counter(fence.owner for fence in self._fences.values())
        busy = Counter(fence.owner for name in working if (fence := self._fences.get(name)) is not None)
        names = {*self.living(now), *busy}
        members = [
            Member(name, "", max(0.0, self._until.get(name, now) - now), owned[name], busy[name])
            for name in sorted(names)
        ]
        return Fleet(store, "", len(working) - busy.total(), need_newer, members)

    def claim(self, stream: str, member: str, now: float, claim: Claim) -> Fence | Owned:
        if claim.demands > claim.version:
            return Owned("")
        owner = self.owner(stream, now)
        return self._take(stream, member, claim) if owner in (None, member) else Owned(str(owner))

    def follow(self, stream: str, member: str, now: float, claim: Claim, *, at_rest: bool) -> None:
        """Claim a stream for the member that has just put a command into its inbox, if that is possible.
        `at_rest`: the stream has no work that goes on, and the command is the only one in the inbox."""
        fence = self._fences.get(stream)
        owns = fence is not None and fence.owner == member
        if claim.demands <= claim.version and not owns and (at_rest or self.owner(stream, now) is None):
            self._take(stream, member, claim)

    def _take(self, stream: str, member: str, claim: Claim) -> Fence:
        self._last = max(self._last, claim.epoch) + 1
        fence = self._fences[stream] = Fence(stream, member, self._last)
        return fence

    def owns(self, fence: Fence) -> bool:
        """Whether this is the newest fence of the stream."""
        return self._fences.get(fence.stream) == fence

    def release(self, fence: Fence) -> None:
        if self.owns(fence):
            del self._fences[fence.stream]

    def forget(self, stream: str) -> None:
        """The stream was created or deleted: earlier fences are invalid."""
        self._fences.pop(stream, None)
