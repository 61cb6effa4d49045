"""Checks the rights of a principal against the stored conversations.

The rules are in `access/rights.py`. A conversation that the principal may not read is reported as missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import attrs

from ...runtime.journal.errors import StreamDamaged
from ...runtime.journal.protocol import Event, Journal
from ...runtime.journal.summary import Among
from ..access.principal import Principal
from ..access.rights import Right, covers, may, reads_own, role_required
from ..approvals.kinds import Approval
from ..common import errors
from ..log.fold import stored
from ..log.words.events import ApprovalRequested
from ..log.words.inbox import Create
from ..log.writer.log import ConversationLog
from ..log.writer.topics import Published
from .lists import ApprovalPage

PAGE = 200
MOST_SHOWN = 2000
"""Maximum number of pending approvals whose conversations an approver's list shows."""
MOST_SCANNED = 2000
"""Maximum number of approvals that are read for a page of those that a principal may see."""
MOST_KNOWN = 10_000
"""Maximum number of conversations that a live stream remembers as hidden."""


@attrs.frozen(eq=False)
class Guard:
    """The rights of a principal. Methods raise `AgentError`."""

    principal: Principal
    _journal: Journal
    _live: Mapping[str, ConversationLog]

    async def check(self, right: Right, id: str) -> None:
        """Require a right in a conversation.

        Raises ``conversation_not_found`` if the principal may not read it, else ``role_required``.
        """
        owner = await self._owner(id)
        if owner is None:
            raise errors.no_conversation(id)
        if not (may(self.principal, right, owner) or (right == "read" and await self._approves_in(id))):
            if right == "read" or not await self.may_read(id):
                raise errors.no_conversation(id)
            raise role_required(self.principal, right)

    async def check_new(self, id: str) -> None:
        """As `check` with ``command``, for a conversation that may not exist yet."""
        if await self._owner(id) is not None:
            await self.check("command", id)

    async def check_approval(self, right: Right, approval: Approval) -> None:
        """Require a right for an approval. Raises ``approval_not_found`` or ``role_required``."""
        if not await self.may_see(approval):
            raise errors.no_approval(approval.id)
        owner = await self._owner(approval.stream)
        if right != "read" and not (may(self.principal, right, owner) or self._covers(approval)):
            raise role_required(self.principal, right)

    async def may_read(self, id: str) -> bool:
        owner = await self._owner(id)
        return owner is not None and (may(self.principal, "read", owner) or await self._approves_in(id))

    async def may_see(self, approval: Approval) -> bool:
        """Whether the principal may read an approval: it covers it, or may read the conversation."""
        return self._covers(approval) or await self.may_read(approval.stream)

    # ----------------------------------------------------------------------- lists

    async def among(self) -> Among | None:
        """The conversations that lists show; None: all."""
        if may(self.principal, "read"):
            return None
        shown: dict[str, None] = {}
        cursor: str | None = None
        while self.principal.has("approver") and len(shown) < MOST_SHOWN:
            page = await stored.questions(self._journal, state="pending", limit=PAGE, cursor=cursor)
            shown |= {each.stream: None for each in page.questions if self._covers(each)}
            cursor = page.next_cursor
            if cursor is None:
                break
        return Among(self.principal.id if reads_own(self.principal) else "", tuple(shown))

    async def visible(
        self, read: Callable[[int, str | None], Awaitable[ApprovalPage]], limit: int, cursor: str | None
    ) -> ApprovalPage:
        """A page of the approvals that the principal may see, in the order of `read`, which takes the limit
        and the cursor of a page of all.

        Pages are full, because the number of short ones would be that of the approvals of others. Only after
        `MOST_SCANNED` approvals a page may be short and still have a next page.
        """
        shown: list[Approval] = []
        size, scanned = PAGE, 0
        while True:
            page = await read(size, cursor)
            found = [each for each in page.approvals if await self.may_see(each)]
            if size > 1 and len(shown) + len(found) > limit:
                size = 1  # the cursor of the next page has to be that of one approval
                continue
            if found and len(shown) == limit:
                return ApprovalPage(tuple(shown), cursor)
            shown += found
            cursor, scanned = page.next_cursor, scanned + size
            if cursor is None or scanned >= MOST_SCANNED:
                return ApprovalPage(tuple(shown), cursor)

    # ----------------------------------------------------------------- live streams

    def admits(self, published: Published) -> bool:
        """Whether a live stream may contain an item, as far as its owner decides. For approvers, `Sight`
        decides."""
        return may(self.principal, "read", published.owner) or self.principal.has("approver")

    def _covers(self, approval: object) -> bool:
        assert isinstance(approval, Approval)
        asked = approval.asked
        return covers(
            self.principal,
            kind=asked.kind,
            server=asked.server or "",
            tool=asked.tool_name if asked.is_of_call else "",
            node=asked.node,
        )

    async def _approves_in(self, id: str) -> bool:
        if not self.principal.has("approver"):
            return False
        approvals, _ = await stored.approvals_of(self._journal, id)
        return any(map(self._covers, approvals[id]))

    async def _owner(self, id: str) -> str | None:
        """The owner of a conversation; "" if it has none, or cannot be read; None if there is none with this
        id."""
        if (log := self._live.get(id)) is not None and log.state.last_seq:
            return log.state.head.owner
        row = await self._journal.row(id)
        if row is None:
            return None
        if row.last_seq:
            return row.summary.owner if row.summary is not None else ""
        for each in await stored.inbox(self._journal, id, skip_damaged=True):
            if isinstance(each.command, Create):
                return each.command.by or ""
        return ""


@attrs.define(eq=False)
class Sight:
    """The conversations whose events a live stream may contain, because of approvals in the scope of its
    principal. A conversation becomes visible with its first such approval."""

    _guard: Guard
    _known: dict[str, bool] = attrs.field(factory=dict)

    async def sees(self, published: Published) -> bool:
        if may(self._guard.principal, "read", published.owner):
            return True
        id, item = published.conversation, published.item
        asks = isinstance(item, Event) and item.type == ApprovalRequested.type
        if id not in self._known or (asks and not self._known[id]):
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            try:
                self._known[id] = await self._guard.may_read(id)
            except StreamDamaged:
                return False
        return self._known[id]
