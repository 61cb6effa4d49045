"""Starts all actors of an agent, or none, and stops them in reverse order.

The order is: lease, registry, models, tool servers (all at the same time), other agents, tool lists, flusher,
spending, conversations, timers, other members, notes of other members, remote questions, notifier. So
conversations stop while the servers that they call still run.
"""

from __future__ import annotations

import logging
import secrets
import uuid
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING, Protocol

import attrs
import trio

from ...config.checks.tree import tree_id
from ...config.sections.a2a import RemoteAgentConfig
from ...config.sections.agent_config import AgentConfig
from ...config.sections.mcp import McpServerConfig
from ...runtime.clock import WallClock
from ...runtime.context import Behaviour, background
from ...runtime.event_bus import EventBus
from ...runtime.journal.followed_notes import FollowedNotes, made_once
from ...runtime.journal.lease import Lease
from ...runtime.journal.patience import until_available
from ...runtime.journal.protocol import Journal
from ...runtime.ref import ActorRef
from ...runtime.supervision import Supervisor, open_supervisor
from ...runtime.virtual import VirtualActors
from ..a2a.agent_actor import remote_agent_actor
from ..common.errors import Misconfigured, StartError
from ..common.store_secret import StoreSecret
from ..conversation.conversation import Wake, conversation, poisoned
from ..gate import halt
from ..gate.halt import Halts
from ..gate.policies import Policies
from ..gate.review import Finding, refuse, review
from ..gate.unapproved import summary, unapproved_tools
from ..log.writer.logs import Logs
from ..log.writer.observer import Observer
from ..log.writer.topics import EVERYTHING
from ..mcp.modes import Modes
from ..mcp.server import mcp_server
from ..models import spending as spent
from ..models.model_actors import ModelActors, OpenModel, most_calls
from ..models.providers.client import open_client
from ..models.spending import Spending
from ..notify.notice_rows import NoticeRows
from ..notify.notifier import Notifier, OpenChannel
from ..replay.rule_report import RuleReports
from ..run.offers import CurrentOffers
from ..run.services import Services
from ..servers.authorization import Authorization
from ..servers.server_directory import ServerDirectory, tool_lists
from ..servers.server_status import ServerStartFailed, ServerStatus
from ..tools.catalogue import DuplicateTool
from ..tools.delegation import RemoteAgentMessage, RemoteAgentStatus
from ..tools.known import KnownTools, kind_of
from ..tools.registry import Learn, Register, RegisterAgent, RegistryMessage, RemoteServer, Server, registry
from ..tools.slots import Slots
from ..tools.tool import ListTools, ServerMessage
from ..workers.other_members import OtherMembers
from ..workers.remote_questions import RemoteQuestions
from ..workers.timers import timers

if TYPE_CHECKING:
    import httpx2

logger = logging.getLogger(__name__)

LOOKUPS = 1024
"""Size of the registry's mailbox: the calls of two replies of the largest size. Further lookups wait."""


@attrs.frozen(eq=False)
class Cast:
    """The actors of a running agent."""

    services: Services
    directory: ServerDirectory
    conversations: VirtualActors[Wake]
    models: Callable[[], Sequence[str]]
    """Returns the names of the started models."""
    model_warnings: Callable[[], Sequence[str]]
    """Returns a sentence for each tool that the provider of a model refuses."""
    remote_questions: RemoteQuestions
    followed_notes: FollowedNotes
    notifier: Notifier
    reports: RuleReports = attrs.field(factory=RuleReports)


class OpenServer(Protocol):
    """Makes the behaviour of a tool server from its entry in the configuration."""

    def __call__(
        self, config: McpServerConfig, *, report: Callable[[ServerStatus], None]
    ) -> Behaviour[ServerMessage]: ...


class OpenRemoteAgent(Protocol):
    """Makes the behaviour of another agent from its entry in the configuration."""

    def __call__(
        self, config: RemoteAgentConfig, *, report: Callable[[RemoteAgentStatus], None]
    ) -> Behaviour[RemoteAgentMessage]: ...


@attrs.frozen(eq=False, kw_only=True)
class Setup:
    """The choices of a program that opens an agent. By default, servers use MCP and other agents A2A."""

    config: AgentConfig
    journal: Journal
    lease: Lease
    wall: WallClock
    observer: Observer
    open_server: OpenServer | None
    open_remote_agent: OpenRemoteAgent | None
    open_model: OpenModel | None
    open_channel: OpenChannel
    model_transport: httpx2.AsyncBaseTransport | None


