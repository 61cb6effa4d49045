"""The steps in the life of a call; `lifecycle` decides which comes next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from ..tools.needs import Wanted
from ..tools.tool import EffectClass
from .facts import Approval


@attrs.frozen
class Judge:
    """Find the tool of today and have the gate judge the call; then decide again."""


@attrs.frozen
class Ask:
    """Ask a person whether the call may go, and wait for the answer."""

    question: str
    arguments: Mapping[str, Any]
    rule: str
    replaces: str | None
    """The earlier approval of the call that this one follows."""


@attrs.frozen
class Replace:
    """Take back the pending approval `old` and put another in its place."""

    old: Approval
    question: str
    rule: str

    @property
    def arguments(self) -> Mapping[str, Any]:
        return self.old.shown

    @property
    def replaces(self) -> str:
        return self.old.id


@attrs.frozen
class AskOutcome:
    """Ask a person what became of the attempt, and wait for the answer."""

    attempt: int


@attrs.frozen
class AwaitDecision:
    """Wait for the answer to a question that was put."""

    question: str


@attrs.frozen
class AwaitCredential:
    wanted: Wanted


@attrs.frozen
class AwaitAnswers:
    """Put the questions of the server to people, and wait for all answers."""


@attrs.frozen
class AwaitRemote:
    """Put the questions of the agent that was called to people, and wait until one of them is settled."""


@attrs.frozen
class LookUp:
    """Ask the called agent about this attempt of an earlier life, and follow its task."""

    attempt: int
    may_send: bool
    """The message may be sent once more, to an agent that recognizes it if it has got it."""


@attrs.frozen(kw_only=True)
class Send:
    attempt: int
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool
    """Should its outcome be unknown, a person decides."""
    lost: tuple[int, ...]
    """Earlier attempts without an end; their outcome is recorded as unknown with the intent."""
    resends: int
    """`Life.resends` after this."""

    @property
    def is_first(self) -> bool:
        return self.attempt == 1


@attrs.frozen
class Unknown:
    """Record that the outcome of these attempts is unknown."""

    attempts: tuple[int, ...]


@attrs.frozen
class End:
    """The call is over. With an outcome, that is recorded: it was not sent (again)."""

    outcome: Literal["denied", "declined", "not_found", "invalid", "unknown"] | None = None
    content: str = ""
    lost: tuple[int, ...] = ()


@attrs.frozen
class Park:
    """Wait for the end of the process."""


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
    | Unknown
    | End
    | Park
)
