"""The time in which an activation owns its conversation: the fence of its stream, and its member's lease."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import attrs

from ....runtime.journal.errors import Fenced
from ....runtime.journal.lease import Lease, Term
from ....runtime.journal.ownership import Fence, Owned
from ....runtime.journal.patience import until_available
from ....runtime.journal.protocol import Journal, Saved


@attrs.define(eq=False)
class Tenure:
    fence: Fence
    _lease: Lease
    _term: Term
    """That of the lease before the claim, or before the last write."""
    is_lost: bool = False
    """Another member may have taken the conversation over, so the activation is about to end."""

    def owns(self) -> bool:
        """Whether no other member can have taken the conversation over since the last write."""
        return self._term.owns

    async def check(self, journal: Journal) -> None:
        """Raises `Fenced` if another member has taken the conversation over."""
        if not await until_available(partial(journal.owns, self.fence)):
            self.is_lost = True
            raise Fenced(f"another node owns conversation {self.fence.stream}")

    async def write(self, save: Callable[[], Awaitable[Saved]]) -> Saved:
        """Save. While the store cannot be reached, try again until the lease of this member has run out.
        Raises the errors of `Journal.save`."""

        async def attempt() -> tuple[Saved, Term]:
            term = self._lease.check()
            return await save(), term

        try:
            saved, self._term = await until_available(attempt)
        except Fenced:
            self.is_lost = True
            raise
        return saved


async def claim(journal: Journal, conversation: str, lease: Lease) -> Tenure | None:
    """Claim a conversation. None if another member owns it, or if this member has lost its lease. Raises
    `UnknownStream`."""
    term = lease.term
    if not term.owns:
        return None
    fence = await journal.claim(conversation)
    return None if isinstance(fence, Owned) else Tenure(fence, lease, term)