@asynccontextmanager
@trio.lowlevel.enable_ki_protection
async def open_cast(setup: Setup) -> AsyncIterator[Cast]:
    """Run the actors for the length of the block. If it raises, no actor is left running.

    Raises:
        StartError: a model or a tool server is unavailable.
        ConfigError: a rule names a tool that no server has.
    """
    config = setup.config
    with closing(EventBus()) as bus:  # ends the subscriptions of followers outside the actors
        async with (
            open_client(most_calls(config), setup.model_transport) as client,
            open_supervisor(bus, grace=config.shutdown_grace) as kernel,
        ):
            yield await _start(kernel, ModelActors(kernel, config, client, setup.open_model), setup)


async def _start(kernel: Supervisor, models: ModelActors, setup: Setup) -> Cast:
    config, journal, lease = setup.config, setup.journal, setup.lease
    bus, directory = kernel.bus, ServerDirectory()
    known = KnownTools.of(journal, config.approval)
    await until_available(partial(known.load, [server.name for server in config.enabled_servers]))
    notices = NoticeRows.of(config.notify)
    wall = await _begin_lease(lease, kernel, setup.wall)
    logs = Logs(journal, lease, bus, wall, setup.observer, outbox=notices.of_events)
    notes = FollowedNotes(journal, logs.wall, lease.can_be_lost)
    halts = Halts(journal, logs.wall, lambda state: bus.publish(EVERYTHING, state), notices.of_halt)
    await notes.follow(halt.NOTE, halts.apply)
    limit = None if config.auth is None else config.auth.limits.cost_usd_per_day
    spending = Spending(journal, logs.wall, limit)
    await notes.follow(spent.NOTE, spending.apply)
    found = registry(config, directory.set_catalogue, known)
    registry_ref = await kernel.start("registry", found, mailbox=LOOKUPS)
    await models.check()
    servers = await _start_servers(kernel, setup, registry_ref, directory)
    await _start_agents(kernel, setup, registry_ref, directory)
    lists = tool_lists(directory, registry_ref, lambda: _warn(config, directory, _review(config, directory)))
    await kernel.start("tool lists", lists)
    _check_rules(config, directory)
    services = Services(
        config=config,
        logs=logs,
        agent_id=await _agent_id(journal),
        secret=await _secret(journal),
        policies=await Policies.open(journal, logs.wall, config, tree_id(config.stored_tree)),
        registry=registry_ref,
        halts=halts,
        spending=spending,
        notices=notices,
        model=models.get,
        wake=lambda id: conversations.wake(id, Wake()),
        authorization=Authorization(
            directory, registry_ref, servers, [each.name for each in config.enabled_servers if each.required]
        ),
        offers=CurrentOffers(lambda: directory.catalogue),
    )
    await kernel.start("flusher", background(logs.flusher.run))
    if spending.limit is not None:
        await kernel.start("spending", background(spending.keep))
    conversations = VirtualActors("conversation", conversation(services), kernel, poisoned=poisoned(services))
    await kernel.start("timers", timers(journal, bus, services.wake))
    if lease.can_be_lost:
        await _watch_others(kernel, services, notes, servers)
    questions = RemoteQuestions(journal, registry_ref, services.tokens, services.wake, services.agent_id)
    if config.remote_agents:
        await kernel.start("remote questions", questions.actor())
    notifier = Notifier(
        config, journal, bus, wall, halts, setup.observer, lease.can_be_lost, setup.open_channel
    )
    if config.notify is not None:
        await kernel.start("notifier", notifier.actor())
    return Cast(services, directory, conversations, models.names, models.warnings, questions, notes, notifier)


async def _watch_others(
    kernel: Supervisor, services: Services, notes: FollowedNotes, servers: Iterable[str]
) -> None:
    """See what other members change."""

    async def learn(server: str, _: object) -> None:
        await services.registry.ask(Learn(server))

    await kernel.start("other nodes", OtherMembers(services).actor())
    for name in servers:
        await notes.follow(kind_of(name), partial(learn, name))
    await kernel.start("notes of other nodes", background(notes.run))


async def _begin_lease(lease: Lease, kernel: Supervisor, wall: WallClock) -> WallClock:
    """Begin and keep the lease at the journal. Returns the clock for the times of events: the store's, if
    other machines have clocks of their own."""
    await until_available(lease.renew)
    if not lease.can_be_lost:
        return wall
    await kernel.start("lease", background(lease.keep))
    return lease.wall


async def _agent_id(journal: Journal) -> str:
    """Return the id of this journal, created at the first start. It detects cycles of delegating agents."""
    return await made_once(journal, "agent", "id", "id", lambda: uuid.uuid4().hex)


