"""What the actors of one agent share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from ...config.agent_config import AgentConfig
from ...config.nodes import Node
from ...runtime.clock import WallClock
from ...runtime.event_bus import EventBus
from ...runtime.journal.protocol import Journal, Json
from ...runtime.ref import ActorRef
from ..gate.gate import PolicyScope, root_scope
from ..log.branches import ActiveRuns
from ..log.log import ConversationLog
from ..log.write_behind import Flusher
from ..models.model_actors import StartedModel
from ..tools.arguments import Arguments
from ..tools.authorization import Authorization
from ..tools.registry import RegistryMessage
from ..tools.tokens import Tokens
from .offers import Menu


@attrs.frozen(eq=False)
class Services:
    config: AgentConfig
    journal: Journal
    bus: EventBus
    active_runs: ActiveRuns
    tokens: Tokens
    owner: str
    """Who claims conversations: this process."""
    agent_id: str
    """The id of this agent for other agents. It stays with the data when the agent is renamed."""
    wall: WallClock
    registry: ActorRef[RegistryMessage]
    model: Callable[[str], Awaitable[StartedModel]]
    """A model by its name; started when first asked for. Raises `ModelFailed`."""
    tree_id: str
    """Of the tree that new runs start with."""
    tree: Callable[[str, Json], Node]
    """Today's form of the tree a run started with, by its id and text. Raises `ConfigError`."""
    wake: Callable[[str], None]
    """Tell a conversation that there may be something in its inbox."""
    authorization: Authorization
    menu: Callable[[], Menu]
    """What models are told of the tools, as the registry last published them."""
    policy_scope: PolicyScope = attrs.field(
        init=False, default=attrs.Factory(lambda self: root_scope(self.config), takes_self=True)
    )
    """What holds above the root of every tree."""
    flusher: Flusher = attrs.field(factory=Flusher)
    arguments: Arguments = attrs.field(factory=Arguments)
    live: dict[str, ConversationLog] = attrs.field(factory=dict)
    """The logs of the conversations that are active in this process, for readers."""
