"""The objects that the actors of one agent share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from ...config.agent_config import AgentConfig
from ...config.nodes import Node
from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus
from ...runtime.journal.lease import Lease
from ...runtime.journal.ownership import Fence
from ...runtime.journal.protocol import Journal, Json
from ...runtime.ref import ActorRef
from ..common.store_secret import StoreSecret
from ..gate.gate import PolicyScope, root_scope
from ..gate.halt import Halts
from ..log.branches import ActiveRuns
from ..log.log import ConversationLog
from ..log.observer import Observer
from ..log.relay import Relay
from ..log.write_behind import Flusher
from ..models.model_actors import StartedModel
from ..models.spending import Spending
from ..tools.arguments import CheckedArguments
from ..tools.authorization import Authorization
from ..tools.registry import RegistryMessage
from ..tools.tokens import Tokens
from .offers import ToolOffers


@attrs.frozen(eq=False)
class Services:
    config: AgentConfig
    journal: Journal
    bus: EventBus
    active_runs: ActiveRuns
    tokens: Tokens
    lease: Lease
    """The lease of this process at the journal."""
    agent_id: str
    """The id by which other agents recognize this agent. It belongs to the data directory, not to the
    name."""
    secret: StoreSecret
    wall: WallClock
    registry: ActorRef[RegistryMessage]
    halts: Halts
    spending: Spending
    model: Callable[[str], Awaitable[StartedModel]]
    """Returns a model by name, started at its first use. Raises `ModelFailed`."""
    tree_id: str
    """The id of the tree for new runs."""
    tree: Callable[[str, Json], Node]
    """Returns the tree that a run started with, from its id and stored form. Raises `ConfigError`."""
    wake: Callable[[str], None]
    """Wakes a conversation, because its inbox may hold commands."""
    authorization: Authorization
    observer: Observer
    offers: Callable[[], ToolOffers]
    """Returns the tools that models are offered, as the registry last published them."""
    policy_scope: PolicyScope = attrs.field(
        init=False, default=attrs.Factory(lambda self: root_scope(self.config), takes_self=True)
    )
    """The policy scope above the root of every tree."""
    flusher: Flusher = attrs.field(factory=Flusher)
    arguments: CheckedArguments = attrs.field(factory=CheckedArguments)
    live: dict[str, ConversationLog] = attrs.field(factory=dict)
    """The logs of the conversations active in this process, for readers."""
    relay: Relay = attrs.field(
        init=False,
        default=attrs.Factory(
            lambda self: Relay(self.journal, self.bus, self.wall, self.live, self.lease.can_be_lost),
            takes_self=True,
        ),
    )
    unreleased: list[Fence] = attrs.field(factory=list)
    """The fences of activations that could not give up their streams."""

    async def owned(self, id: str) -> ConversationLog | None:
        """The log of a conversation that is active in this process, and that no other process has taken
        over."""
        log = self.live.get(id)
        return log if log is not None and await self.journal.holds(log.tenure.fence) else None
