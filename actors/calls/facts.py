"""The input of the rules of `lifecycle`: the record of a call, and what this process knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from ..gate.gate import Verdict
from ..tools.needs import Wanted
from ..tools.tool import EffectClass, Tool


@attrs.frozen(kw_only=True)
class Approval:
    """A question to a person about whether the call may go."""

    id: str
    question: str
    """Its key in the run."""
    state: Literal["pending", "approved", "rejected", "expired", "void"]
    tool: str
    server: str
    facade: str | None
    fingerprint: str
    """Of the tool, as it was shown."""
    rule: str
    """By which it was asked."""
    shown: Mapping[str, Any]
    """The arguments in the question."""
    arguments: Mapping[str, Any]
    """Those that count: as edited, or as shown."""


@attrs.frozen
class CredentialNeed:
    """The server refused the last attempt, which did nothing, for its token."""

    wanted: Wanted
    met: bool
    """The run has another token now."""


@attrs.frozen
class AnswersNeed:
    """The server asked questions in place of doing anything at the last attempt."""

    answers: Sequence[Literal["accept", "decline", "cancel"] | None]
    """None: not answered yet."""
    takes_refusals: bool
    """The next attempt brings the answers, whatever they are."""


@attrs.frozen
class DecisionsNeed:
    """The agent that was called has a task for the call, which asked questions at the last attempt."""

    settled: bool
    """One of them has been settled since, and the agent does not know of it."""


@attrs.frozen(kw_only=True)
class Sent:
    """The last attempt, as its intent has it."""

    attempt: int
    state: Literal["open", "over", "unknown"]
    open: tuple[int, ...]
    """All attempts without an end; `attempt` among them if its state is "open"."""
    tool: str
    server: str
    facade: str | None
    fingerprint: str | None
    """Of the tool as it was called; None in what early versions wrote."""
    arguments: Mapping[str, Any]
    effect: EffectClass
    asks: bool
    """Should its outcome be unknown, a person decides."""
    remote: bool = False
    """It was sent to another agent, which can be asked about it."""
    vouched: bool = False
    """A person approved something that this agent asked."""
    need: CredentialNeed | AnswersNeed | DecisionsNeed | None = None
    outcome: Literal["unasked", "pending", "retry", "told"] = "unasked"
    """The answer of a person about its unknown outcome; "told": it happened, or it did not."""
    retried: bool = False
    """A person had this attempt or an earlier one sent again."""
    in_doubt: bool = False
    """One of the attempts is open, or has an unknown outcome and no person has decided to retry it."""


@attrs.frozen
class Record:
    """A call as the conversation's log has it."""

    ended: bool = False
    """It has its result, or was rejected, denied or given up."""
    sent: Sent | None = None


@attrs.frozen(kw_only=True)
class Judgement:
    """The call as this process judges it now."""

    tool: Tool
    verdict: Verdict
    arguments: Mapping[str, Any]
    """As judged; they fit the tool."""
    allowed: frozenset[str] = frozenset()
    """The rules by which the gate asks today about the arguments of the approvals that were given."""
    lacks_token: Wanted | None = None
    """The run came with a token, which the tool's server is passed and which is not in memory."""


@attrs.frozen
class Missing:
    """There is nothing to send: no such tool, or arguments that do not fit it."""

    outcome: Literal["not_found", "invalid"]
    content: str


@attrs.frozen
class Life:
    """The part of the call's life in this process."""

    resends: int | None = None
    """How often it may still be sent again unasked; None until this process has sent it."""
    draining: bool = False
    """The process shuts down."""
