"""Results: the answers that the senders of commands get, and their stored form.

The journal keeps the reply to a command, so that a sender who repeats the command gets the same reply.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs
from cattrs.gen import make_dict_structure_fn, override

from ..approvals.decided import CANCELLED
from ..approvals.kinds import Approval
from ..common.errors import ErrorCode
from ..common.stored_json import converter, from_json
from ..log.fold.head import Head, RunHead
from ..log.fold.state import CANCELLED_RUN, Conversation
from ..models.messages.usage import NOTHING, Spent, stored
from ..tools.needs import Wanted

ResultState: TypeAlias = Literal["queued", "waiting", "auth_required", "finished", "failed", "cancelled"]

WAITING = "Conversation is waiting for approval. Please respond to the pending approval first."
WAITING_FOR_TOKEN = "The message waits behind a run that needs a bearer token. Resume it with one."


@attrs.frozen
class Result:
    """The outcome of a command that started or resumed a run."""

    response: str
    """The answer, or the question to the person."""
    state: ResultState
    """`queued`: the message runs after the current run. Otherwise the state of the run."""
    run_id: str | None = None
    """The run. None: the message was not stored, or is queued."""
    code: str | None = None
    """`waiting_approval`, `vote_recorded`, `auth_required`, or why the run failed."""
    approval_ids: tuple[str, ...] = ()
    """The approvals that were pending then, oldest first."""
    auth: Mapping[str, Any] | None = None
    """During `auth_required`: the ``server`` that needs a bearer token, and the ``status`` and
    ``challenge`` of its refusal."""
    usage: Spent = NOTHING
    """Tokens and cost of the run so far."""
    approvals: tuple[Approval, ...] = attrs.field(default=(), eq=False)
    """The approvals of `approval_ids`, in their present state."""

    @property
    def approval(self) -> Approval | None:
        """The oldest of `approvals`."""
        return self.approvals[0] if self.approvals else None

    @property
    def waiting_approval(self) -> bool:
        """Whether a person has to decide first."""
        return self.state == "waiting" or self.code == "waiting_approval"

    @property
    def not_stored(self) -> bool:
        """Whether the message was refused because an approval is pending."""
        return self.state == "waiting" and self.code == "waiting_approval"

    @property
    def auth_required(self) -> bool:
        """Whether a bearer token is needed first."""
        return self.code == "auth_required"

    def to_json(self) -> dict[str, Any]:
        body = attrs.asdict(self, recurse=False)
        body["approvals"] = list(body.pop("approval_ids"))
        body["used"] = list(body.pop("usage"))
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Result:
        """The stored result. Raises LookupError, TypeError or ValueError for anything else."""
        fields, usage = stored(body)
        return from_json({**fields, "usage": usage}, cls)


_read = make_dict_structure_fn(
    Result, converter, approvals=override(omit=True), approval_ids=override(rename="approvals")
)
converter.register_structure_hook(Result, _read)


@attrs.frozen(eq=False)
class Turn:
    """A conversation after a command, and the outcome of the command."""

    conversation: Conversation
    """The conversation in its present state."""
    result: Result | None
    """None: the command has no result, or the caller did not wait."""


@attrs.frozen(eq=False)
class AnsweredTurn(Turn):
    """A `Turn` with a result: the caller has waited for a command that has one."""

    result: Result
    """The answer, the question that the run waits for, or the reason of its failure."""


def turn_of(conversation: Conversation, result: Result | None) -> Turn:
    """The turn, with the approvals of the result in their present state."""
    if result is None:
        return Turn(conversation, None)
    known = conversation.approvals
    approvals = tuple(known[id] for id in result.approval_ids if id in known)
    return AnsweredTurn(conversation, attrs.evolve(result, approvals=approvals))


def finished(run: RunHead, text: str) -> Result:
    """The answer of a finished run. After a rejection it starts with a notice."""
    notice = f"{CANCELLED}."
    if run.rejected:
        # Called agents give the same notice: remove it, so that it appears once.
        rest = "\n".join(line for line in text.split("\n") if line not in (CANCELLED, notice)).strip("\n")
        text = f"{notice}\n\n{rest}" if rest else notice
    return _of(run, text, "finished")


def failed(run: RunHead, code: str, text: str) -> Result:
    return attrs.evolve(_of(run, text, "failed"), code=code)


def cancelled(run: RunHead) -> Result:
    return _of(run, CANCELLED_RUN, "cancelled")


def auth_required(run: RunHead, wanted: Wanted) -> Result:
    status = "" if wanted.status is None else f", and answered HTTP {wanted.status}"
    text = f"{wanted.label} needs a bearer token{status}. Resume the conversation with one."
    result = _of(run, text, "auth_required")
    return attrs.evolve(result, code="auth_required", auth=wanted.to_json())


def waiting(run: RunHead, pending: Sequence[Approval]) -> Result:
    """`pending` are the pending approvals, oldest first."""
    asks = "\n\n".join(approval.asked.waits for approval in pending)
    return attrs.evolve(_of(run, asks, "waiting"), approval_ids=tuple(each.id for each in pending))


def refused_while_waiting(conversation: Conversation) -> Result:
    """The answer to a message that was not stored because an approval is pending."""
    run = conversation.head.run
    return Result(
        WAITING,
        "waiting",
        run_id=run.id if run else None,
        code="waiting_approval",
        approval_ids=conversation.head.pending,
    )


def queued(run: RunHead, pending: tuple[str, ...]) -> Result:
    """The answer to a message that is queued behind a blocked run."""
    if run.state == "auth_required":
        return Result(WAITING_FOR_TOKEN, "queued", code="auth_required", approval_ids=pending)
    return Result(WAITING, "queued", code="waiting_approval", approval_ids=pending)


def vote_recorded(head: Head, votes: int, needed: int) -> Result:
    """The answer to a vote that does not decide yet."""
    text = f"The vote is recorded. {votes} of {needed} approvals have been given."
    run_id = head.run.id if head.run else None
    return Result(text, "waiting", run_id=run_id, code="vote_recorded", approval_ids=head.pending)


def _of(run: RunHead, text: str, state: ResultState) -> Result:
    return Result(text, state, run_id=run.id, usage=run.usage)


def reply_of(result: Result | None) -> dict[str, Any]:
    """The stored reply to a command that was executed."""
    return {"result": result.to_json() if result else None}


def result_of(reply: Mapping[str, Any]) -> Result | None:
    """The result in a stored reply. Raises LookupError, TypeError or ValueError for anything else."""
    return None if reply["result"] is None else Result.from_json(reply["result"])


def refusal(code: ErrorCode, message: str, hint: str | None = None) -> dict[str, Any]:
    """The reply to a command that is refused."""
    return {"error": {"code": code, "message": message} | ({} if hint is None else {"hint": hint})}
