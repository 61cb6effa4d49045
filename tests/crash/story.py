"""Runs one scenario, from its first process to its last, with the given kills."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import trio
import trio._core._run

from stopgo.actors.agent.open_agent import open_agent
from stopgo.actors.log.fold.state import Conversation
from stopgo.actors.log.fold.stored import read
from stopgo.actors.notify.delivery import ChannelDelivery
from stopgo.actors.notify.delivery_store import KIND, read_deliveries
from stopgo.config.checks.tree import tree_from_stored
from stopgo.config.sections.a2a import RemoteAgentConfig
from stopgo.config.sections.agent_config import AgentConfig
from stopgo.config.sections.approval import ApprovalConfig
from stopgo.config.sections.mcp import McpServerConfig
from stopgo.config.sections.notify import NotifyConfig
from stopgo.gateway.testing.crash_points import live_through, survive
from stopgo.gateway.testing.killing_journal import Kill, KillingJournal
from stopgo.gateway.testing.virtual_time import run_in_virtual_time
from stopgo.runtime.journal.memory.memory_journal import MemoryJournal
from stopgo.runtime.journal.memory.memory_stream import Intent
from stopgo.runtime.journal.protocol import Command, Event, Journal, Json
from stopgo.runtime.journal.question import Question
from stopgo.runtime.journal.sqlite.sqlite_journal import open_sqlite
from stopgo.runtime.journal.summary import Row
from tests.runtime.journal.kept import intents_of, reply_of

from .client import Client, Policy, Script, from_the_ledger
from .noting_journal import NotingJournal
from .survey import Survey, SurveyedJournal
from .world import Outside, World


@attrs.frozen
class Scenario:
    name: str
    tree: Mapping[str, Any]
    outside: Outside
    script: Script
    check: Callable[[Story], None] = lambda story: None
    """A check at the end that holds whatever was killed."""
    policy: Policy = from_the_ledger
    approval: ApprovalConfig = attrs.field(factory=ApprovalConfig)
    later_approval: ApprovalConfig | None = None
    """That of the agent file from the second life on, if it is another."""
    agents: Sequence[RemoteAgentConfig] = ()
    """The other agents."""
    notify: NotifyConfig | None = None
    """The channels that are told what happens."""
    upgrade: Mapping[str, Any] | None = None
    """The tree of the agent file from the second life on."""
    compared: bool = True
    """Whether a run that was killed has the same outcome as one that was not."""

    def config(self, life: int = 1) -> AgentConfig:
        tree = self.upgrade if self.upgrade is not None and life > 1 else self.tree
        server = McpServerConfig(name="tools", command="in-process")
        if self.outside.demands.any_tokens:  # only a server that speaks HTTP is given any
            server = attrs.evolve(server, command=None, url="http://in.process/mcp")
        return AgentConfig(
            agent=tree_from_stored(tree),
            has_tree=True,
            prompt="Be careful.",
            mcp_servers=(server,),
            a2a=tuple(self.agents),
            remote_agents=tuple(self.agents),
            approval=self.approval if life == 1 else self.later_approval or self.approval,
            notify=self.notify,
            stored_tree=tree,
        )


@attrs.frozen(eq=False)
class Record:
    """A conversation as the journal holds it."""

    conversation: Conversation
    """The fold of its events."""
    events: tuple[Event, ...]
    row: Row | None
    inbox: tuple[Command, ...]
    questions: tuple[Question, ...]
    intents: tuple[Intent, ...]
    replies: Mapping[str, Json | None]
    """To all commands that were ever accepted."""
    open_work: tuple[str, ...]
    outbox: int
    """The number of rows in it."""
    deliveries: Mapping[str, ChannelDelivery]


@attrs.frozen(eq=False)
class Story:
    """The remains of a story, for the checks at its end."""

    scenario: Scenario
    world: World
    client: Client
    record: Record
    fired: int
    """The number of kills that reached their write."""


OpenJournal = Callable[[World], AbstractAsyncContextManager[Journal]]


def in_memory() -> OpenJournal:
    """All processes share one journal in memory."""
    shared: list[Journal] = []

    @asynccontextmanager
    async def open_journal(world: World) -> AsyncIterator[Journal]:
        if not shared:
            shared.append(MemoryJournal(world.wall))
        yield shared[0]

    return open_journal


def in_sqlite(folder: Path) -> OpenJournal:
    """Every process opens the same file."""
    return lambda world: open_sqlite(folder, wall=world.wall, inline=True)


def tell(
    scenario: Scenario,
    kills: Sequence[Kill],
    open_journal: OpenJournal,
    *,
    seed: int,
    survey: Survey | None = None,
) -> Story:
    """Live through a scenario. Each kill is for one life; when there are none left, nobody dies any more.

    `seed` is for the order in which trio runs what is ready. `survey` notes the states that one more kill
    would leave. It needs a journal in memory.
    """
    trio._core._run._r.seed(seed)
    world = World(scenario.outside)
    client = Client(world, scenario.script, scenario.policy)
    commands: set[tuple[str, str]] = set()
    fired = live_through(partial(_live, world, client, scenario, open_journal, commands, survey), kills)
    record = run_in_virtual_time(partial(_read, world, client, open_journal, commands))
    return Story(scenario, world, client, record, fired)


def _live(
    world: World,
    client: Client,
    scenario: Scenario,
    open_journal: OpenJournal,
    commands: set[tuple[str, str]],
    survey: Survey | None,
    kill: Kill | None,
) -> bool | None:
    """One process. Returns whether the client is done, or None if the process was killed."""
    world.life += 1

    async def process() -> bool:
        try:
            async with open_journal(world) as shared:
                await client.look_back(shared)
                await world.look_back(shared)
                noting = cast(Journal, NotingJournal(shared, commands))
                journal = KillingJournal(noting, kill)
                if survey is not None and kill is None:
                    store = cast(MemoryJournal, shared)
                    note = partial(survey.note, world=world, client=client, journal=store)
                    journal = SurveyedJournal(noting, None, note=note)
                world.journal = journal
                async with open_agent(
                    scenario.config(world.life),
                    journal=cast(Journal, journal),
                    wall=world.wall,
                    lease_clock=world.wall,
                    open_server=world.open_server,
                    open_remote_agent=world.remote.open,
                    open_model=world.open_model,
                    open_channel=world.told.opened_by(lambda: world.alive),
                ) as agent:
                    world.closing = math.inf
                    through = await client.live(agent)
                    world.closing = trio.current_time()
                return through
        finally:
            world.night()

    return survive(process)


async def _read(
    world: World, client: Client, open_journal: OpenJournal, commands: set[tuple[str, str]]
) -> Record:
    id = client.conversation
    async with open_journal(world) as journal:
        return Record(
            conversation=await read(journal, id),
            events=await journal.events_since(id, 0),
            row=await journal.row(id),
            inbox=await journal.inbox(id),
            questions=(await journal.questions(state=None, limit=200)).questions,
            intents=await intents_of(journal, id),
            replies={key: await reply_of(journal, stream, key) for stream, key in commands},
            open_work=await journal.open_work(),
            outbox=len(await journal.outbox(100)),
            deliveries=read_deliveries(await journal.notes(KIND)),
        )
