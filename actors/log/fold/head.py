"""The head of a conversation: the part that lists, status checks and start-up need.

It is stored with each commit as the stream's summary, so a list reads one row per conversation. It is
immutable, because the writer needs the new head before the commit, and keeps the old one if that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple, TypeAlias, assert_never

import attrs

from ....runtime.journal.summary import Summary
from ...approvals.decided import Expired
from ...common.stored_json import from_json
from ...models.messages.usage import NOTHING, Spent, stored
from ..words import events as e
from ..words.outcomes import Replied, StepFailed

Status: TypeAlias = Literal["active", "waiting_approval", "completed"]
RunState: TypeAlias = Literal["running", "waiting", "auth_required", "finished", "failed", "cancelled"]
TITLE_LENGTH = 80


class RunHead(NamedTuple):
    """The state of a run."""

    id: str
    """UUID of the run."""
    turn: int
    """Which turn of the conversation, from 1."""
    state: RunState
    """`waiting`: a person has to decide. `auth_required`: a bearer token is needed."""
    code: str | None = None
    """The error code, if it failed."""
    rejected: bool = False
    """A person rejected something in it, or in a task of an agent that it called."""
    usage: Spent = NOTHING
    """Tokens and cost of the run so far."""
    auth: Mapping[str, Any] | None = None
    """During `auth_required`: the server that needs a token, and its refusal (`Wanted` as JSON)."""
    requester: str | None = None
    """The id of the principal that sent the message; None without authentication."""


class Head(NamedTuple):
    session_id: str = ""
    title: str = ""
    completed: bool = False
    run: RunHead | None = None
    """The current run, else the last one."""
    pending: tuple[str, ...] = ()
    """Pending approvals, oldest first."""
    in_flight: tuple[str, ...] = ()
    """Pending elicitations of calls in flight. They cannot be answered after this process ends."""
    usage: Spent = NOTHING
    """Tokens and cost of all runs."""
    owner: str = ""
    """The id of the principal that created the conversation; empty without authentication."""

    @property
    def status(self) -> Status:
        """`waiting_approval`: an approval is pending, even if branches still run."""
        if self.completed:
            return "completed"
        return "waiting_approval" if self.pending else "active"

    def summary(self) -> Summary:
        run = self.run
        # `in_flight`: the next start has to void these approvals.
        goes_on = run is not None and (run.state == "running" or bool(self.in_flight))
        return Summary(
            status=self.status,
            title=self.title,
            open=goes_on,
            body={
                "session_id": self.session_id,
                "run": _stored(run) if run else None,
                "used": list(self.usage),
            },
            owner=self.owner,
            rests=run is not None and not goes_on and run.state in ("waiting", "auth_required"),
        )


class Headed:
    """The attributes that all forms of a conversation share. The names are those of the HTTP API."""

    __slots__ = ()
    head: Head
    created: float
    updated: float

    @property
    def status(self) -> Status:
        """`waiting_approval`: an approval is pending, even if branches still run."""
        return self.head.status

    @property
    def session_id(self) -> str:
        """The session that created it."""
        return self.head.session_id

    @property
    def title(self) -> str:
        """The beginning of the first message."""
        return self.head.title

    @property
    def run(self) -> RunHead | None:
        """The current run, else the last one."""
        return self.head.run

    @property
    def usage(self) -> Spent:
        """Tokens and cost of all its runs."""
        return self.head.usage

    @property
    def created_at(self) -> datetime:
        """When it was created, in UTC."""
        return datetime.fromtimestamp(self.created, UTC)

    @property
    def updated_at(self) -> datetime:
        """The time of the last event, in UTC."""
        return datetime.fromtimestamp(self.updated, UTC)


def _stored(run: RunHead) -> dict[str, Any]:
    fields = run._asdict()
    if run.requester is None:
        del fields["requester"]
    return fields | {"used": list(fields.pop("usage"))}


def head_of_summary(summary: Summary) -> Head:
    """The head that is stored in a summary, without `pending` and `in_flight`: these are read from the
    questions."""
    body = from_json(summary.body, _SummaryBody)
    run = None
    if body.run is not None:
        fields, usage = stored(body.run)
        run = from_json({**fields, "usage": usage}, RunHead)
    return Head(
        session_id=body.session_id,
        title=summary.title,
        completed=summary.status == "completed",
        run=run,
        usage=Spent(*body.used),
        owner=summary.owner,
    )


@attrs.frozen
class _SummaryBody:
    session_id: str = ""
    run: Mapping[str, Any] | None = None
    used: Sequence[Any] = ()


def fold_head(head: Head, events: Iterable[e.LogEvent]) -> Head:
    for event in events:
        head = advance(head, event)
    return head


def advance(head: Head, event: e.LogEvent) -> Head:
    """The head after one event."""
    match event:
        case e.ConversationCreated(session_id=session_id, owner=owner):
            return head._replace(session_id=session_id, owner=owner or "")
        case e.MessageAdded(text=text):
            return head if head.title else head._replace(title=" ".join(text.split())[:TITLE_LENGTH])
        case e.ConversationCompleted():
            return head._replace(completed=True)
        case e.StepFinished():
            return _after_step(head, event)
        case e.ApprovalRequested() | e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
            return _after_approval(head, event)
        case e.ApprovalVoted():
            return head
        case e.RunStarted(run=id, turn=turn, by=by):
            return head._replace(run=RunHead(id, turn, "running", requester=by))
        case e.ToolFinished(rejected=True):
            return head._replace(run=head.run and head.run._replace(rejected=True))
        case (
            e.ToolStarted()
            | e.ToolAccepted()
            | e.ToolFinished()
            | e.ToolUnknown()
            | e.BatchFinished()
            | e.StateSet()
        ):
            return head
        case _:
            return head if head.run is None else head._replace(run=_after_run(head.run, event))


def _after_step(head: Head, step: e.StepFinished) -> Head:
    usage = step.outcome.usage if isinstance(step.outcome, Replied | StepFailed) else None
    if usage is None or head.run is None:
        return head
    run = head.run._replace(usage=head.run.usage.plus(usage))
    return head._replace(run=run, usage=head.usage.plus(usage))


def _after_approval(head: Head, event: e.ApprovalRequested | e.ApprovalEnd) -> Head:
    if isinstance(event, e.ApprovalRequested):
        id = event.asked.id
        in_flight = (*head.in_flight, id) if event.asked.in_flight else head.in_flight
        return head._replace(pending=(*head.pending, id), in_flight=in_flight)
    pending = tuple(id for id in head.pending if id != event.id)
    in_flight = tuple(id for id in head.in_flight if id != event.id)
    run = head.run and head.run._replace(rejected=head.run.rejected or _rejects(event))
    return head._replace(pending=pending, in_flight=in_flight, run=run)


def _rejects(end: e.ApprovalEnd) -> bool:
    match end:
        case e.ApprovalResolved(decision=decision):
            return decision.rejects
        case e.ApprovalExpired(on_expiry=on_expiry):
            return Expired(on_expiry=on_expiry).rejects
        case e.ApprovalVoid():
            return False
        case _:
            assert_never(end)


def _after_run(run: RunHead, event: e.RunPause | e.RunResumed | e.RunEnd) -> RunHead:
    match event:
        case e.RunWaiting():
            return run._replace(state="waiting", code=None, auth=None)
        case e.RunAuthRequired(wanted=wanted):
            return run._replace(state="auth_required", code=None, auth=wanted.to_json())
        case e.RunResumed():
            return run._replace(state="running", code=None, auth=None)
        case e.RunFinished():
            return run._replace(state="finished", code=None, auth=None)
        case e.RunFailed(code=code):
            return run._replace(state="failed", code=code, auth=None)
        case e.RunCancelled():
            return run._replace(state="cancelled", code=None, auth=None)
        case _:
            assert_never(event)
