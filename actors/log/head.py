"""The head of a conversation: the part that lists, status checks and start-up need.

It is immutable, so that the writer can work out what the summary will be before the events that change it
are on disk. Named tuples, for nearly every event replaces one: a fold spends a quarter less on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from ...runtime.journal.protocol import Event, NewEvent, Summary
from ..approvals.decided import Decided, Expired
from ..approvals.kinds import decision_of
from ..models.usage import NOTHING, Spent, stored
from . import events as e

Status: TypeAlias = Literal["active", "waiting_approval", "completed"]
RunState: TypeAlias = Literal["running", "waiting", "auth_required", "finished", "failed", "cancelled"]
TITLE_LENGTH = 80


class RunHead(NamedTuple):
    id: str
    turn: int
    state: RunState = "running"
    code: str | None = None
    """Why it failed."""
    rejected: bool = False
    """A human said no to something in it."""
    used: Spent = NOTHING
    auth: Mapping[str, Any] | None = None
    """During `auth_required`: which server wants a token, and what it said (`Wanted` as JSON)."""


class Head(NamedTuple):
    session_id: str = ""
    title: str = ""
    completed: bool = False
    run: RunHead | None = None
    """The current run, else the last one."""
    pending: tuple[str, ...] = ()
    """Pending approvals, oldest first."""
    in_flight: tuple[str, ...] = ()
    """Those of them that servers wait for in the middle of calls, which end with the process."""
    used: Spent = NOTHING
    """By all of its runs."""

    @property
    def status(self) -> Status:
        if self.completed:
            return "completed"
        return "waiting_approval" if self.pending else "active"

    def summary(self) -> Summary:
        run = self.run
        return Summary(
            status=self.status,
            title=self.title,
            # The next start has to see to what ended with this process.
            open=run is not None and (run.state == "running" or bool(self.in_flight)),
            body={
                "session_id": self.session_id,
                "run": {**run._asdict(), "used": list(run.used)} if run else None,
                "used": list(self.used),
            },
        )


def head_of_summary(summary: Summary) -> Head:
    """The head a summary was made of, but for `pending` and `in_flight`, which the questions tell."""
    run = summary.body.get("run")
    if run is not None:
        fields, used = stored(run)
        run = RunHead(**fields, used=used)
    return Head(
        session_id=summary.body.get("session_id", ""),
        title=summary.title,
        completed=summary.status == "completed",
        run=run,
        used=Spent(*summary.body.get("used", ())),
    )


def fold_head(head: Head, new: Iterable[NewEvent | Event]) -> Head:
    for event in new:
        head = advance(head, event.type, event.body)
    return head


def advance(head: Head, type: str, body: Mapping[str, Any]) -> Head:
    """The head after one event."""
    run = head.run
    match type:
        case e.CONVERSATION_CREATED:
            return head._replace(session_id=body["session_id"])
        case e.MESSAGE_ADDED if not head.title:
            return head._replace(title=" ".join(body["text"].split())[:TITLE_LENGTH])
        case e.RUN_STARTED:
            return head._replace(run=RunHead(body["run"], body["turn"]))
        case e.CONVERSATION_COMPLETED:
            return head._replace(completed=True)
        case e.APPROVAL_REQUESTED:
            in_flight = (*head.in_flight, body["id"]) if body.get("in_flight") else head.in_flight
            return head._replace(pending=(*head.pending, body["id"]), in_flight=in_flight)
        case e.APPROVAL_RESOLVED | e.APPROVAL_EXPIRED | e.APPROVAL_VOID:
            if run and _end_of(body).rejects:
                run = run._replace(rejected=True)
            pending = tuple(id for id in head.pending if id != body["id"])
            in_flight = tuple(id for id in head.in_flight if id != body["id"])
            return head._replace(pending=pending, in_flight=in_flight, run=run)
        case e.STEP_FINISHED if run and "usage" in body:
            run = run._replace(used=run.used.plus(body["usage"]))
            return head._replace(run=run, used=head.used.plus(body["usage"]))
    state = RUN_STATES.get(type)
    if run is None or state is None:
        return head
    auth = wanted(body) if state == "auth_required" else None
    return head._replace(run=run._replace(state=state, code=body.get("code"), auth=auth))


RUN_STATES: Mapping[str, RunState] = {
    e.RUN_WAITING: "waiting",
    e.RUN_AUTH_REQUIRED: "auth_required",
    e.RUN_RESUMED: "running",
    e.RUN_FINISHED: "finished",
    e.RUN_FAILED: "failed",
    e.RUN_CANCELLED: "cancelled",
}


def wanted(body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a ``run.auth_required`` that says what is wanted, and by whom."""
    return {key: body[key] for key in ("server", "status", "challenge") if key in body}


def _end_of(body: Mapping[str, Any]) -> Decided:
    """The decision that ended an approval, from the event's body; a void approval counts as one without."""
    if "decision" in body:
        return decision_of(body["decision"])
    return Expired(on_expiry=body.get("on_expiry", ""))
