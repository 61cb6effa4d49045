"""Checks whether other agents still wait for the answers to their questions.

A question of another agent is an approval here, but may be decided there. An actor checks all of them from
time to time, and `Agent.decide` checks one before it accepts a decision. If the agent no longer waits, the
approval is voided, and the call reads the remote task again.
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
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Accepted, Journal, NewCommand
from ...runtime.message import Message
from ...runtime.ref import ActorRef
from ..approvals.kinds import Approval
from ..approvals.proxy_approval import ProxyQuestion
from ..log.fold import stored
from ..log.words.inbox import Withdraw, body_of
from ..tools.delegation import Hop, LookAt
from ..tools.registry import RegistryMessage, RemoteServer, Resolve, Resolved, bearer_for
from ..tools.tokens import Token, Tokens

logger = logging.getLogger("stopgo.a2a")

INTERVAL = 15.0
"""Seconds between two checks of all questions, less a random part of up to a third."""
MAX_CONCURRENT = 8
"""The maximum number of questions that are checked at the same time."""
PAGE = 100


@attrs.frozen(eq=False)
class RemoteQuestions:
    _journal: Journal
    _registry: ActorRef[RegistryMessage]
    _tokens: Tokens
    _wake: Callable[[str], None]
    _agent_id: str

    async def look(self, approval: Approval, token: Token | None = None) -> Withdraw | None:
        """The command that voids the approval, if the agent no longer waits for the answer.

        `token` is for an agent that is passed bearer tokens, and used if the run's token is not in memory.
        """
        asked = approval.asked
        if not isinstance(asked, ProxyQuestion) or approval.state != "pending":
            return None
        found = await self._registry.ask(Resolve(f"a2a_{asked.remote_agent_name}", {}, asked.server))
        if not isinstance(found, Resolved) or not isinstance(found.server, RemoteServer):
            return None
        bearer = None
        if found.server.forwards_bearer and asked.mover is not None:
            usable = self._tokens.get(approval.stream, asked.mover) or token
            if usable is None:
                return None  # the agent would refuse to show the task
            bearer = bearer_for(found.server, usable)
        row = await self._journal.row(approval.stream)
        if row is None:
            return None
        hop = Hop(session_id=stored.head_of(row).session_id, visited=(self._agent_id,))
        try:
            look = LookAt(task=asked.task, item=asked.item, hop=hop, shown=asked.remote_digest, bearer=bearer)
            why = await found.server.ref.ask(look)
        except ActorError as error:
            logger.warning("could not check whether another agent still asks a question: %s", error)
            return None
        return None if why is None else Withdraw(approval.id, why)

    def actor(self) -> Behaviour[Message[Any]]:
        return background(self._watch)

    async def _watch(self) -> None:
        while True:
            await trio.sleep(INTERVAL * (1 - random.random() / 3))
            await until_available(self._look_at_all)

    async def _look_at_all(self) -> None:
        limiter = trio.CapacityLimiter(MAX_CONCURRENT)
        cursor: str | None = None
        while True:
            page = await stored.questions(
                self._journal, state="pending", kind=ProxyQuestion.kind, limit=PAGE, cursor=cursor
            )
            async with trio.open_nursery() as nursery:
                for question in page.questions:
                    assert isinstance(question, Approval)
                    nursery.start_soon(self._check, question, limiter)
            cursor = page.next_cursor
            if cursor is None:
                return

    async def _check(self, approval: Approval, limiter: trio.CapacityLimiter) -> None:
        async with limiter:
            try:
                withdraw = await self.look(approval)
                if withdraw is None:
                    return
                outcome = await self._journal.deliver(
                    NewCommand(approval.stream, withdraw_key(withdraw), withdraw.kind, body_of(withdraw))
                )
            except JournalError as error:
                logger.warning("could not check whether another agent still asks a question: %s", error)
                return
            if isinstance(outcome, Accepted):
                self._wake(approval.stream)


def withdraw_key(withdraw: Withdraw) -> str:
    """The key of the command. It includes the reason: an agent may give another reason at the next check,
    and a key stands for one request."""
    return (
        f"withdraw/{withdraw.question}/{hashlib.sha256(withdraw.reason.encode(errors='replace')).hexdigest()}"
    )
