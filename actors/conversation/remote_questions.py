"""Questions of other agents that wait for people here, and may have been settled there meanwhile.

An actor asks the agents from time to time, and `Agent.decide` asks before it takes a decision. A question
that the agent does not wait for any more is taken back; its call then reads the task again.
"""

from __future__ import annotations

import hashlib
import logging
import random
from collections.abc import Callable
from typing import Any

import attrs
import trio

from ...runtime.context import Behaviour, background
from ...runtime.errors import ActorError
from ...runtime.journal.errors import JournalError
from ...runtime.journal.protocol import Accepted, Journal
from ...runtime.message import Message
from ...runtime.ref import ActorRef
from ..approvals.kinds import Approval
from ..approvals.proxy_approval import ProxyQuestion
from ..log import stored
from ..log.inbox import Withdraw, body_of
from ..tools.delegation import Hop, LookAt
from ..tools.registry import RegistryMessage, RemoteServer, Resolve, Resolved
from ..tools.tokens import Tokens

logger = logging.getLogger("stopgo.a2a")

INTERVAL = 15.0
"""Seconds between two looks at all questions, less up to a third by chance."""
MOST_AT_ONCE = 8
"""Questions that are looked at side by side."""
PAGE = 100


@attrs.frozen(eq=False)
class RemoteQuestions:
    _journal: Journal
    _registry: ActorRef[RegistryMessage]
    _tokens: Tokens
    _wake: Callable[[str], None]
    _agent_id: str

    async def look(self, approval: Approval, token: str | None = None) -> Withdraw | None:
        """The command that takes the question back, if the agent does not wait for the answer any more.

        `token` is used if the agent is passed tokens, and the one of the run is not in memory.
        """
        asked = approval.asked
        if not isinstance(asked, ProxyQuestion) or approval.state != "pending":
            return None
        found = await self._registry.ask(Resolve(f"a2a_{asked.remote_agent_name}", {}, asked.server))
        if not isinstance(found, Resolved) or not isinstance(found.server, RemoteServer):
            return None
        bearer = None
        if found.server.forwards_bearer and asked.mover is not None:
            bearer = self._tokens.get(approval.stream, asked.mover) or token
            if bearer is None:
                return None  # the agent would not know the asker
        row = await self._journal.row(approval.stream)
        if row is None:
            return None
        hop = Hop(session_id=stored.head_of(row).session_id, visited=(self._agent_id,))
        try:
            why = await found.server.ref.ask(LookAt(task=asked.task, item=asked.item, hop=hop, bearer=bearer))
        except ActorError as error:
            logger.warning("a question of another agent cannot be looked at: %s", error)
            return None
        return None if why is None else Withdraw(approval.id, why)

    def actor(self) -> Behaviour[Message[Any]]:
        return background(self._watch)

    async def _watch(self) -> None:
        while True:
            await trio.sleep(INTERVAL * (1 - random.random() / 3))
            await self._look_at_all()

    async def _look_at_all(self) -> None:
        places = trio.CapacityLimiter(MOST_AT_ONCE)
        cursor: str | None = None
        while True:
            page = await stored.questions(
                self._journal, state="pending", kind=ProxyQuestion.kind, limit=PAGE, cursor=cursor
            )
            async with trio.open_nursery() as nursery:
                for question in page.questions:
                    assert isinstance(question, Approval)
                    nursery.start_soon(self._settle, question, places)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _settle(self, approval: Approval, places: trio.CapacityLimiter) -> None:
        async with places:
            try:
                withdraw = await self.look(approval)
            except JournalError as error:
                logger.warning("a question of another agent cannot be looked at: %s", error)
                return
            if withdraw is None:
                return
            outcome = await self._journal.deliver(
                approval.stream, withdraw_key(withdraw), withdraw.kind, body_of(withdraw)
            )
            if isinstance(outcome, Accepted):
                self._wake(approval.stream)


def withdraw_key(withdraw: Withdraw) -> str:
    """The same key would have to mean the same reason, and an agent may give another one at the next look."""
    return (
        f"withdraw/{withdraw.question}/{hashlib.sha256(withdraw.reason.encode(errors='replace')).hexdigest()}"
    )
