"""The steps of a call. `lifecycle` decides which comes next, and `runner` carries it out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from ..approvals.requirement import Requirement
from ..tools.needs import Wanted
from ..tools.tool import EffectClass
from .facts import CallApproval


@attrs.frozen
class Judge:
    """Find today's tool and have the gate judge the call, then decide again."""


@attrs.frozen
class Ask:
    """Ask a human for approval of the call, and wait for the decision."""

    question: str
    arguments: Mapping[str, Any]
    rule: str
    replaces: str | None
    """The id of the call's previous approval."""
    requires: Requirement | None = None
    """Who has to approve."""


@attrs.frozen
class Replace:
    """Void the pending approval `old` and put another in its place."""

    old: CallApproval
    question: str
    rule: str
    requires: Requirement | None = None

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.old.shown

    @property
    def replaces(self) -> str:
        return self.old.id


@attrs.frozen
class AskOutcome:
    """Ask a human for the unknown outcome of the attempt, and wait for the answer."""

    attempt: int


@attrs.frozen
class AwaitDecision:
    """Wait for the answer to a question that is on record."""

    question: str


@attrs.frozen
class AwaitCredential:
    """Wait for a bearer token."""

    wanted: Wanted


@attrs.frozen
class AwaitAnswers:
    """Put the server's questions to humans, and wait for all answers."""


@attrs.frozen
class AwaitRemote:
    """Put the called agent's questions to humans, and wait until one of them is settled."""


@attrs.frozen
class LookUp:
    """Ask the called agent about this attempt of an earlier process, and follow its task."""

    attempt: int
    may_send: bool
    """The message may be sent again, if the agent recognizes a message that it has received before."""
    held: bool = False
    """The call is held: the agent gets no message, no agreeing answer and no token."""


@attrs.frozen(kw_only=True)
class Send:
    """Write the intent and send the call."""

    attempt: int
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool
    """If the outcome becomes unknown, ask a human."""
    lost: tuple[int, ...]
    """Earlier attempts without an end; the commit of the intent records their outcomes as unknown."""
    resends: int
    """`LocalState.resends` after this step."""
    held: bool = False
    """The call is held: another agent gets refusals only. No other call is sent while it is held."""

    @property
    def is_first(self) -> bool:
        return self.attempt == 1


@attrs.frozen
class RecordUnknown:
    """Record the outcomes of these attempts as unknown."""

    attempts: tuple[int, ...]


@attrs.frozen
class End:
    """The call has ended. If there is an `outcome`, record it: the call is not sent, or not sent again."""

    outcome: Literal["denied", "declined", "not_found", "invalid", "unknown"] | None = None
    content: str = ""
    lost: tuple[int, ...] = ()


@attrs.frozen
class Park:
    """Wait until the shutdown cancels the run."""


Step: TypeAlias = (
    Judge
    | Ask
    | Replace
    | AskOutcome
    | AwaitDecision
    | AwaitCredential
    | AwaitAnswers
    | AwaitRemote
    | LookUp
    | Send
    | RecordUnknown
    | End
    | Park
)
