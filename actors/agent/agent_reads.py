"""The read methods of an agent. They never activate a conversation."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from typing import Literal, overload

import attrs
import trio

from ...config.sections.agent_config import AgentConfig
from ...runtime.journal.cursor import Listing
from ...runtime.journal.errors import BadCursor
from ...runtime.journal.followed_notes import FollowedNotes
from ...runtime.journal.ownership import Fleet
from ...runtime.journal.probe import JournalProbe
from ...runtime.journal.protocol import Event, Journal
from ...runtime.journal.question import QuestionState
from ...runtime.journal.summary import Census, Row
from ..access.principal import Principal
from ..access.rights import Right, may, require
from ..approvals.kinds import Approval
from ..common import errors
from ..common.errors import AgentError
from ..gate.gate import PolicyScope, descend, root_scope
from ..gate.halt import HaltState
from ..gate.unapproved import Unapproved, unapproved_tools
from ..log.fold import stored
from ..log.fold.state import Conversation
from ..log.words.deltas import AnyDelta
from ..log.words.inbox import Received
from ..log.writer.topics import EVERY_DELTA, EVERYTHING, Missed, Published
from ..servers.health import Health, health_of
from ..tools.catalogue import Catalogue
from ..tools.slots import Slots
from ..workers.delta_exchange import DeltaExchange
from . import follow
from .guard import Guard, Sight
from .lists import (
    ApprovalPage,
    ConversationPage,
    ListedTool,
    LogEnd,
    callers,
    conversation_page,
    listed_agents,
    listed_tools,
)
from .precedents import Precedent, precedents
from .supervisor import Cast
from .watch import BUFFER, Filter, Watch, Watched


@attrs.frozen
class Load:
    """The numbers of things that an agent has to do, or could do."""

    stored: Census | None
    """None: the journal does not answer."""
    fleet: Fleet | None
    """None: the journal does not answer."""
    member: str
    """The name of this process in `fleet`."""
    working: int
    """Runs of this process with an active branch."""
    in_memory: int
    """Conversations in memory."""
    slots: Mapping[str, Slots]
    """By tool server and remote agent."""
    notifications: Mapping[str, int]
    """Those that wait, by channel, if this process sends them."""


@attrs.define(eq=False)
class AgentReads:
    """The read methods of `Agent`, its base class."""

    config: AgentConfig
    """The configuration of this agent."""
    _cast: Cast
    _journal: Journal
    principal: Principal | None = attrs.field(default=None, kw_only=True)
    """The principal on whose behalf the methods run; None: they are not restricted."""
    _probe: JournalProbe = attrs.field(kw_only=True, alias="probe")

    @property
    def _guard(self) -> Guard | None:
        if self.principal is None:
            return None
        return Guard(self.principal, self._journal, self._cast.services.logs.live)

    @property
    def _by(self) -> str | None:
        return None if self.principal is None else self.principal.id

    async def check_right(self, right: Right, id: str) -> None:
        """Require that the principal, if there is one, has a right in a conversation.

        Raises `AgentError` ``conversation_not_found`` if it may not read the conversation, else
        ``role_required``.
        """
        if (guard := self._guard) is not None:
            with errors.journal_as_agent_error():
                await guard.check(right, id)

    def _require(self, right: Right) -> None:
        if self.principal is not None:
            require(self.principal, right)

    @property
    def id(self) -> str:
        """The id by which other agents recognize this agent."""
        return self._cast.services.agent_id

    @property
    def draining(self) -> trio.Event:
        """Set when the shutdown begins. Commands are then refused, and runs start no further steps."""
        return self._cast.services.logs.active_runs.draining

    async def get(self, id: str) -> Conversation:
        """Return the current state of a conversation.

        Raises:
            AgentError: ``conversation_not_found``, ``conversation_broken``.
        """
        await self.check_right("read", id)
        with errors.journal_as_agent_error():
            return await self._read(id)

    async def _read(self, id: str) -> Conversation:
        """Like `get`, but raises `StreamDamaged` for a conversation that cannot be read."""
        store, log = self._journal, await self._cast.services.logs.owned(id)
        if log is not None and (live := log.snapshot()) is not None and live.last_seq:
            return live  # the actor has already folded the events
        row = await store.row(id)
        if row is None:
            raise errors.no_conversation(id)
        found = await (
            stored.read(store, id) if row.last_seq else stored.read_new(store, id, self.config.prompt)
        )
        if found is None or found.last_seq < row.last_seq:  # deleted meanwhile
            raise errors.no_conversation(id)
        return found

    async def log_end(self, id: str) -> LogEnd:
        """Return the last seq and the session of a conversation. Raises as `events` does."""
        await self.check_right("read", id)
        with errors.journal_as_agent_error():
            if (row := await self._journal.row(id)) is None:
                raise errors.no_conversation(id)
            return LogEnd(stored.head_of(row).session_id, row.last_seq)

    async def inbox(self, id: str) -> tuple[Received, ...]:
        """Return the open commands, oldest first. Raises `AgentError` ``conversation_broken``."""
        await self.check_right("read", id)
        with errors.journal_as_agent_error():
            return await stored.inbox(self._journal, id)

    async def _read_listed(self, row: Row, approvals: Sequence[Approval]) -> Conversation | None:
        """Return a conversation of a page, or None if it was deleted meanwhile. Raises `StreamDamaged`."""
        if row.last_seq and row.stream not in self._cast.services.logs.live:
            found = await stored.read_listed(self._journal, row, approvals)
            return found if found.last_seq >= row.last_seq else None
        try:
            return await self._read(row.stream)
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
        """Return a page of conversations, newest first. `q` is a text to search for in titles.

        With `full`, each item has the whole conversation. Conversations that cannot be read appear only in
        `ConversationPage.broken`. Without `full`, damage to events is not detected.
        """
        self._require("view")
        guard = self._guard
        among = None if guard is None else await guard.among()
        try:
            cursor = self._unsealed("streams", cursor)
            rows = await self._journal.list(status=status, q=q, limit=limit, cursor=cursor, among=among)
        except BadCursor as error:
            raise errors.bad_cursor() from error
        page = await conversation_page(rows, self._journal, self._read_listed if full else None)
        return attrs.evolve(page, next_cursor=self._sealed("streams", page.next_cursor))

    async def approvals(
        self,
        *,
        state: QuestionState | None = "pending",
        kind: str | None = None,
        limit: int = 50,
        cursor: str | None = None,
    ) -> ApprovalPage:
        """Return a page of the approvals of all conversations, oldest first. Approvals that
        cannot be read are left out; `ApprovalPage.broken` names their conversations."""
        self._require("view")

        async def read(limit: int, cursor: str | None) -> ApprovalPage:
            page = await stored.questions(self._journal, state=state, kind=kind, limit=limit, cursor=cursor)
            # Narrows the type: `questions` returns only approvals.
            approvals = tuple(each for each in page.questions if isinstance(each, Approval))
            return ApprovalPage(approvals, page.next_cursor, page.damaged)

        try:
            cursor = self._unsealed("questions", cursor)
            if (guard := self._guard) is None or may(guard.principal, "read"):
                page = await read(limit, cursor)
            else:
                page = await guard.visible(read, limit, cursor)
        except BadCursor as error:
            raise errors.bad_cursor() from error
        return attrs.evolve(page, next_cursor=self._sealed("questions", page.next_cursor))

    def _sealed(self, listing: Listing, cursor: str | None) -> str | None:
        return None if cursor is None else self._cast.services.secret.seal(listing, self._by or "", cursor)

    def _unsealed(self, listing: Listing, cursor: str | None) -> str | None:
        """Raises `BadCursor`."""
        if cursor is None:
            return None
        try:
            return self._cast.services.secret.unseal(listing, self._by or "", cursor)
        except BadCursor:
            if self.principal is not None and not may(self.principal, "read"):
                raise
            return cursor  # of an earlier version: a number, which tells nothing to those who may read all

    def id_of(self, *names: str) -> str:
        """Return the id that these names stand for. Each principal has a name space of its own."""
        return self._cast.services.secret.id_of(self._by or "", *names)

    async def approval(self, id: str) -> Approval:
        """Return the approval with this id, in any state.

        Raises:
            AgentError: ``approval_not_found``, ``conversation_broken``.
        """
        with errors.journal_as_agent_error():
            question = await stored.question(self._journal, id)
            if question is None:
                raise errors.no_approval(id)
            if (guard := self._guard) is not None:
                await guard.check_approval("read", question)
        return question

    async def title(self, id: str) -> str:
        """Return the title of a conversation. Raises as `get` does."""
        await self.check_right("read", id)
        with errors.journal_as_agent_error():
            if (row := await self._journal.row(id)) is None:
                raise errors.no_conversation(id)
            return stored.head_of(row).title

    async def ids_beginning(self, text: str, of: Literal["conversation", "approval"]) -> tuple[str, ...]:
        """Return the ids of the conversations, or of the approvals in any state, that begin with `text`, a
        text of hexadecimal digits and hyphens. If there are very many, some may be missing.

        Under a principal, only those that it may read.
        """
        guard = self._guard
        with errors.journal_as_agent_error():
            if of == "conversation":
                found = await self._journal.beginning(text, "stream")
                return tuple([id for id in found if guard is None or await guard.may_read(id)])
            found = await self._journal.beginning(text, "question")
            asked = [await stored.question(self._journal, id) for id in found]
            shown = [each for each in asked if each and (guard is None or await guard.may_see(each))]
            return tuple(each.id for each in shown)

    async def precedents(self, approval: Approval) -> tuple[Precedent, ...]:
        """Return earlier decisions about calls of the same tool, newest first."""
        guard = self._guard
        return await precedents(self._journal, approval, None if guard is None else guard.may_see)

    @property
    def catalogue(self) -> Catalogue:
        """All tools that the registry last published, including the tools behind a server facade."""
        return self._cast.directory.catalogue

    def tools(self) -> tuple[ListedTool, ...]:
        """Return the tools that models can call, as the registry last published them."""
        self._require("view")
        catalogue = self._cast.directory.catalogue
        scopes = callers(self.config, len(catalogue.tools))
        tools = (each for group in catalogue.groups for each in listed_tools(group, self._root, scopes))
        return (*tools, *listed_agents(catalogue, self._root, scopes))

    @property
    def _root(self) -> PolicyScope:
        return descend(root_scope(self.config), self.config.agent)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about contradictory tools, about rules that do not match the listed tools, and about tools
        that the provider of a model refuses."""
        return (*self._cast.directory.warnings, *self._cast.model_warnings())

    @property
    def unapproved(self) -> tuple[Unapproved, ...]:
        """The listed tools that may do harm and run without approval, with each node where they do."""
        return tuple(unapproved_tools(self.config, self._cast.directory.catalogue.tools))

    def health(self) -> Health:
        """Return the health of the servers, the models and the journal, as last published."""
        found = health_of(
            self.config, self._cast.directory, self._cast.models(), stopping=self.draining.is_set()
        )
        return attrs.evolve(found, channels=self._cast.notifier.health())

    async def readiness(self) -> Health:
        """Return the health, after asking the journal: it is not ready if it does not answer within two
        seconds."""
        self._require("view")
        error = await self._probe.error()
        health = attrs.evolve(self.health(), need_newer=self._probe.need_newer)
        return health if error is None else health.without_store(error)

    def halt_state(self) -> HaltState:
        """Return whether the agent is halted, and the calls in flight."""
        self._require("view")
        return self._cast.services.halts.state

    @property
    def followed_notes(self) -> FollowedNotes:
        """The notes, with what other processes on the same journal change in them."""
        return self._cast.followed_notes

    @property
    def delta_exchange(self) -> DeltaExchange:
        """The deltas that this process and others on the same journal pass to each other."""
        return DeltaExchange(self._cast.services.logs)

    @property
    def member(self) -> str:
        """The name of this process among those on the same journal."""
        return self._journal.member

    node = member  # its earlier name

    async def living(self) -> frozenset[str]:
        """Return the names of the processes on this journal whose leases have not run out."""
        with errors.journal_as_agent_error():
            return frozenset(await self._journal.living())

    async def load(self) -> Load:
        """Return the numbers of things that the agent has to do, or could do, for metrics."""
        services = self._cast.services
        answers = await self._probe.error() is None
        return Load(
            await self._journal.census() if answers else None,
            await self._journal.fleet() if answers else None,
            self._journal.member,
            working=services.logs.active_runs.count,
            in_memory=len(services.logs.live),
            slots=self._cast.directory.slots,
            notifications=self._cast.notifier.pending(),
        )

    @overload
    def events(self, id: str, after: int = 0) -> AsyncGenerator[Event, None]: ...
    @overload
    def events(self, id: str, after: int = 0, *, deltas: bool) -> AsyncGenerator[Event | AnyDelta, None]: ...
    async def events(
        self, id: str, after: int = 0, *, deltas: bool = False
    ) -> AsyncGenerator[Event | AnyDelta, None]:
        """Iterate over the events of a conversation after `after`: first the stored ones, then new ones,
        without gaps.

        With `deltas`, it also yields a `ModelDelta` for each piece of a reply and a `ToolProgress` for each
        progress report of a call; some may be missed. Ends when the conversation is deleted or the agent
        stops. Raises `AgentError` ``conversation_not_found`` or ``conversation_broken``.
        """
        # `after` is beyond the end if the journal was replaced with an older backup.
        after = min(after, (await self.log_end(id)).last_seq)
        services = self._cast.services
        found = follow.follow(self._journal, services.logs.bus, services.logs.wall, id, after, deltas=deltas)
        with errors.journal_as_agent_error():
            async with aclosing(found) as events:
                async for event in events:
                    yield event

    def all_events(
        self,
        *,
        statuses: Collection[str] = (),
        types: Collection[str] = (),
        conversations: Collection[str] = (),
        deltas: bool = False,
    ) -> AbstractContextManager[AsyncIterator[Watched]]:
        """Watch the events of all conversations from now on. The iterator ends when the agent stops.

        Under a principal, only those of the conversations that it may read. An empty filter matches
        everything. `statuses` are matched against the status of the conversation after the event;
        ``approval.*`` in `types` matches all types with that prefix. A slow watcher gets a `Gap` in place of
        missed events. To keep a list up to date, enter the block first, then read the list. When the agent is
        halted or a halt ends, every watcher gets a `HaltState`.
        """
        self._require("view")  # now, because a stream that has begun cannot be refused
        return self._watching(Filter(statuses, types, conversations, deltas), deltas=deltas)

    @contextmanager
    def _watching(self, wanted: Filter, *, deltas: bool) -> Iterator[AsyncIterator[Watched]]:
        guard = self._guard

        def wants(published: Published | HaltState | Missed) -> bool:
            if isinstance(published, HaltState | Missed):
                return True
            return (guard is None or guard.admits(published)) and wanted.wants(published)

        bus = self._cast.services.logs.bus
        others = bus.subscribe(EVERY_DELTA) if deltas else nullcontext()
        with others, bus.subscribe(EVERYTHING, BUFFER, wants) as live:
            yield Watch(live, None if guard is None else Sight(guard).sees)
