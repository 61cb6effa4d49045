"""A conversation is the fold of its events: `Conversation.apply` is the only thing that changes one.

Rules of the fold:

* It is a function of the events alone: no clock, no randomness, no I/O. Ids of messages come from the seq.
* Whoever adds a type of event adds it here. A type this code does not know makes the conversation read-only:
  it was written by a newer version, and going on without understanding it could repeat or undo something.
* `Head` is the part that lists, status checks and start-up need. It is immutable, so that the writer can
  work out what the summary will be before the events that change it are on disk.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import attrs

from stopgo.actors import events as e
from stopgo.runtime.journal.protocol import Event, NewEvent, Question, Summary

Status: TypeAlias = Literal["active", "waiting_approval", "completed"]
RunState: TypeAlias = Literal["running", "waiting", "auth_required", "finished", "failed", "cancelled"]
CallState: TypeAlias = Literal[
    "requested", "waiting", "started", "finished", "denied", "rejected", "expired", "cancelled", "unknown"
]

TITLE_LENGTH = 80


@attrs.frozen
class RunHead:
    id: str
    turn: int
    state: RunState = "running"
    code: str | None = None
    """Why it failed."""
    input_tokens: int = 0
    output_tokens: int = 0
    rejected: bool = False
    """A human said no to something in it."""

    @property
    def live(self) -> bool:
        return self.state in ("running", "waiting", "auth_required")


@attrs.frozen
class Head:
    session_id: str = ""
    title: str = ""
    completed: bool = False
    run: RunHead | None = None
    """The current run, else the last one."""
    pending: tuple[str, ...] = ()
    """Pending approvals, oldest first."""

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
            open=run is not None and run.state == "running",
            body={"session_id": self.session_id, "run": attrs.asdict(run) if run else None},
        )


def head_of_summary(summary: Summary) -> Head:
    """The head a summary was made of, but for `pending`, which the journal's questions tell."""
    run = summary.body.get("run")
    return Head(
        session_id=summary.body.get("session_id", ""),
        title=summary.title,
        completed=summary.status == "completed",
        run=RunHead(**run) if run else None,
    )


def fold_head(head: Head, new: Iterable[NewEvent | Event]) -> Head:
    for event in new:
        head = _fold_head(head, event.type, event.body)
    return head


def _fold_head(head: Head, type: str, body: Mapping[str, Any]) -> Head:
    run = head.run
    match type:
        case e.CONVERSATION_CREATED:
            return attrs.evolve(head, session_id=body["session_id"])
        case e.MESSAGE_ADDED if not head.title:
            return attrs.evolve(head, title=" ".join(body["text"].split())[:TITLE_LENGTH])
        case e.RUN_STARTED:
            return attrs.evolve(head, run=RunHead(body["run"], body["turn"]))
        case e.CONVERSATION_COMPLETED:
            return attrs.evolve(head, completed=True)
        case e.APPROVAL_REQUESTED:
            return attrs.evolve(head, pending=(*head.pending, body["id"]))
        case e.APPROVAL_RESOLVED | e.APPROVAL_EXPIRED | e.APPROVAL_VOID:
            if run and type == e.APPROVAL_RESOLVED and is_rejection(body["decision"]):
                run = attrs.evolve(run, rejected=True)
            pending = tuple(id for id in head.pending if id != body["id"])
            return attrs.evolve(head, pending=pending, run=run)
        case e.STEP_FINISHED if run and "usage" in body:
            used = body["usage"]
            run = attrs.evolve(
                run,
                input_tokens=run.input_tokens + used["input_tokens"],
                output_tokens=run.output_tokens + used["output_tokens"],
            )
            return attrs.evolve(head, run=run)
    state = RUN_STATES.get(type)
    if run is None or state is None:
        return head
    return attrs.evolve(head, run=attrs.evolve(run, state=state, code=body.get("code")))


RUN_STATES: Mapping[str, RunState] = {
    e.RUN_WAITING: "waiting",
    e.RUN_AUTH_REQUIRED: "auth_required",
    e.RUN_RESUMED: "running",
    e.RUN_FINISHED: "finished",
    e.RUN_FAILED: "failed",
    e.RUN_CANCELLED: "cancelled",
}


def is_rejection(decision: Mapping[str, Any]) -> bool:
    """Whether a decision, as it is kept, says no to a call (`approved` false)."""
    return decision.get("approved") is False


