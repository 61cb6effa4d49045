"""What can be read of a running agent. Reads fold the journal and activate no conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator
from contextlib import aclosing, contextmanager
from typing import overload

import attrs
import trio

from ..config.agent_config import AgentConfig
from ..runtime.journal.errors import BadCursor
from ..runtime.journal.protocol import Event, Journal, QuestionState
from .approvals.kinds import Approval
from .common import errors
from .common.errors import AgentError
from .conversation import follow
from .conversation.lists import (
    ApprovalPage,
    ConversationPage,
    ListedTool,
    LogEnd,
    listed,
    listed_agents,
    page_of,
)
from .conversation.precedents import Precedent, precedents
from .conversation.watch import BUFFER, Filter, Watch, Watched
from .gate.gate import Place, descend, root_place
from .log import stored
from .log.deltas import AnyDelta
from .log.inbox import Received
from .log.state import Conversation
from .log.topics import EVERYTHING
from .supervisor import Cast
from .tools.catalogue import Catalogue
from .tools.health import Health, health_of


@attrs.define(eq=False)
class AgentReads:
    """The reading half of `Agent`."""

    config: AgentConfig
    """The configuration that it was opened with."""
    _cast: Cast
    _journal: Journal

    @property
    def id(self) -> str:
        """The id of this agent for other agents."""
        return self._cast.services.agent_id

    @property
    def draining(self) -> trio.Event:
        """Set when shutdown began: commands are refused, and no run takes a further step."""
        return self._cast.services.active_runs.draining

    async def get(self, id: str) -> Conversation:
        """A conversation as it now stands.

        Raises:
            AgentError: ``conversation_not_found``, ``conversation_broken``.
        """
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
    ) -> ApprovalPage:
        """Approvals of all conversations, oldest first, without those in `ApprovalPage.broken`."""
        try:
            page = await stored.questions(self._journal, state=state, kind=kind, limit=limit, cursor=cursor)
        except BadCursor as error:
            raise errors.bad_cursor() from error
        # `questions` makes an `Approval` of each.
        approvals = tuple(each for each in page.questions if isinstance(each, Approval))
        return ApprovalPage(approvals, page.next_cursor, page.damaged)

    async def approval(self, id: str) -> Approval:
        """The approval with this id, in whatever state.

        Raises:
            AgentError: ``approval_not_found``, ``conversation_broken``.
        """
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
        """How the servers, the models and the journal are. Nothing is asked for it."""
        return health_of(
            self.config, self._cast.directory, self._cast.models(), stopping=self.draining.is_set()
        )

    @overload
    def events(self, id: str, after: int = 0) -> AsyncGenerator[Event, None]: ...
    @overload
    def events(self, id: str, after: int = 0, *, deltas: bool) -> AsyncGenerator[Event | AnyDelta, None]: ...
    async def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> AsyncGenerator[Event | AnyDelta, None]:
        """A conversation's events after `after`: what is stored, then what comes, without gaps.

        With `deltas`, in between, a `ModelDelta` for each piece of a reply, and a `ToolProgress` for each
        progress of a call; some may be missed. Ends with the conversation or the agent. Raises `AgentError`
        ``conversation_not_found`` or ``conversation_broken``.
        """
        # A client that has seen more did so before an older copy replaced the journal.
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
