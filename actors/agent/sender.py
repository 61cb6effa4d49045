"""Sends commands: delivers them to the inboxes of conversations, and waits for the results."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias, assert_never

import attrs
import trio

from ...runtime.errors import ActorError
from ...runtime.event_bus import Subscription
from ...runtime.journal.errors import Reading
from ...runtime.journal.protocol import (
    Accepted,
    DecisionOutcome,
    DeliveryOutcome,
    Json,
    KeyReused,
    NewCommand,
    NotAccepted,
    Repeated,
)
from ...runtime.journal.question import Already, Question, Unknown, Won
from ...runtime.journal.vote import Outdated, Vote, Voted
from ..approvals.voting import subject_changed
from ..common import errors
from ..common.errors import AgentError
from ..conversation.result import Result, result_of
from ..log.words.inbox import AnyCommand, body_of
from ..log.writer.topics import ReplyTopic, Unanswered
from ..run.services import Services
from ..tools.tokens import Token
from . import follow
from .allowance import Allowance

SendOutcome: TypeAlias = DeliveryOutcome | DecisionOutcome


@attrs.frozen
class Sending:
    """A command for a conversation, and how it is sent."""

    id: str
    command: AnyCommand
    key: str | None = None
    """The idempotency key."""
    token: Token | None = attrs.field(default=None, kw_only=True, repr=False)
    """The bearer token to hold until the command is handled."""
    wait: bool = attrs.field(default=True, kw_only=True)
    """Whether the sender waits for the result."""
    new: bool = attrs.field(default=False, kw_only=True)
    """The command creates the conversation."""
    limit: int | None = attrs.field(default=None, kw_only=True)
    unless: frozenset[str] = attrs.field(default=frozenset(), kw_only=True)
    not_behind: frozenset[str] = attrs.field(default=frozenset(), kw_only=True)
    """As in `NewCommand`, as are `limit` and `unless`."""


@attrs.define(eq=False)
class Sender:
    _services: Services
    _waits: set[Subscription] = attrs.field(factory=set)
    _closed: bool = False
    _allowance: Allowance = attrs.field(
        init=False, default=attrs.Factory(lambda self: Allowance(self._services), takes_self=True)
    )

    async def begin(self, principal: str | None, sending: Sending) -> Result | NotAccepted | None:
        """As `command`, for a command that starts a run, within the limits of a principal."""

        async def send(limit: int | None) -> Result | NotAccepted | None:
            return await self.command(attrs.evolve(sending, limit=limit))

        return await self._allowance.admit(principal, sending.id, sending.limit, send)

    async def command(self, sending: Sending) -> Result | NotAccepted | None:
        """Deliver a command and return its result; None if it has no result, or if its sender does not wait
        and the command is not a repetition with a known result.

        Returns `NotAccepted` if `unless` names the status "waiting_approval" and the conversation has it.
        Raises `AgentError`.
        """
        id, key = sending.id, sending.key or str(uuid.uuid4())
        new = NewCommand(
            id,
            key,
            sending.command.kind,
            body_of(sending.command),
            new=sending.new,
            limit=sending.limit,
            unless=sending.unless,
            not_behind=sending.not_behind,
            follow=True,
        )

        async def deliver() -> SendOutcome:
            return await self._services.logs.journal.deliver(new)

        return await self._send(id, key, sending.token, sending.wait, deliver)

    async def decide(
        self,
        question: Question,
        decision: Json,
        key: str | None,
        *,
        adds: Json,
        vote: Vote | None,
        token: Token | None,
        wait: bool,
    ) -> Result | None:
        """Decide an approval, or vote for it, and return the result as for a command. Raises `AgentError`."""
        services = self._services
        key = key or str(uuid.uuid4())

        async def decide() -> SendOutcome:
            return await services.logs.journal.decide(
                question.id, decision, key, adds=adds, vote=vote, follow=True
            )

        reply = await self._send(question.stream, key, token, wait, decide)
        assert not isinstance(reply, NotAccepted)
        return reply

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Raise `AgentError` ``shutting_down`` if a shutdown has begun, also instead of an `ActorError` in
        the block."""
        self._refuse_when_draining()
        try:
            yield
        except ActorError:
            self._refuse_when_draining()
            raise

    def _refuse_when_draining(self) -> None:
        if self._services.logs.active_runs.draining.is_set():
            raise errors.shutting_down(accepted=False)

    async def _send(
        self,
        id: str,
        key: str,
        token: Token | None,
        wait: bool,
        deliver: Callable[[], Awaitable[SendOutcome]],
    ) -> Result | NotAccepted | None:
        services = self._services
        # Otherwise a cancelled caller would keep the token of another, with the same key, from being stored.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._refuse_when_draining()
        is_stored = self._store_token(id, key, token)
        # Subscribe first, because the reply may be published right after the commit. For two items, so that
        # one piece of news does not hide another.
        with services.logs.bus.subscribe(ReplyTopic(id, key), buffer=2) as replies:
            needed = False
            try:
                with errors.journal_as_agent_error():
                    outcome = await deliver()
                    known = None
                    if isinstance(outcome, Repeated) and outcome.reply is not None:
                        with Reading(id, "a reply"):
                            known = _result(outcome.reply)
                needed = _is_open(outcome)
            finally:  # also if this is cancelled before the command is delivered
                if is_stored and not needed:
                    services.tokens.drop(id, [key])
            match outcome:
                case Accepted() | Won() | Voted() | Repeated(reply=None):
                    services.wake(id)
                    return await self._wait(id, key, replies) if wait else None
                case Repeated():
                    return _unless_refused(known)
                case NotAccepted(why="status", status="waiting_approval"):
                    return outcome
                case _:
                    raise _refusal(outcome, id)

    async def _wait(self, id: str, key: str, replies: Subscription) -> Result | None:
        if self._closed:
            replies.end()  # `close` was called while the command was being delivered
        self._waits.add(replies)
        try:
            with errors.journal_as_agent_error():
                reply = await follow.reply(replies, self._services.logs.journal, id, key)
        except follow.Deleted as error:
            raise errors.no_conversation(id) from error
        finally:
            self._waits.discard(replies)
        if reply is None:
            raise errors.shutting_down(accepted=True)
        if isinstance(reply, Unanswered):
            raise errors.unanswered(reply.lost)
        return _unless_refused(_result(reply))

    def _store_token(self, id: str, key: str, token: Token | None) -> bool:
        """Store a token before its command is delivered. Never replace one: the sender of a repeated key
        may be somebody else."""
        tokens = self._services.tokens
        if token is None or tokens.get(id, key) is not None:
            return False
        tokens.put(id, key, token)
        return True

    def close(self) -> None:
        """End all waits with ``shutting_down``. The commands are on disk, and continue at the next start."""
        self._closed = True
        for replies in self._waits:
            replies.end()


def _result(reply: Json) -> Result | AgentError | None:
    if "error" in reply:
        refused = reply["error"]
        return AgentError(refused["code"], refused["message"], hint=refused.get("hint"))
    return result_of(reply)


def _unless_refused(result: Result | AgentError | None) -> Result | None:
    if isinstance(result, AgentError):
        raise result
    return result


def _refusal(outcome: KeyReused | NotAccepted | Already | Outdated | Unknown, id: str) -> AgentError:
    match outcome:
        case KeyReused():
            return errors.key_reused()
        case NotAccepted():
            return errors.not_accepted(outcome, id)
        case Already(question=standing):
            return errors.already(standing)
        case Outdated():
            return subject_changed()
        case Unknown():
            return errors.no_approval(id)
        case _:
            assert_never(outcome)


def _is_open(outcome: SendOutcome) -> bool:
    """Whether the command was in the inbox after its delivery."""
    if isinstance(outcome, Repeated):
        return outcome.reply is None
    return isinstance(outcome, Accepted | Won | Voted)
