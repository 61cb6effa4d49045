"""The embedded API: a running agent, used by the gateway, by tests and by Python programs.

    async with open_agent(config) as agent:
        turn = await agent.start_conversation("list all resources")
        print(turn.result.response)

Every command is durable before it is acknowledged, and is carried out whether or not its sender waits.
Cancelling a call cancels only the wait. The reading methods are in `agent_reads.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, cast, overload

import attrs
import trio

from ...runtime.journal.errors import BadCursor
from ...runtime.journal.protocol import NotAccepted, Notes
from ..access.principal import KEY_PREFIX, Principal
from ..approvals.kinds import Approval
from ..approvals.voting import agreed_edit, vote_of
from ..common import errors
from ..common.bounded_post import NotDelivered
from ..common.errors import AgentError
from ..common.fleet import FleetView, read_fleet
from ..conversation.result import AnsweredTurn, Result, Turn, refused_while_waiting, turn_of
from ..gate.check_decision import checked
from ..gate.gate import judge
from ..gate.halt import MAX_REASON, HaltState
from ..gate.policies import StoredPolicy, stored_policies
from ..log.words.events import Origin
from ..log.words.inbox import Cancel, Complete, Create, Delete, Resume, Say
from ..log.writer.topics import EVERYTHING, NOTICES
from ..notify.delivery import ChannelDelivery
from ..replay.call_page import CallPage, call_page
from ..replay.policy_use import PolicyUse, policy_uses
from ..replay.rule_report import RuleReport
from ..tools.pictures import Picture
from ..tools.registry import AcceptTools, NotFound
from ..tools.tokens import Token
from ..workers.remote_questions import withdraw_key
from . import follow
from .agent_reads import AgentReads
from .halted import refuse_if_halted
from .lists import ListedTool
from .sender import Sender, Sending

QUEUE_LIMIT = 16
"""Maximum number of messages that wait in the inbox of one conversation."""

_NAMESPACE = uuid.UUID("5d6a7c4e-6f0b-4b0e-9d3c-5f0f5a0c7b11")
"""The namespace of the conversation ids that earlier versions derived from an idempotency key."""

P = ParamSpec("P")


def _waiting(
    command: Callable[Concatenate[Agent, P], Awaitable[AnsweredTurn]],
) -> Callable[Concatenate[Agent, P], Coroutine[Any, Any, AnsweredTurn]]:
    """A command that waits. It still takes `wait=False`, from before its twin: so it does not wait."""

    @wraps(command)
    async def send(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> AnsweredTurn:
        agent = self if kwargs.pop("wait", True) else attrs.evolve(self, waits=False)
        return await command(agent, *args, **kwargs)

    return send


def _posting(
    command: Callable[Concatenate[Agent, P], Awaitable[Turn]],
) -> Callable[Concatenate[Agent, P], Coroutine[Any, Any, Turn]]:
    """The twin of a command that waits: it returns as soon as the command is on disk."""

    @wraps(command)
    async def post(self: Agent, /, *args: P.args, **kwargs: P.kwargs) -> Turn:
        return await command(attrs.evolve(self, waits=False), *args, **kwargs)

    return post


@attrs.define(eq=False)
class Agent(AgentReads):
    """A running agent, opened by `open_agent`.

    Every command is on disk before it is acknowledged, and is carried out whether or not its sender waits.
    Cancelling a call cancels only the wait. Reads use the journal and do not activate conversations.
    Any method may raise `AgentError` ``conversation_broken`` if the rows of a conversation cannot be read.
    """

    _sender: Sender
    notes: Notes
    """Small values that outlast the process. A program may use any kind except those of the agent itself."""
    started: float
    """The time at which this process opened the agent, in UTC seconds since the epoch."""
    credential_is_live: Callable[[str], bool] = lambda _: True
    """Whether the credential with this id (`Principal.credential`) is valid. A vote lapses with its
    credential."""
    _waits: bool = True
    """Whether commands wait for their results."""

    async def fleet(self) -> FleetView:
        """Return the processes that share the journal of this one."""
        self._require("view")
        with errors.journal_as_agent_error():
            return await read_fleet(self._journal, self.started)

    async def policies(self) -> Sequence[StoredPolicy]:
        """Return the policies by which this agent has judged calls, first used first."""
        self._require("view")
        with errors.journal_as_agent_error():
            return await stored_policies(self._journal)

    async def policy_uses(self) -> Mapping[str, PolicyUse]:
        """Return how often each policy has judged calls, by revision. Reads the whole journal."""
        self._require("view")
        with errors.journal_as_agent_error():
            return await policy_uses(self._journal)

    async def policy_report(self) -> RuleReport:
        """Return what each rule has decided in the last 30 days, and what people decided about its calls.

        A report is made at most once a minute, of the newest 100,000 calls.
        """
        self._require("view")
        with errors.journal_as_agent_error():
            return await self._cast.reports.get(self._journal, self._cast.services.logs.wall())

    async def recorded_calls(
        self, *, since: float = 0.0, limit: int = 1000, cursor: str | None = None
    ) -> CallPage:
        """Return a page of the calls of all conversations, newest conversation first, with the verdicts on
        them and what people decided.

        Conversations without an event from `since` on, in UTC seconds since the epoch, may be left out. A
        page may be empty before the end. What cannot be read is counted.
        """
        self._require("administer")
        with errors.journal_as_agent_error():
            try:
                return await call_page(self._journal, since=since, limit=limit, cursor=cursor)
            except BadCursor as error:
                raise errors.bad_cursor() from error

    @property
    def policy_revision(self) -> str:
        """The revision of the policy of new runs."""
        return self._cast.services.policies.current.revision

    def acting_as(self, principal: Principal | None) -> Self:
        """The same agent, restricted to the rights of a principal; None: not restricted.

        All methods then raise ``role_required`` where a role is missing, and treat conversations that the
        principal may not read as missing.
        """
        return self if principal is self.principal else attrs.evolve(self, principal=principal)

    @property
    def _program(self) -> bool:
        # The id of a key without a subject says that it is no person. So repetitions of commands that an
        # earlier version has stored are still the same commands.
        who = self.principal
        return who is not None and not who.is_known_person and not who.id.startswith(KEY_PREFIX)

    def _kept_token(self, token: str | None, server: str | None = None) -> Token | None:
        """The token to keep for a command; None: there is none, or it may not go to the only server that the
        command is about."""
        if token is None:
            return None
        kept = Token(token, None if self.principal is None else self.principal.token_servers)
        return kept if server is None or kept.for_server(server) is not None else None

    # --------------------------------------------------------------- commands

    @overload
    async def start_conversation(
        self,
        message: str,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
        pictures: Sequence[Picture] = (),
    ) -> AnsweredTurn: ...
    @overload
    async def start_conversation(
        self,
        message: str | None = None,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
        pictures: Sequence[Picture] = (),
        context: str | None = None,
    ) -> Turn: ...
    async def start_conversation(
        self,
        message: str | None = None,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
        pictures: Sequence[Picture] = (),
        context: str | None = None,
        wait: bool = True,
    ) -> Turn:
        """Create a conversation. With a message, run its first turn.

        `key` is an idempotency key: a repeated call with the same key has no further effect. The
        conversation's id is derived from it unless `id` is given. `token` is a bearer token that calls of the
        turn forward; it is never stored. `message_id` is the id of the message at an A2A client, `origin` the
        trace and the agents that the message came through. `pictures` are shown to models that take them;
        others get only the message, so name the pictures in it. `picture_in` makes one from a file in base64.
        `context` is the id that an A2A client has for the conversation, if it is another one.
        """
        if message is not None:
            _check_message(message)
        self._require("create")
        id = id or (await self._id_of_key(key) if key else str(uuid.uuid4()))
        if (guard := self._guard) is not None:
            await guard.check_new(id)
        create = Create(
            message,
            session_id,
            token is not None,
            message_id,
            origin,
            self._by,
            pictures,
            self._program,
            context,
        )
        wait = (self._waits and wait) or message is None
        sending = Sending(id, create, key, token=self._kept_token(token), wait=wait, new=True)
        if message is None:
            return await self._turn(id, await self._sender.command(sending))
        return await self._turn(id, await self._sender.begin(self._by, sending))

    post_conversation = _posting(start_conversation)
    """As `start_conversation`, but returns once the conversation is on disk."""

    async def _id_of_key(self, key: str) -> str:
        """The id of the conversation that an idempotency key creates, or has created."""
        before, guard = str(uuid.uuid5(_NAMESPACE, key)), self._guard
        with errors.journal_as_agent_error():
            if await self._journal.row(before) is not None and (
                guard is None or await guard.may_read(before)
            ):
                return before
        return self.id_of("conversation", key)

    @_waiting
    async def send(
        self,
        id: str,
        text: str,
        *,
        key: str | None = None,
        token: str | None = None,
        task: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
        pictures: Sequence[Picture] = (),
    ) -> AnsweredTurn:
        """Send a message to a conversation. While it waits for an approval, the message is not stored, and
        the result says so.

        `task` is the A2A task of the turn, by default the first one. `key`, `token`, `message_id`, `origin`
        and `pictures` are as in `start_conversation`.

        Raises:
            AgentError: ``conversation_not_found``, ``conversation_completed``, ``queue_full``, ...
        """
        _check_message(text)
        await self.check_right("command", id)
        sending = Sending(
            id,
            Say(text, token is not None, task, message_id, origin, self._by, pictures, self._program),
            key,
            token=self._kept_token(token),
            wait=self._waits,
            limit=QUEUE_LIMIT,
            unless=frozenset({"waiting_approval", "completed"}),
            # Otherwise the message would be accepted now and refused when it is handled.
            not_behind=frozenset({Complete.kind}),
        )
        return await self._answered(id, await self._sender.begin(self._by, sending))

    post = _posting(send)
    """As `send`, but returns once the message is on disk."""

    @_waiting
    async def decide(
        self,
        approval: Approval | str,
        decision: Mapping[str, Any],
        *,
        key: str | None = None,
        token: str | None = None,
        traceparent: str | None = None,
    ) -> AnsweredTurn:
        """Decide an approval, given as object or id. The first valid decision is accepted; an invalid one
        leaves the approval pending. If the approval needs several persons, a yes is a vote: the result has
        the code ``vote_recorded`` until it decides. The fields of `decision` are those of the HTTP API, for
        example ``{"approved": True}``. `traceparent` is the trace of the request (W3C Trace Context).

        Raises:
            AgentError: ``approval_not_found``, ``decision_required``, ``invalid_arguments``,
                ``denied_by_policy``, ``halted``, ``subject_changed``, ``may_not_approve``,
                ``already_decided``, ``expired``, ``void``, ...
        """
        services = self._cast.services
        with self._sender.serving():
            id = approval if isinstance(approval, str) else approval.id
            if (guard := self._guard) is not None:  # before the token goes anywhere
                await guard.check_approval("decide", await self.approval(id))
            question = await self.look_at(id, token)
            decided = await checked(question, decision, self.config, services.registry)
            kept = self._kept_token(token, question.asked.server)
            decided = attrs.evolve(decided, token=kept is not None)
            halts = services.halts.latest.number
            vote = vote_of(question, decided, self.principal, self.credential_is_live, halts)
            await refuse_if_halted(question, decided, services)
        if self._by is not None:
            decided = decided.made_by(self._by)
        adds = dict(agreed_edit(question, decided))
        adds |= {"halts": halts} if halts else {}
        adds |= {} if traceparent is None else {"traceparent": traceparent}
        result = await self._sender.decide(
            question, decided.to_json(), key, adds=adds, vote=vote, token=kept, wait=self._waits
        )
        return await self._answered(question.stream, result)

    post_decision = _posting(decide)
    """As `decide`, but returns once the decision is on disk."""

    async def look_at(self, approval: str, token: str | None = None) -> Approval:
        """Return an approval. If another agent asked it and no longer waits for the decision, withdraw it
        first."""
        question = await self.approval(approval)
        withdraw = await self._cast.remote_questions.look(question, self._kept_token(token))
        if withdraw is None:
            return question
        await self._sender.command(Sending(question.stream, withdraw, withdraw_key(withdraw)))
        return await self.approval(approval)

    async def cancel(self, id: str, *, key: str | None = None, run: str | None = None) -> Turn:
        """Cancel the active run, if there is one. Its pending approvals become void. With `run`, cancel only
        the run with that id."""
        await self.check_right("command", id)
        return await self._turn(id, await self._sender.command(Sending(id, Cancel(run, self._by), key)))

    async def complete(self, id: str, *, key: str | None = None) -> Turn:
        """Complete a conversation: it accepts no further messages. Raises `AgentError` ``run_in_progress``
        while a run is active."""
        await self.check_right("command", id)
        return await self._turn(id, await self._sender.command(Sending(id, Complete(self._by), key)))

    @_waiting
    async def resume(self, id: str, *, token: str, key: str | None = None) -> AnsweredTurn:
        """Give a run in state ``auth_required`` the bearer token that it needs to continue."""
        await self.check_right("command", id)
        command = Resume(token=True, by=self._by)
        sending = Sending(id, command, key, token=self._kept_token(token), wait=self._waits)
        return await self._answered(id, await self._sender.command(sending))

    post_token = _posting(resume)
    """As `resume`, but returns once the command is on disk."""

    async def accept_tool(self, name: str, hash: str) -> ListedTool:
        """Accept the weaker hints that the server of a tool lists now.

        `name` is the name in `tools`, `hash` the hash of the definition that was reviewed. Accepting a
        definition again has no effect. Raises `AgentError` ``tool_not_found``, or ``tool_changed`` if the
        definition has changed since.
        """
        self._require("administer")
        with self._sender.serving():
            found = await self._cast.services.registry.ask(AcceptTools(name, hash))
        if isinstance(found, NotFound):
            raise errors.no_tool(found.name, found.nearest)
        if found == "changed":
            raise errors.tool_changed(name)
        return ListedTool(found, judge(found, {}, self._root).action)

    async def halt(self, reason: str | None = None, *, key: str | None = None) -> HaltState:
        """Halt the agent: when this returns, no call of effect class `once` is sent until `unhalt`.

        Such a call waits for an approval instead, also if it was approved before. Calls that were sent before
        may still end. A halt survives restarts. A second halt changes nothing. `key` is an idempotency key.

        Raises:
            AgentError: ``invalid_request`` if the reason is longer than 500 characters.
        """
        self._require("administer")
        if reason is not None and len(reason) > MAX_REASON:
            text = f"reason is longer than {MAX_REASON} characters"
            raise AgentError("invalid_request", text, details={"field": "reason"})
        with errors.journal_as_agent_error():
            await self._cast.services.halts.halt(reason, self._by, key)
        return self._tell_halt()

    async def unhalt(self, *, key: str | None = None) -> HaltState:
        """End the halt. Calls that wait since then are sent when they are approved. Without a halt, this
        changes nothing."""
        self._require("administer")
        with errors.journal_as_agent_error():
            await self._cast.services.halts.unhalt(self._by, key)
        return self._tell_halt()

    def _tell_halt(self) -> HaltState:
        state = self._cast.services.halts.state
        self._cast.services.logs.bus.publish(EVERYTHING, state)
        self._cast.services.logs.bus.publish(NOTICES, None)
        return state

    async def notifications(self) -> Sequence[ChannelDelivery]:
        """Return the notifications that are kept, newest event first."""
        self._require("administer")
        with errors.journal_as_agent_error():
            return await self._cast.notifier.list()

    async def notifications_about(self, approval: str) -> Sequence[ChannelDelivery]:
        """Return the notifications about an approval that are kept, oldest first.

        Raises as `approval` does.
        """
        await self.approval(approval)
        with errors.journal_as_agent_error():
            return await self._cast.notifier.about(approval)

    async def retry_notification(self, id: str) -> ChannelDelivery:
        """Send a notification that was given up after all. Raises `AgentError` ``notification_not_found``."""
        self._require("administer")
        try:
            with errors.journal_as_agent_error():
                return await self._cast.notifier.retry(id)
        except LookupError:
            raise errors.no_notification(id) from None

    async def test_channel(self, channel: str) -> str:
        """Send a test to a channel of notifications, and return its id.

        Raises:
            AgentError: ``channel_not_found``, or ``not_delivered`` with the reason.
        """
        self._require("administer")
        try:
            return await self._cast.notifier.test(channel)
        except LookupError:
            raise errors.no_channel(channel, [each.name for each in self._cast.notifier.channels]) from None
        except NotDelivered as error:
            raise errors.not_delivered(channel, str(error)) from error

    async def delete(self, id: str) -> None:
        """Cancel the active run, if there is one, and delete the conversation from the journal."""
        await self.check_right("delete", id)
        try:
            await self._sender.command(Sending(id, Delete()))
        except AgentError as error:
            if not isinstance(error.__cause__, follow.Deleted):
                raise

    async def _turn(self, id: str, result: Result | NotAccepted | None) -> Turn:
        """Return the current conversation with the result of a command; None for a command without a wait."""
        with errors.journal_as_agent_error():
            conversation = await self._read(id)  # the right was checked before the command
        if isinstance(result, NotAccepted):
            result = refused_while_waiting(conversation)
        return turn_of(conversation, result)

    async def _answered(self, id: str, result: Result | NotAccepted | None) -> AnsweredTurn:
        """The turn of a command that waits. A twin by `_posting` says that there may be no result."""
        return cast(AnsweredTurn, await self._turn(id, result))

    # --------------------------------------------------------------- shutdown

    async def drain(self, grace: float) -> None:
        """Begin the shutdown: no further step starts, and calls in flight get `grace` seconds to end.

        After that, calls that wait for a turn raise ``shutting_down``. Their commands are on disk and
        continue at the next start.
        """
        active_runs = self._cast.services.logs.active_runs
        active_runs.draining.set()
        with trio.move_on_after(grace):
            await active_runs.wait_until_none()
        self._sender.close()


def _check_message(text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise AgentError("message_required", "message is required")
