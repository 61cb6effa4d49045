"""The embedded API: a running agent, for the gateway, for tests and for your own program.

    async with open_agent(config) as agent:
        turn = await agent.start_conversation("list all resources")
        print(turn.result.response)

Every command is durable before it is acknowledged and carried out whether or not its sender waits:
cancelling any of these calls cancels only the waiting. Reads fold the journal and activate nobody.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any, overload

import attrs
import trio

from ..config.agent_config import AgentConfig
from ..runtime.journal.errors import BadCursor
from ..runtime.journal.protocol import Event, Journal, NotAccepted, Notes, QuestionPage, QuestionState
from .approvals.kinds import Approval
from .common import errors
from .common.errors import AgentError
from .conversation import follow
from .conversation.lists import ConversationPage, ListedTool, LogEnd, listed, listed_agents, page_of
from .conversation.precedents import Precedent, precedents
from .conversation.remote_questions import withdraw_key
from .conversation.result import Result, Turn, refused_while_waiting
from .conversation.sender import Sender
from .conversation.watch import BUFFER, Filter, Watch, Watched
from .gate.check_decision import checked
from .gate.gate import Place, descend, judge, root_place
from .log import stored
from .log.deltas import Passing
from .log.events import Origin
from .log.inbox import Cancel, Complete, Create, Delete, Received, Resume, Say
from .log.state import Conversation
from .log.topics import EVERYTHING
from .supervisor import Cast
from .tools.catalogue import Catalogue
from .tools.health import Health, health_of
from .tools.registry import Accept, NotFound

QUEUE_LIMIT = 16
"""Messages that may wait in one conversation's inbox."""

_NAMESPACE = uuid.UUID("5d6a7c4e-6f0b-4b0e-9d3c-5f0f5a0c7b11")
"""Of conversation ids that are derived from an idempotency key."""