@attrs.define
class CallView:
    """A tool call as people see it."""

    id: str
    name: str
    arguments: Mapping[str, Any]
    state: CallState = "requested"
    result: str | None = None
    is_error: bool | None = None
    server: str | None = None


@attrs.define
class Message:
    id: str
    role: Literal["system", "user", "assistant", "tool"]
    content: str
    created: float
    node: str | None = None
    call: CallView | None = None


@attrs.define
class CallRecord:
    """What is on record of one tool call of a run."""

    message: Message
    attempts: dict[int, str] = attrs.field(factory=dict)
    """`started`, `finished` or `unknown`, by attempt."""
    started: Mapping[str, Any] | None = None
    """The body of the last `tool.started`."""
    result: Mapping[str, Any] | None = None
    unsent: Mapping[str, Any] | None = None
    """The `step.finished` of a call that was never sent."""


@attrs.define
class Run:
    """What a run has on record: what a replay goes by. Forgotten when the run ends."""

    id: str
    turn: int
    text: str
    tree_id: str
    replay_version: int
    mover: str
    """The command that last moved it on; calls use its bearer token."""
    token: bool
    """Whether that command came with one."""
    unsettled: list[str] = attrs.field(factory=list)
    """Commands whose senders have no answer yet."""
    steps: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    calls: dict[str, CallRecord] = attrs.field(factory=dict)
    asked: dict[str, str] = attrs.field(factory=dict)
    """Approval ids by the key of the question."""
    decisions: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """By approval id."""
    batches: set[str] = attrs.field(factory=set)


@attrs.frozen
class Exchange:
    """An earlier turn, as later ones see it."""

    user: str
    answer: str


@attrs.define(eq=False)
class Conversation:
    id: str
    head: Head = Head()
    created: float = 0.0
    updated: float = 0.0
    last_seq: int = 0
    messages: list[Message] = attrs.field(factory=list)
    approvals: dict[str, Question] = attrs.field(factory=dict)
    """All there ever were, oldest first."""
    turns: list[Exchange] = attrs.field(factory=list)
    trees: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    run: Run | None = None
    """The record of the live run."""
    read_only: bool = False
    """It has an event this version does not know."""

    def apply(self, event: Event) -> None:
        """Advance by the next event."""
        self.last_seq = event.seq
        self.updated = event.at
        if event.type not in e.KNOWN:
            self.read_only = True
            return
        self.head = _fold_head(self.head, event.type, event.body)
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event, event.body)

    def message_id(self, seq: int, index: int = 0) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}/{seq}/{index}"))

    def say(
        self, event: Event, role: Literal["system", "user", "assistant"], text: str, node: str | None = None
    ) -> None:
        self.messages.append(Message(self.message_id(event.seq), role, text, event.at, node))


def fold(id: str, history: Iterable[Event]) -> Conversation:
    conversation = Conversation(id)
    for event in history:
        conversation.apply(event)
    return conversation


# ---------------------------------------------------------------- one per type


