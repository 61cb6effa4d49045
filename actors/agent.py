"""The embedded API: a running agent, for the gateway, for tests and for your own program.

    async with open_agent(config) as agent:
        turn = await agent.start_conversation("list all resources")
        print(turn.result.response)

Every command is durable before it is acknowledged and carried out whether or not its sender waits:
cancelling any of these calls cancels only the waiting. The reads are in `agent_reads.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal, overload

import attrs
import trio

from ..runtime.journal.protocol import NotAccepted, Notes
from .agent_reads import AgentReads
from .approvals.kinds import Approval
from .common import errors
from .common.errors import AgentError
from .conversation import follow
from .conversation.lists import ListedTool
from .conversation.remote_questions import withdraw_key
from .conversation.result import AnsweredTurn, Result, Turn, refused_while_waiting, turn_of
from .conversation.sender import Sender
from .gate.check_decision import checked
from .gate.gate import judge
from .log.events import Origin
from .log.inbox import Cancel, Complete, Create, Delete, Resume, Say
from .tools.registry import Accept, NotFound

QUEUE_LIMIT = 16
"""Messages that may wait in one conversation's inbox."""

_NAMESPACE = uuid.UUID("5d6a7c4e-6f0b-4b0e-9d3c-5f0f5a0c7b11")
"""Of conversation ids that are derived from an idempotency key."""


