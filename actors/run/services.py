"""The objects that the actors of one agent share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import attrs

from ...config.checks.tree import tree_from_stored, tree_id
from ...config.sections.agent_config import AgentConfig
from ...config.sections.nodes import Node
from ...runtime.journal.protocol import Json
from ...runtime.ref import ActorRef
from ..arguments.arguments import CheckedArguments
from ..common.store_secret import StoreSecret
from ..gate.gate import PolicyScope, root_scope
from ..gate.halt import Halts
from ..gate.policies import Policies
from ..log.writer.logs import Logs
from ..models.model_actors import StartedModel
from ..models.spending import Spending
from ..notify.notice_rows import NoticeRows
from ..servers.authorization import Authorization
from ..tools.registry import RegistryMessage
from ..tools.tokens import Tokens
from .offers import ToolOffers


@attrs.frozen(eq=False, kw_only=True)
class Services:
    config: AgentConfig
    logs: Logs
    agent_id: str
    """The id by which other agents recognize this agent. It belongs to the data directory, not to the
    name."""
    secret: StoreSecret
    policies: Policies
    registry: ActorRef[RegistryMessage]
    halts: Halts
    spending: Spending
    notices: NoticeRows
    model: Callable[[str], Awaitable[StartedModel]]
    """Returns a model by name, started at its first use. Raises `ModelFailed`."""
    wake: Callable[[str], None]
    """Wakes a conversation, because its inbox may hold commands."""
    authorization: Authorization
    offers: Callable[[], ToolOffers]
    """Returns the tools that models are offered, as the registry last published them."""
    tree_id: str = attrs.field(
        init=False,
        default=attrs.Factory(lambda self: tree_id(self.config.stored_tree), takes_self=True),
    )
    """The id of the tree for new runs."""
    policy_scope: PolicyScope = attrs.field(
        init=False, default=attrs.Factory(lambda self: root_scope(self.config), takes_self=True)
    )
    """The policy scope above the root of every tree."""
    tokens: Tokens = attrs.field(factory=Tokens)
    arguments: CheckedArguments = attrs.field(factory=CheckedArguments)

    def tree(self, id: str, stored: Json) -> Node:
        """The tree that a run started with, from its id and stored form. Raises `ConfigError`."""
        if id == self.tree_id:
            return self.config.agent
        return tree_from_stored(stored, data_dir=self.config.data_dir)
