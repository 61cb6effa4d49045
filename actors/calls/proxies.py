"""Proxy approvals: the questions of a called agent about its task, and the answers sent back to it.

Each question becomes one approval. If the agent repeats a question after the answer was delivered, it did not
accept the answer, and a new approval replaces the earlier one. Pure, except for `ProxyQuestions`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import attrs

from ..approvals.proxy_approval import ProxyQuestion, words_of
from ..approvals.yes_or_no import Approved
from ..log.fold.record import CallRecord, Run
from ..log.words import keys
from ..log.writer.log import ConversationLog
from ..run.scopes import CallScope
from ..tools.delegation import SERVER, RemoteAnswer, RemoteItem
from ..tools.needs import NeedsDecisions


@attrs.frozen(eq=False)
class ProxyQuestions:
    """The questions of the agent that one call is sent to."""

    scope: CallScope
    key: str
    """The key of the call."""

    async def put_and_wait(self) -> None:
        """Put the new questions to a human, then wait until any open question of the call is settled."""
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
        if not has_settled_question(log, self.key):
            await log.branches.wait_for_end([id for id in asked if id is not None], self.scope.work_timers)

    def _about(self, item: RemoteItem, number: int, record: CallRecord) -> ProxyQuestion:
        log, scope = self.scope.log, self.scope
        assert record.started is not None
        assert record.remote is not None
        assert isinstance(record.need, NeedsDecisions)
        return ProxyQuestion.about(
            scope.occasion(keys.delegated(self.key, item.name, number), self.key),
            agent=record.started.server.removeprefix(SERVER),
            server=record.started.server,
            task=record.remote,
            item=item,
            refusal=record.need.refusals.get(item.name),
            replaces=latest(log.run, self.key, item),
            mover=log.run.command_of(self.key) if log.run.has_token(self.key) else None,
            expires=scope.expires(),
            on_expiry=scope.policy_scope.policy.on_expiry,
        )


def has_settled_question(log: ConversationLog, key: str) -> bool:
    """Whether a question of the agent is settled and its outcome not yet delivered to the agent."""
    return next(_undelivered(log, key, log.run.calls[key]), None) is not None


def has_approved_question(run: Run, key: str) -> bool:
    """Whether a human has approved any question of the agent."""
    asked = (id for question, id in run.asked.items() if keys.is_asked_during(question, key))
    return any(isinstance(run.decisions.get(id), Approved) for id in asked)


def brought_by_next(log: ConversationLog, key: str) -> Sequence[str]:
    """Return the approvals whose outcomes the next attempt delivers to the agent: those settled since it
    asked or, if the last attempt got no answer, the same approvals as in that attempt."""
    record = log.run.calls.get(key)
    if record is None or record.started is None:
        return ()
    if isinstance(record.need, NeedsDecisions):
        return tuple(_undelivered(log, key, record))
    return record.started.brings


def answers_in(log: ConversationLog, approvals: Sequence[str]) -> Sequence[RemoteAnswer]:
    """Return the decisions on these approvals as answers to the agent. A void approval has none."""
    return tuple(
        RemoteAnswer(asked.item, words_of(decision), decision.agrees, asked.remote_digest)
        for id in approvals
        if isinstance(asked := log.state.approvals[id].asked, ProxyQuestion)
        and (decision := log.run.decisions.get(id)) is not None
    )


def items_left(log: ConversationLog, key: str, approvals: Sequence[str]) -> Sequence[RemoteItem]:
    """Return the last known questions of the agent, without those that were withdrawn: void among these
    approvals."""
    withdrawn = {
        asked.item.name
        for id in approvals
        if isinstance(asked := log.state.approvals[id].asked, ProxyQuestion)
        and log.state.approvals[id].state == "void"
    }
    return tuple(item for item in log.run.calls[key].remote_items if item.name not in withdrawn)


def latest(run: Run, key: str, item: RemoteItem) -> str | None:
    """Return the id of the latest approval for a question of the agent."""
    found = None
    for number in count():
        if (id := run.asked.get(keys.delegated(key, item.name, number))) is None:
            return found
        found = id
    raise AssertionError


def _next_number(log: ConversationLog, key: str, record: CallRecord, item: RemoteItem) -> int | None:
    """Return the number of the next approval for an item; None if the latest is not delivered yet."""
    last = latest(log.run, key, item)
    if last is not None and last not in record.brought:
        return None
    return next(number for number in count() if keys.delegated(key, item.name, number) not in log.run.asked)


def _undelivered(log: ConversationLog, key: str, record: CallRecord) -> Iterator[str]:
    """Yield the settled approvals whose outcomes have not been delivered to the agent. Agents of other makes
    take the answers to all their questions at once, so none is yielded while one of these is pending."""
    assert isinstance(record.need, NeedsDecisions)
    ids = [(item, id) for item in record.need.items if (id := latest(log.run, key, item)) is not None]
    pending = {id for _, id in ids if log.state.approvals[id].state == "pending"}
    waits = any(item.form and id in pending for item, id in ids)
    for item, id in ids:
        if id not in record.brought and id not in pending and not (item.form and waits):
            yield id