@attrs.define(eq=False)
class Agent(AgentReads):
    """A running agent, made by `open_agent`.

    Every command is on disk before it is acknowledged, and is carried out whether or not its sender waits:
    cancelling a call cancels only the waiting. Reads take the journal's word and disturb no conversation.
    Any method may raise `AgentError` ``conversation_broken`` when the rows of a conversation cannot be read.
    """

    _sender: Sender
    notes: Notes
    """Small values that outlive the process, by kinds that the agent does not use itself."""
    started: float
    """When this process opened it, in UTC seconds."""

    # --------------------------------------------------------------- commands

    @overload
    async def start_conversation(
        self,
        message: str,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        wait: Literal[True] = True,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> AnsweredTurn: ...
    @overload
    async def start_conversation(
        self,
        message: str | None = None,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        wait: bool = True,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> Turn: ...
    async def start_conversation(
        self,
        message: str | None = None,
        *,
        key: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        wait: bool = True,
        id: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> Turn:
        """Create a conversation; with a message, run its first turn.

        `key` makes the call repeatable: the conversation's id derives from it, unless `id` gives it. `token`
        is a bearer token that calls of the turn forward; it is never stored. Without `wait` the turn is not
        waited for. `message_id` is the id that an A2A client gave the message, `origin` the trace and
        the agents that the message came through.
        """
        if message is not None:
            _check_message(message)
        id = id or str(uuid.uuid5(_NAMESPACE, key) if key else uuid.uuid4())
        create = Create(message, session_id, token is not None, message_id, origin)
        wait = wait or message is None
        result = await self._sender.command(id, key, create, token=token, wait=wait, new=True)
        return await self._turn(id, result)

    @overload
    async def send(
        self,
        id: str,
        text: str,
        *,
        key: str | None = None,
        token: str | None = None,
        wait: Literal[True] = True,
        task: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> AnsweredTurn: ...
    @overload
    async def send(
        self,
        id: str,
        text: str,
        *,
        key: str | None = None,
        token: str | None = None,
        wait: bool,
        task: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> Turn: ...
    async def send(
        self,
        id: str,
        text: str,
        *,
        key: str | None = None,
        token: str | None = None,
        wait: bool = True,
        task: str | None = None,
        message_id: str | None = None,
        origin: Origin | None = None,
    ) -> Turn:
        """Say something in a conversation. While it waits for an approval the message is not stored, and
        the result says so. `task` is the A2A task that the turn belongs to, by default the first one;
        `message_id` and `origin` are as in `start_conversation`.

        Raises:
            AgentError: ``conversation_not_found``, ``conversation_completed``, ``queue_full``, ...
        """
        _check_message(text)
        log = self._cast.services.live.get(id)
        result = await self._sender.command(
            id,
            key,
            Say(text, token is not None, task, message_id, origin),
            token=token,
            wait=wait,
            limit=QUEUE_LIMIT + (log.begun if log else 0),
            unless=frozenset({"waiting_approval", "completed"}),
            # It would be refused after it was accepted.
            not_behind=frozenset({Complete.kind}),
        )
        return await self._turn(id, result)

    @overload
    async def decide(
        self,
        approval: Approval | str,
        decision: Mapping[str, Any],
        *,
        key: str | None = None,
        token: str | None = None,
        wait: Literal[True] = True,
    ) -> AnsweredTurn: ...
    @overload
    async def decide(
        self,
        approval: Approval | str,
        decision: Mapping[str, Any],
        *,
        key: str | None = None,
        token: str | None = None,
        wait: bool,
    ) -> Turn: ...
    async def decide(
        self,
        approval: Approval | str,
        decision: Mapping[str, Any],
        *,
        key: str | None = None,
        token: str | None = None,
        wait: bool = True,
    ) -> Turn:
        """Answer an approval, or the one with this id. The first valid decision counts; an invalid one leaves
        it pending. The fields of `decision` are those of the HTTP contract: ``{"approved": True}``.

        Raises:
            AgentError: ``approval_not_found``, ``decision_required``, ``invalid_arguments``,
                ``denied_by_policy``, ``already_decided``, ``expired``, ``void``, ...
        """
        with self._sender.serving():
            id = approval if isinstance(approval, str) else approval.id
            question = await self.look_at(id, token)
            decided = await checked(question, decision, self.config, self._cast.services.registry)
        decided = attrs.evolve(decided, token=token is not None)
        result = await self._sender.decide(question, decided.to_json(), key, token=token, wait=wait)
        return await self._turn(question.stream, result)

    async def look_at(self, approval: str, token: str | None = None) -> Approval:
        """The approval, taken back if another agent asked it and does not wait for the answer any more."""
        question = await self.approval(approval)
        withdraw = await self._cast.remote_questions.look(question, token)
        if withdraw is None:
            return question
        await self._sender.command(question.stream, withdraw_key(withdraw), withdraw)
        return await self.approval(approval)

    async def cancel(self, id: str, *, key: str | None = None, run: str | None = None) -> Turn:
        """Stop the run that is going, if there is one: its pending approvals become void. With `run`,
        only the run of that id."""
        return await self._turn(id, await self._sender.command(id, key, Cancel(run)))

    async def complete(self, id: str, *, key: str | None = None) -> Turn:
        """Close a conversation for good. Raises `AgentError` ``run_in_progress`` while a run is going."""
        return await self._turn(id, await self._sender.command(id, key, Complete()))

    @overload
    async def resume(
        self, id: str, *, token: str, key: str | None = None, wait: Literal[True] = True
    ) -> AnsweredTurn: ...
    @overload
    async def resume(self, id: str, *, token: str, key: str | None = None, wait: bool) -> Turn: ...
    async def resume(self, id: str, *, token: str, key: str | None = None, wait: bool = True) -> Turn:
        """Give a run in ``auth_required`` the bearer token it goes on with."""
        result = await self._sender.command(id, key, Resume(token=True), token=token, wait=wait)
        return await self._turn(id, result)

    async def accept_tool(self, name: str, hash: str) -> ListedTool:
        """Accept the weaker hints that a tool's server lists now.

        `name` is the one that `tools` shows, `hash` that of the definition that was looked at. To accept what
        counts already changes nothing. Raises `AgentError` ``tool_not_found``, or ``tool_changed`` when the
        definition is another by now.
        """
        with self._sender.serving():
            found = await self._cast.services.registry.ask(Accept(name, hash))
        if isinstance(found, NotFound):
            raise errors.no_tool(found.name, found.nearest)
        if found == "changed":
            raise errors.tool_changed(name)
        return ListedTool(found, judge(found, {}, self._root).action)

    async def delete(self, id: str) -> None:
        """Cancel what is going on, then forget the conversation: nothing of it stays in the store."""
        try:
            await self._sender.command(id, None, Delete())
        except AgentError as error:
            if not isinstance(error.__cause__, follow.Deleted):
                raise

    async def _turn(self, id: str, result: Result | NotAccepted | None) -> Turn:
        """The conversation as it stands now that a command has this result, or is not waited for."""
        conversation = await self.get(id)
        if isinstance(result, NotAccepted):
            result = refused_while_waiting(conversation)
        return turn_of(conversation, result)

    # --------------------------------------------------------------- shutdown

    async def drain(self, grace: float) -> None:
        """Begin the shutdown: no further step starts, what is in flight gets `grace` seconds.

        Then whoever still waits for a turn gets ``shutting_down``; what they asked for is on disk and
        goes on at the next start.
        """
        active_runs = self._cast.services.active_runs
        active_runs.draining.set()
        with trio.move_on_after(grace):
            await active_runs.wait_until_none()
        self._sender.close()


def _check_message(text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise AgentError("message_required", "message is required")