async def _secret(journal: Journal) -> StoreSecret:
    """Return the secret of this journal, created at the first start."""
    key = await made_once(journal, "agent", "secret", "key", lambda: secrets.token_hex(32))
    return StoreSecret(key.encode())


def _check_rules(config: AgentConfig, directory: ServerDirectory) -> None:
    """Log the findings about rules. Raises `ConfigError` if a rule names a tool that no server has."""
    findings = _review(config, directory)
    refuse(findings)
    _warn(config, directory, findings)


def _review(config: AgentConfig, directory: ServerDirectory) -> tuple[Finding, ...]:
    return tuple(review(config, directory.catalogue.tools, directory.listed))


def _warn(config: AgentConfig, directory: ServerDirectory, findings: Sequence[Finding]) -> None:
    """Publish the findings, and log the new ones and, if it is new, the summary of the tools that run
    without approval."""
    unapproved = summary(config, tuple(unapproved_tools(config, directory.catalogue.tools)))
    if unapproved not in (None, directory.unapproved):
        logger.warning(unapproved)
    directory.unapproved = unapproved
    before, directory.warnings = directory.warnings, tuple(finding.text for finding in findings)
    for sentence in directory.warnings:
        if sentence not in before:
            logger.warning(sentence)


# ----------------------------------------------------------------- other agents


async def _start_agents(
    kernel: Supervisor, setup: Setup, registry_ref: ActorRef[RegistryMessage], directory: ServerDirectory
) -> None:
    """Start and register the other agents. Entries with the same connection share an actor. The agents are
    not contacted, so an unavailable agent does not prevent the start."""
    most = setup.config.tools.max_stored_bytes
    opens = setup.open_remote_agent or partial(remote_agent_actor, max_stored_bytes=most)
    started: list[tuple[RemoteAgentConfig, list[str], ActorRef[RemoteAgentMessage], Slots]] = []
    for agent in setup.config.remote_agents:
        plain = attrs.evolve(agent, name="", description="", destructive_hint=False)
        shared = next((each for each in started if each[0] == plain), None)
        directory.set_agents([agent.name], RemoteAgentStatus("unknown"))
        if shared is None:
            names: list[str] = []
            behaviour = opens(agent, report=partial(directory.set_agents, names))
            shared = (plain, names, await kernel.start(agent.id, behaviour), Slots(agent.max_concurrency))
            started.append(shared)
        _, names, ref, slots = shared
        names.append(agent.name)
        directory.slots[agent.name] = slots
        await registry_ref.ask(RegisterAgent(RemoteServer(agent.id, ref, slots, agent.forwards_bearer)))


# ----------------------------------------------------------------- tool servers


async def _start_servers(
    kernel: Supervisor, setup: Setup, registry_ref: ActorRef[RegistryMessage], directory: ServerDirectory
) -> Mapping[str, ActorRef[ServerMessage]]:
    """Connect all servers at the same time. Register them in the order of the config, or raise all
    failures."""
    enabled, most = setup.config.enabled_servers, setup.config.tools.max_stored_bytes
    opens = setup.open_server or partial(mcp_server, max_stored_bytes=most, modes=Modes(setup.journal))
    started: dict[str, ActorRef[ServerMessage]] = {}
    failures: dict[str, ServerStartFailed] = {}

    async def start(server: McpServerConfig) -> None:
        try:
            started[server.name] = await kernel.start(
                f"mcp:{server.name}", opens(server, report=directory.set_server), group="tool servers"
            )
        except ServerStartFailed as error:
            failures[server.name] = error

    async with trio.open_nursery() as nursery:
        for server in enabled:
            nursery.start_soon(start, server)
    problems = [str(failures[server.name]) for server in enabled if server.name in failures]
    mistaken = any(failure.mistake for failure in failures.values())
    if not problems:
        for server in enabled:
            try:
                slots = directory.slots[server.name] = Slots(server.max_concurrency)
                await _register(server, started[server.name], slots, registry_ref)
            except DuplicateTool as error:
                problems.append(str(error))
                mistaken = True
    if problems:
        raise (Misconfigured if mistaken else StartError)("\n".join(problems))
    states = [state for server in enabled if (state := directory.servers.get(server.name))]
    if started and len(states) == len(started) and all(each.state == "disconnected" for each in states):
        logger.warning(
            "all MCP servers failed: %s", "; ".join(f"{each.name}: {each.error}" for each in states)
        )
    return started


async def _register(
    server: McpServerConfig,
    ref: ActorRef[ServerMessage],
    slots: Slots,
    registry_ref: ActorRef[RegistryMessage],
) -> None:
    entry = Server(server.name, ref, slots, server.forwards_bearer)
    await registry_ref.ask(Register(entry, await ref.ask(ListTools())))
