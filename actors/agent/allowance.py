"""The limits of a principal on its runs, checked before a command is accepted that starts one.

A conversation has one run at a time, so the conversations with a live run that the principal requested are
counted. After a restart, those that others own are not known.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import attrs
import trio

from ...config.sections.auth import PrincipalLimits
from ...runtime.journal.errors import StreamDamaged
from ...runtime.journal.summary import Among, Row
from ..common.errors import AgentError
from ..log.fold import stored
from ..log.words.inbox import Create, Say
from ..run.services import Services

T = TypeVar("T")

PAGE = 200
_LIVE = frozenset({"running", "waiting", "auth_required"})


@attrs.define(eq=False)
class Allowance:
    _services: Services
    _runs: defaultdict[str, set[str]] = attrs.field(factory=lambda: defaultdict(set))
    """By principal, the conversations that may have a live run of it."""
    _entering: Counter[str] = attrs.field(factory=Counter)
    """The conversations to which a command is being sent."""
    _known: set[str] = attrs.field(factory=set)
    """The principals whose conversations have been read."""
    _reading: trio.Lock = attrs.field(factory=trio.Lock)

    async def admit(
        self,
        principal: str | None,
        conversation: str,
        limit: int | None,
        send: Callable[[int | None], Awaitable[T]],
    ) -> T:
        """Call `send` with `limit`, the maximum number of queued commands. Over a limit of the principal, a
        repetition of an accepted command is still answered.

        Raises `AgentError` ``limit_reached``, and what `send` raises.
        """
        auth = self._services.config.auth
        if principal is None or auth is None:
            return await send(limit)
        refusal = self._spends_too_much(principal) or await self._runs_too_many(
            principal, conversation, auth.limits
        )
        self._entering[conversation] += 1
        try:
            if refusal is None:
                return await send(limit)
            try:
                return await send(0)  # a key that was used before is answered, nothing else is accepted
            except AgentError as error:
                raise refusal if error.code == "queue_full" else error from None
        finally:
            self._entering[conversation] -= 1

    def _spends_too_much(self, principal: str) -> AgentError | None:
        spending = self._services.spending
        if spending.limit is None or spending.today(principal) < spending.limit:
            return None
        return AgentError(
            "limit_reached",
            f"{principal} has spent {spending.limit:g} US dollars today (auth.limits.cost_usd_per_day)",
            hint="The next day begins at midnight, UTC.",
        )

    async def _runs_too_many(
        self, principal: str, conversation: str, limits: PrincipalLimits
    ) -> AgentError | None:
        if limits.runs is None:
            return None
        runs = self._runs[principal]
        async with self._reading:
            if principal not in self._known:
                runs |= await self._owned(principal)
                self._known.add(principal)
            if len(runs | {conversation}) > limits.runs:
                for each in tuple(runs):
                    if not (self._entering[each] or await self._is_live(each, principal)):
                        runs.discard(each)
            if len(runs | {conversation}) <= limits.runs:
                runs.add(conversation)
                return None
        return AgentError(
            "limit_reached",
            f"{principal} has {len(runs)} runs that have not ended (auth.limits.runs: {limits.runs})",
            hint="Wait for the end of one, or cancel one.",
        )

    async def _owned(self, principal: str) -> set[str]:
        """The conversations that the principal owns with a live run."""
        found: set[str] = set()
        cursor: str | None = None
        while True:
            page = await self._services.logs.journal.list(among=Among(principal), limit=PAGE, cursor=cursor)
            found.update(row.stream for row in page.rows if _has_live_run(row, principal))
            cursor = page.next_cursor
            if cursor is None:
                return found

    async def _is_live(self, conversation: str, principal: str) -> bool:
        """Whether a conversation has a live run of the principal, or a command that starts one."""
        log, journal = await self._services.logs.owned(conversation), self._services.logs.journal
        if log is not None and log.state.live_run is not None:
            return log.state.live_run.started.by == principal
        waiting = await stored.inbox(journal, conversation, skip_damaged=True)
        if any(isinstance(each.command, Create | Say) and each.command.by == principal for each in waiting):
            return True
        row = await journal.row(conversation)
        return row is not None and _has_live_run(row, principal)


def _has_live_run(row: Row, principal: str) -> bool:
    try:
        run = stored.head_of(row).run
    except StreamDamaged:
        return False  # it cannot go on
    return run is not None and run.state in _LIVE and run.requester == principal