@attrs.define(eq=False)
class Agent:
    """See the module. Made by `open_agent`."""

    config: AgentConfig
    _cast: Cast
    _journal: Journal
    _sender: Sender
    notes: Notes
    """Small values that outlive the process, by kinds that the agent does not use itself."""
    started: float
    """When this process opened it, in UTC seconds."""

    @property
    def id(self) -> str:
        """The id of this agent for other agents."""
        return self._cast.services.agent_id

    @property
    def draining(self) -> trio.Event:
        """Set when shutdown began: commands are refused, and no run takes a further step."""
        return self._cast.services.pulse.draining

    # --------------------------------------------------------------- commands

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

    async def decide(
        self,
        approval: str,
        decision: Mapping[str, Any],
        *,
        key: str | None = None,
        token: str | None = None,
        wait: bool = True,
    ) -> Turn:
        """Answer an approval. The first valid decision counts; an invalid one leaves it pending.

        Raises:
            AgentError: ``approval_not_found``, ``decision_required``, ``invalid_arguments``,
                ``denied_by_policy``, ``already_decided``, ``expired``, ``void``, ...
        """
        with self._sender.serving():
            question = await self.look_at(approval, token)
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
        return Turn(conversation, result)

    # ------------------------------------------------------------------ reads

    async def get(self, id: str) -> Conversation:
        """Raises `AgentError` ``conversation_not_found`` or ``conversation_broken``."""
        with errors.damage_as_agent_error():
            return await self._read(id)

    async def _read(self, id: str) -> Conversation:
        """Raises `AgentError` ``conversation_not_found``, or `StreamDamaged`."""
        store, log = self._journal, self._cast.services.live.get(id)
        if log is not None and (live := log.snapshot()) is not None and live.last_seq:
            return live  # spares reading and folding what its actor has folded
        row = await store.row(id)
        if row is None:
            raise errors.no_conversation(id)
        found = await (
            stored.read(store, id) if row.last_seq else stored.read_new(store, id, self.config.prompt)
        )
        if found is None or found.last_seq < row.last_seq:  # it was deleted meanwhile
            raise errors.no_conversation(id)
        return found

    async def log_end(self, id: str) -> LogEnd:
        """How far `events` goes by now. Raises what `events` raises."""
        with errors.damage_as_agent_error():
            if (row := await self._journal.row(id)) is None:
                raise errors.no_conversation(id)
            return LogEnd(stored.head_of(row).session_id, row.last_seq)

    async def inbox(self, id: str) -> tuple[Received, ...]:
        """Open commands, oldest first. Raises `AgentError` ``conversation_broken``."""
        with errors.damage_as_agent_error():
            return await stored.inbox(self._journal, id)

    async def _in_full(self, id: str) -> Conversation | None:
        """None when it was deleted meanwhile. Raises `StreamDamaged`."""
        try:
            return await self._read(id)
        except AgentError:
            return None

    async def conversations(
        self,
        *,
        status: str | None = None,
        q: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
        full: bool = False,
    ) -> ConversationPage:
        """Conversations, newest first; `q` is looked for in their titles. `full` folds each of them.

        Those that cannot be read are in `ConversationPage.broken` alone. Without `full` no event is read, so
        damage to events does not show.
        """
        try:
            page = await self._journal.list(status=status, q=q, limit=limit, cursor=cursor)
        except BadCursor as error:
            raise errors.bad_cursor() from error
        return await page_of(page, self._journal, self._in_full if full else None)

    async def approvals(
        self,
        *,
        state: QuestionState | None = "pending",
        kind: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> QuestionPage:
        """Approvals of all conversations, oldest first, without those in `QuestionPage.damaged`."""
        try:
            return await stored.questions(self._journal, state=state, kind=kind, limit=limit, cursor=cursor)
        except BadCursor as error:
            raise errors.bad_cursor() from error

    async def approval(self, id: str) -> Approval:
        """Raises `AgentError` ``approval_not_found`` or ``conversation_broken``."""
        with errors.damage_as_agent_error():
            question = await stored.question(self._journal, id)
        if question is None:
            raise errors.no_approval(id)
        return question

    async def title(self, id: str) -> str:
        """Of a conversation. Raises what `get` raises."""
        with errors.damage_as_agent_error():
            if (row := await self._journal.row(id)) is None:
                raise errors.no_conversation(id)
            return stored.head_of(row).title

    async def precedents(self, approval: Approval) -> tuple[Precedent, ...]:
        """What was decided before about calls of the same tool, the newest first; see `precedents`."""
        return await precedents(self._journal, approval)

    @property
    def catalogue(self) -> Catalogue:
        """All tools there are, also those that models see as one, as the registry last published them."""
        return self._cast.directory.catalogue

    def tools(self) -> tuple[ListedTool, ...]:
        """What models can call, as registry and servers last published it."""
        catalogue = self._cast.directory.catalogue
        tools = (each for shelf in catalogue.shelves for each in listed(shelf, self._root))
        return (*tools, *listed_agents(catalogue, self._root))

    @property
    def _root(self) -> Place:
        return descend(root_place(self.config), self.config.agent)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences on tools that contradict themselves, and on rules that do not fit the tools there are."""
        return self._cast.directory.warnings

    def health(self) -> Health:
        """How the servers, the models and the journal are."""
        return health_of(
            self.config, self._cast.directory, self._cast.models(), stopping=self.draining.is_set()
        )

    @overload
    def events(self, id: str, after: int = 0) -> AsyncGenerator[Event, None]: ...
    @overload
    def events(self, id: str, after: int = 0, *, deltas: bool) -> AsyncGenerator[Event | Passing, None]: ...
    async def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> AsyncGenerator[Event | Passing, None]:
        """A conversation's events after `after`: what is stored, then what comes, without gaps.

        With `deltas`, in between, what models say while they say it and how far calls are; some of it may be
        missed. Ends with the conversation or the agent. Raises `AgentError` ``conversation_not_found`` or
        ``conversation_broken``.
        """
        # Who saw more saw it before an older copy took the journal's place.
        after = min(after, (await self.log_end(id)).last_seq)
        services = self._cast.services
        found = follow.follow(self._journal, services.bus, services.wall, id, after, deltas=deltas)
        with errors.damage_as_agent_error():
            async with aclosing(found) as events:
                async for event in events:
                    yield event

    @contextmanager
    def all_events(
        self,
        *,
        statuses: Collection[str] = (),
        types: Collection[str] = (),
        conversations: Collection[str] = (),
        deltas: bool = False,
    ) -> Iterator[AsyncIterator[Watched]]:
        """Watch the events of all conversations from now on, as an async iterator that ends with the agent.

        An empty filter lets everything pass; `statuses` are those of the conversation after the event, and
        ``approval.*`` among `types` stands for all types that begin so. A watcher that is slow gets a `Gap`
        in place of what it missed. So enter the block first, then read the lists that you keep up to date.
        """
        wanted = Filter(statuses, types, conversations, deltas)
        with self._cast.services.bus.subscribe(EVERYTHING, BUFFER, wanted.wants) as live:
            yield Watch(live)

    # --------------------------------------------------------------- shutdown

    async def drain(self, grace: float) -> None:
        """Begin the shutdown: no further step starts, what is in flight gets `grace` seconds.

        Then whoever still waits for a turn gets ``shutting_down``; what they asked for is on disk and
        goes on at the next start.
        """
        pulse = self._cast.services.pulse
        pulse.draining.set()
        with trio.move_on_after(grace):
            await pulse.still()
        self._sender.close()


def _check_message(text: object) -> None:
    if not isinstance(text, str) or not text.strip():
        raise AgentError("message_required", "message is required")
