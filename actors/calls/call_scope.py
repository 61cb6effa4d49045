"""The common surroundings of the tool calls of one execution of a node."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from ...runtime.ref import ActorRef
from ..approvals.asked import Occasion
from ..gate.gate import Place
from ..log.activity import Meters
from ..log.log import ConversationLog
from ..tools.arguments import Arguments
from ..tools.authorization import Authorization
from ..tools.registry import RegistryMessage
from ..tools.tokens import Tokens


@attrs.frozen(eq=False, kw_only=True)
class CallScope:
    log: ConversationLog
    registry: ActorRef[RegistryMessage]
    arguments: Arguments
    authorization: Authorization
    tokens: Tokens
    searching: trio.Lock
    """Held while rules search for patterns."""
    place: Place
    node: str
    can_exit_loop: bool
    meters: Meters
    max_calls: int | None
    """Calls that the run may send."""
    occasion: Callable[[str, str], Occasion]
    """Of a question, by its key, about a call, by its key."""

    @property
    def bearer(self) -> str | None:
        """The token that the run has now."""
        return self.tokens.get(self.log.state.id, self.log.run.mover)

    @property
    def draining(self) -> trio.Event:
        """Set when the process begins to shut down."""
        return self.log.pulse.draining

    def expires(self) -> float | None:
        """When a question that is put now expires, in UTC seconds."""
        after = self.place.policy.expires_after
        return None if after is None else self.log.wall() + after
