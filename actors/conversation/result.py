"""What a command came to: the answer its sender gets, kept in the journal for whoever asks again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from ..approvals.decided import CANCELLED
from ..approvals.kinds import Approval
from ..common.errors import ErrorCode
from ..common.stored_json import new_converter
from ..log.head import RunHead
from ..log.state import CANCELLED_RUN, Conversation
from ..models.usage import NOTHING, Spent, stored
from ..tools.needs import Wanted

ResultState: TypeAlias = Literal["queued", "waiting", "auth_required", "finished", "failed", "cancelled"]

WAITING = "Conversation is waiting for approval. Please respond to the pending approval first."
WAITING_FOR_TOKEN = "The message waits behind a run that needs a bearer token. Resume it with one."


@attrs.frozen
class Result:
    response: str
    state: ResultState
    run_id: str | None = None
    code: str | None = None
    approvals: tuple[str, ...] = ()
    """Ids of the approvals that were pending then, oldest first."""
    auth: Mapping[str, Any] | None = None
    """Which server wants a bearer token, and what it said (`Wanted` as JSON)."""
    used: Spent = NOTHING
    """By the run so far."""

    @property
    def waiting_approval(self) -> bool:
        return self.state == "waiting" or self.code == "waiting_approval"

    @property
    def auth_required(self) -> bool:
        return self.code == "auth_required"

    def to_json(self) -> dict[str, Any]:
        return attrs.asdict(self, recurse=False) | {
            "approvals": list(self.approvals),
            "used": list(self.used),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Result:
        """The result that was kept. Raises LookupError, TypeError or ValueError for anything else."""
        fields, used = stored(body)
        result: Result = _converter.structure({**fields, "used": used}, cls)
        return result


_converter = new_converter()
_converter.register_structure_hook(Spent, lambda used, _: Spent(*used))


@attrs.frozen(eq=False)
class Turn:
    """A conversation as it now stands, and what the command came to (None: it asked for no answer)."""

    conversation: Conversation
    result: Result | None


def finished(run: RunHead, text: str) -> Result:
    """The answer of a finished run. After a rejection it says so first."""
    notice = f"{CANCELLED}."
    if run.rejected:
        # Other agents say so, too, and it is said once.
        said = "\n".join(line for line in text.split("\n") if line not in (CANCELLED, notice)).strip("\n")
        text = f"{notice}\n\n{said}" if said else notice
    return _of(run, text, "finished")


def failed(run: RunHead, code: str, text: str) -> Result:
    return attrs.evolve(_of(run, text, "failed"), code=code)


def cancelled(run: RunHead) -> Result:
    return _of(run, CANCELLED_RUN, "cancelled")


def auth_required(run: RunHead, wanted: Wanted) -> Result:
    said = "" if wanted.status is None else f", and answered HTTP {wanted.status}"
    text = f"{wanted.label} needs a bearer token{said}. Resume the conversation with one."
    result = _of(run, text, "auth_required")
    return attrs.evolve(result, code="auth_required", auth=wanted.to_json())


def waiting(run: RunHead, pending: Sequence[Approval]) -> Result:
    """`pending` are the pending approvals, oldest first."""
    asks = "\n\n".join(approval.asked.waits for approval in pending)
    return attrs.evolve(_of(run, asks, "waiting"), approvals=tuple(approval.id for approval in pending))


def refused_while_waiting(conversation: Conversation) -> Result:
    """The answer to a message that was not stored since an approval is pending."""
    run = conversation.head.run
    return Result(
        WAITING,
        "waiting",
        run_id=run.id if run else None,
        code="waiting_approval",
        approvals=conversation.head.pending,
    )


def queued(run: RunHead, pending: tuple[str, ...]) -> Result:
    """The answer to a message that runs after the current run, which waits for somebody outside."""
    if run.state == "auth_required":
        return Result(WAITING_FOR_TOKEN, "queued", code="auth_required", approvals=pending)
    return Result(WAITING, "queued", code="waiting_approval", approvals=pending)


def _of(run: RunHead, text: str, state: ResultState) -> Result:
    return Result(text, state, run_id=run.id, used=run.used)


def reply_of(result: Result | None) -> dict[str, Any]:
    """A reply as it is kept: the result of a command."""
    return {"result": result.to_json() if result else None}


def result_of(reply: Mapping[str, Any]) -> Result | None:
    """The result in a reply that was kept. Raises LookupError, TypeError or ValueError for anything else."""
    return None if reply["result"] is None else Result.from_json(reply["result"])


def refusal(code: ErrorCode, message: str, hint: str | None = None) -> dict[str, Any]:
    """What the sender of a command is told that is not carried out."""
    return {"error": {"code": code, "message": message} | ({} if hint is None else {"hint": hint})}