def _created(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    c.created = event.at
    c.say(event, "system", body["prompt"])


def _message_added(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    c.say(event, "user", body["text"])


def _run_started(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    if "tree" in body:
        c.trees[body["tree_id"]] = body["tree"]
    c.run = Run(
        id=body["run"],
        turn=body["turn"],
        text=c.messages[-1].content,
        tree_id=body["tree_id"],
        replay_version=body["replay_version"],
        mover=body["command"],
        token=body["token"],
        unsettled=[body["command"]],
    )


def _step_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    key = body["key"]
    if body["kind"] == "call":
        record = run.calls[key]
        record.unsent = body
        view = _view(record)
        view.state = "denied" if body["outcome"] == "denied" else "finished"
        view.result, view.is_error = body["content"], True
        record.message.content = body["content"]
        return
    run.steps[key] = body
    if body["kind"] != "model" or "error" in body:
        return
    if body["text"]:
        c.say(event, "assistant", body["text"], body["node"])
    for index, call in enumerate(body["tool_calls"]):
        view = CallView(call["id"], call["name"], call["arguments"])
        message = Message(c.message_id(event.seq, index + 1), "tool", "", event.at, body["node"], view)
        c.messages.append(message)
        run.calls[f"{key}.{index}"] = CallRecord(message)


def _batch_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    _live(c).batches.add(body["key"])


def _tool_started(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    record = _live(c).calls[body["key"]]
    record.attempts[body["attempt"]] = "started"
    record.started = body
    view = _view(record)
    view.state, view.server, view.arguments = "started", body["server"], body["arguments"]


def _tool_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    record = _live(c).calls[body["key"]]
    record.attempts[body["attempt"]] = "finished"
    record.result = body["result"]
    view = _view(record)
    view.state, view.result, view.is_error = "finished", body["result"]["content"], body["result"]["is_error"]
    record.message.content = body["result"]["content"]


def _tool_unknown(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    record = _live(c).calls[body["key"]]
    record.attempts[body["attempt"]] = "unknown"
    view = _view(record)
    view.state, view.result, view.is_error = "unknown", body["reason"], True
    record.message.content = body["reason"]


def _approval_requested(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    run.asked[body["question"]] = body["id"]
    c.approvals[body["id"]] = Question(
        id=body["id"],
        stream=c.id,
        kind=body["kind"],
        state="pending",
        body=body,
        decision=None,
        created=event.at,
        expires=body.get("expires"),
        settled=None,
    )
    if body["kind"] == "tool":
        _view(run.calls[body["key"]]).state = "waiting"


def _approval_resolved(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    decision = body["decision"]
    approval = c.approvals[body["id"]] = attrs.evolve(
        c.approvals[body["id"]], state="decided", decision=decision, settled=event.at
    )
    run.decisions[approval.id] = decision
    run.unsettled.append(body["command"])
    _moved(run, body)
    record = run.calls[approval.body["key"]]
    if approval.kind == "tool" and is_rejection(decision):
        view = _view(record)
        view.state, view.is_error = "rejected", True
    elif approval.kind == "outcome_unknown" and decision["action"] != "retry":
        view = _view(record)
        view.state, view.is_error = "finished", decision["action"] == "failed"


def _approval_closed(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    state: Literal["void", "expired"] = "void" if event.type == e.APPROVAL_VOID else "expired"
    c.approvals[body["id"]] = attrs.evolve(c.approvals[body["id"]], state=state, settled=event.at)


def _run_resumed(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    if body["command"] not in run.unsettled:
        run.unsettled.append(body["command"])
    _moved(run, body)


def _run_paused(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    _live(c).unsettled.clear()


def _run_ended(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    answer = body.get("text") or body.get("message") or ""
    if event.type == e.RUN_FAILED:
        answer = failure_text(body["code"], body["message"])
        c.say(event, "assistant", answer)
    c.turns.append(Exchange(run.text, answer))
    for record in run.calls.values():
        view = _view(record)
        if view.state in ("requested", "waiting"):
            view.state = "cancelled"
        elif view.state == "started":
            view.state = "unknown"
    c.run = None


def failure_text(code: str, message: str) -> str:
    """What the user reads when a run failed."""
    return f"LLM error: {message}" if code == "model_error" else message


def _live(c: Conversation) -> Run:
    if c.run is None:
        raise ValueError(f"conversation {c.id}: an event of a run outside a run, at seq {c.last_seq}")
    return c.run


def _view(record: CallRecord) -> CallView:
    view = record.message.call
    assert view is not None
    return view


def _moved(run: Run, body: Mapping[str, Any]) -> None:
    # A decision without a token does not take away the one the run has: a run started with a token must
    # never go out anonymously, so it keeps needing one.
    if body["token"] or not run.token:
        run.mover, run.token = body["command"], body["token"]


_HANDLERS = {
    e.CONVERSATION_CREATED: _created,
    e.MESSAGE_ADDED: _message_added,
    e.RUN_STARTED: _run_started,
    e.STEP_FINISHED: _step_finished,
    e.BATCH_FINISHED: _batch_finished,
    e.TOOL_STARTED: _tool_started,
    e.TOOL_FINISHED: _tool_finished,
    e.TOOL_UNKNOWN: _tool_unknown,
    e.APPROVAL_REQUESTED: _approval_requested,
    e.APPROVAL_RESOLVED: _approval_resolved,
    e.APPROVAL_EXPIRED: _approval_closed,
    e.APPROVAL_VOID: _approval_closed,
    e.RUN_RESUMED: _run_resumed,
    e.RUN_WAITING: _run_paused,
    e.RUN_AUTH_REQUIRED: _run_paused,
    e.RUN_FINISHED: _run_ended,
    e.RUN_FAILED: _run_ended,
    e.RUN_CANCELLED: _run_ended,
}
