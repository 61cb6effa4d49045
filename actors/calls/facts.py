"""The input of `lifecycle`: the record of a call, the judgement of the gate, and the state of this
process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ..approvals.requirement import Requirement
from ..gate.gate import Verdict
from ..gate.halt import NEVER, Halt
from ..tools.needs import Wanted
from ..tools.tool import EffectClass, Tool


@attrs.frozen(kw_only=True)
class CallApproval:
    """An approval of the call by a human."""

    id: str
    question: str
    """The key of the question in the run."""
    state: Literal["pending", "approved", "rejected", "answered", "expired", "void"]
    tool: str
    server: str
    facade: str | None
    fingerprint: str
    """The fingerprint of the tool as it was shown."""
    rule: str
    """The rule by which the gate asked."""
    requires: Requirement | None = None
    """Who has to approve."""
    shown: Mapping[str, Any]
    """The arguments in the question."""
    arguments: Mapping[str, Any]
    """The arguments to send: as edited, or as shown."""
    halts: int = 0
    """The number of halts before the decision."""


@attrs.frozen
class CredentialNeed:
    """The server refused the token of the last attempt, which did nothing."""

    wanted: Wanted
    met: bool
    """The run has a different token now."""


@attrs.frozen
class AnswersNeed:
    """The server asked questions at the last attempt, which did nothing."""

    answers: Sequence[Literal["accept", "decline", "cancel"] | None]
    """None: not answered yet."""
    takes_refusals: bool
    """The next attempt sends the answers even if some are refusals."""


@attrs.frozen
class DecisionsNeed:
    """The called agent has a task for the call, and asked questions at the last attempt."""

    settled: bool
    """One of them has been settled since, and the agent has not been told."""


@attrs.frozen(kw_only=True)
class Sent:
    """The last attempt, from its intent and its end."""

    attempt: int
    state: Literal["open", "over", "unknown"]
    open: tuple[int, ...]
    """All attempts without a recorded end, including `attempt` if its state is "open"."""
    tool: str
    server: str
    facade: str | None
    fingerprint: str | None
    """The fingerprint of the tool as it was called; None if an early version recorded the attempt."""
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool
    """If the outcome becomes unknown, ask a human."""
    remote: bool = False
    """It was sent to another agent, which can be asked about it."""
    vouched: bool = False
    """A human has approved something that this agent asked."""
    need: CredentialNeed | AnswersNeed | DecisionsNeed | None = None
    outcome: Literal["unasked", "pending", "retry", "known"] = "unasked"
    """A human's answer about its unknown outcome; "known": the human knows whether the call happened."""
    retried: bool = False
    """A human had this attempt or an earlier one sent again."""
    in_doubt: bool = False
    """An attempt is open, or has an unknown outcome and no human has decided to retry it."""
    agreed: int | None = None
    """The number of halts before the oldest agreeing decision that the next attempt acts on: a retry, and
    the answers that it brings. None: there is no such decision."""


@attrs.frozen
class Record:
    """The record of a call in the log."""

    ended: bool = False
    """The call has its result, was rejected or denied, or will not be sent again."""
    sent: Sent | None = None


@attrs.frozen(kw_only=True)
class Judgement:
    """The gate's judgement of the call, by today's tool and rules."""

    tool: Tool
    verdict: Verdict
    arguments: Mapping[str, Any]
    """The arguments that were judged. They fit the tool."""
    fitted: bool = False
    """No event of the call has these arguments: the model's were converted to the types of the tool."""
    allowed: frozenset[str] = frozenset()
    """The rules of today's verdicts on the arguments that were shown to the humans who approved."""
    lacks_token: Wanted | None = None
    """The server is passed bearer tokens, and the run came with one that is no longer in memory."""


@attrs.frozen
class Missing:
    """The call cannot be sent: there is no such tool, or the arguments do not fit it."""

    outcome: Literal["not_found", "invalid"]
    content: str
    tool: Tool | None = None
    """The tool, if there is one."""


@attrs.frozen
class LocalState:
    """The state of the call that only this process has."""

    resends: int | None = None
    """The number of resends left without asking; None until this process has sent the call."""
    draining: bool = False
    """A shutdown has begun."""
    halt: Halt = NEVER
    """The latest halt."""
