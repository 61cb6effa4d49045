"""The questions of a called agent about its task, as approvals here, and the answers that it gets.

Each question is put once. If the agent still asks it after it was sent the answer, it has not accepted the
answer, and a new approval replaces the one before. Pure, except for `ProxyQuestions`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import count

import attrs

from ..approvals.kinds import Approval
from ..approvals.proxy_approval import ProxyQuestion, words_of
from ..approvals.yes_or_no import Approved
from ..log.log import ConversationLog
from ..log.record import CallRecord, Run
from ..tools.delegation import SERVER, RemoteAnswer, RemoteItem
from ..tools.needs import NeedsDecisions
from .call_scope import CallScope


@attrs.frozen(eq=False)
class ProxyQuestions:
    scope: CallScope
    key: str
    """The key of the call."""

    async def put_and_wait(self) -> None:
        """Put the questions that have not been put, and wait until any of all is settled."""
        log = self.scope.log
        record = log.run.calls[self.key]
        assert isinstance(record.need, NeedsDecisions)
        new = [
            self._about(item, number, record)
            for item in record.need.items
            if (number := _next_number(log, self.key, record, item)) is not None
        ]
        if new:
            await log.put(*new)
        asked = [latest(log.run, self.key, item) for item in record.need.items]
        if not _settled(log, self.key, record):
            await log.wait_for_end([id for id in asked if id is not None], self.scope.work_timers)

    def _about(self, item: RemoteItem, number: int, record: CallRecord) -> ProxyQuestion:
        log, scope = self.scope.log, self.scope
        assert record.started is not None
        assert record.remote is not None
        assert isinstance(record.need, NeedsDecisions)
        return ProxyQuestion.about(
            scope.occasion(f"{_prefix(self.key, item)}{number}", self.key),
            agent=record.started.server.removeprefix(SERVER),
            server=record.started.server,
            task=record.remote,
            item=item,
            refusal=record.need.refusals.get(item.name),
            replaces=latest(log.run, self.key, item),
            mover=log.run.driving_command if log.run.token else None,
            expires=scope.expires(),
            on_expiry=scope.policy_scope.policy.on_expiry,
        )


def has_settled_question(log: ConversationLog, key: str) -> bool:
    """Whether a question of the agent has been settled, and the agent has not been told."""
    return _settled(log, key, log.run.calls[key])


def approves_one(run: Run, key: str) -> bool:
    """Whether a human has approved something that the agent asked."""
    asked = (id for question, id in run.asked.items() if question.startswith(f"{key}^"))
    return any(isinstance(run.decisions.get(id), Approved) for id in asked)


def brought_by_next(log: ConversationLog, key: str) -> Sequence[str]:
    """The approvals whose ends the next attempt delivers to the agent: those that were settled since it
    asked. If the last attempt got no answer from the agent, the same as in that attempt."""
    record = log.run.calls.get(key)
    if record is None or record.started is None:
        return ()
    if isinstance(record.need, NeedsDecisions):
        return tuple(_undelivered(log, key, record))
    return record.started.brings


def answers_in(log: ConversationLog, approvals: Sequence[str]) -> Sequence[RemoteAnswer]:
    """The decisions about these approvals. A void approval has none."""
    return tuple(
        RemoteAnswer(asked.item, words_of(log.run.decisions[id]))
        for id in approvals
        if isinstance(asked := log.state.approvals[id].asked, ProxyQuestion) and id in log.run.decisions
    )


def latest(run: Run, key: str, item: RemoteItem) -> str | None:
    """The id of the latest approval for a question of the agent."""
    found = None
    for number in count():
        if (id := run.asked.get(f"{_prefix(key, item)}{number}")) is None:
            return found
        found = id
    raise AssertionError


def _prefix(key: str, item: RemoteItem) -> str:
    """The prefix of the keys of a question. The name is hashed, because the agent chooses it."""
    return f"{key}^{hashlib.sha256(item.name.encode()).hexdigest()[:16]}."


def _next_number(log: ConversationLog, key: str, record: CallRecord, item: RemoteItem) -> int | None:
    """The number of the question to put about an item; None if the latest one is not delivered yet."""
    last = latest(log.run, key, item)
    if last is not None and last not in record.brought:
        return None
    return next(number for number in count() if f"{_prefix(key, item)}{number}" not in log.run.asked)


def _settled(log: ConversationLog, key: str, record: CallRecord) -> bool:
    return next(_undelivered(log, key, record), None) is not None


def _undelivered(log: ConversationLog, key: str, record: CallRecord) -> Iterator[str]:
    """The approvals that have been settled, and whose end has not been delivered to the agent."""
    assert isinstance(record.need, NeedsDecisions)
    for item in record.need.items:
        id = latest(log.run, key, item)
        if id is not None and id not in record.brought and _is_over(log.state.approvals[id]):
            yield id


def _is_over(approval: Approval) -> bool:
    return approval.state != "pending"
