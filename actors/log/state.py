"""A conversation is the fold of its events: `Conversation.apply` is the only thing that changes one.

Rules of the fold:

* It is a function of the events alone: no clock, no randomness, no I/O. Ids of messages come from the seq.
* Whoever adds a type of event adds it here. A type this code does not know makes the conversation read-only:
  it was written by a newer version, and going on without understanding it could repeat or undo something.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import attrs

from ...runtime.journal.protocol import Event
from ..approvals.decided import Decided, Expired
from ..approvals.kinds import Approval, question_of
from ..approvals.outcome_approval import unknown_text
from ..tools.needs import NeedsAnswers, need_of
from . import events as e
from .head import Head, advance
from .record import CallRecord, CallView, Exchange, Message, Run, Tally


@attrs.define(eq=False)
class Conversation:
    id: str
    head: Head = attrs.field(factory=Head)
    created: float = 0.0
    updated: float = 0.0
    last_seq: int = 0
    messages: list[Message] = attrs.field(factory=list)
    approvals: dict[str, Approval] = attrs.field(factory=dict)
    """All there ever were, oldest first."""
    turns: list[Exchange] = attrs.field(factory=list)
    trees: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    run: Run | None = None
    """The record of the live run."""
    read_only: bool = False
    """It has an event this version does not know."""

    def apply(self, event: Event) -> None:
        """Advance by the next event."""
        self.head = advance(self.head, event.type, event.body)
        self.apply_below(event)

    def apply_below(self, event: Event) -> None:
        """Advance everything but the head: for the writer, who has folded that before it saved."""
        self.last_seq = event.seq
        self.updated = max(self.updated, event.at)  # what a human did is dated when it was done
        if event.type not in e.KNOWN:
            self.read_only = True
            return
        handler = _HANDLERS.get(event.type)
        if handler is not None:
            handler(self, event, event.body)

    def message_id(self, seq: int, index: int = 0) -> str:
        """A name-based UUID (RFC 9562, version 5 in form): the same for everybody who folds these events."""
        name = f"{self.id}/{seq}/{index}".encode()
        h = hashlib.sha1(name, usedforsecurity=False).hexdigest()
        return f"{h[:8]}-{h[8:12]}-5{h[13:16]}-a{h[17:20]}-{h[20:32]}"

    def say(
        self, event: Event, role: Literal["system", "user", "assistant"], text: str, node: str | None = None
    ) -> None:
        self.messages.append(Message(self.message_id(event.seq), role, text, event.at, node))

    def snapshot(self) -> Conversation:
        """A copy that stays as it is, without the record of the live run."""
        return attrs.evolve(
            self,
            messages=list(self.messages),
            approvals=dict(self.approvals),
            turns=list(self.turns),
            trees=dict(self.trees),
            run=None,
        )

    def update_call(self, record: CallRecord, content: str | None = None, **changes: Any) -> None:
        message = self.messages[record.message]
        assert message.call is not None
        self.messages[record.message] = message._replace(
            content=message.content if content is None else content,
            call=message.call._replace(**changes),
        )


CANCELLED_RUN = "The run was cancelled."


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
        commands=[body["command"]],
    )


def _step_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    key = body["key"]
    if body["kind"] == "call":
        record = run.calls[key]
        state = "denied" if body["outcome"] == "denied" else "finished"
        is_error = body["outcome"] != "exit_loop"
        c.update_call(record, body["content"], state=state, result=body["content"], is_error=is_error)
        return
    run.steps[key] = body
    if body["kind"] == "model":
        run.said.setdefault(body["node"], []).append(key)
    if body["kind"] != "model" or "error" in body:
        return
    if body["text"]:
        c.say(event, "assistant", body["text"], body["node"])
    for index, call in enumerate(body["tool_calls"]):
        view = CallView(call["id"], call["name"], call["arguments"])
        message = Message(c.message_id(event.seq, index + 1), "tool", "", event.at, body["node"], view)
        run.calls[f"{key}.{index}"] = CallRecord(len(c.messages))
        c.messages.append(message)


def _batch_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    run.batches.add(body["key"])
    run.tallies.pop(body["key"], None)


def _tool_started(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    record = run.calls[body["key"]]
    run.tallies.setdefault(_reply(body["key"]), Tally()).leave(event.at)
    record.left = event.at
    record.attempts[body["attempt"]] = "started"
    record.started = body
    record.need = None
    # A call is shown as what it means, once that is known.
    meant = {"name": body["tool"], "arguments": body["arguments"]}
    meant |= {"server": body["server"], "facade": body.get("facade")}
    # What was said of an earlier attempt, that nobody knows its outcome, is not true of this one.
    c.update_call(record, "", state="started", result=None, is_error=None, **meant)


def _tool_finished(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    record = _over(c, event, "finished")
    if "need" in body:
        record.need = need_of(body["need"])
        if isinstance(record.need, NeedsAnswers):
            record.asked, record.asked_at = record.need, body["attempt"]
        c.update_call(record, state="waiting")
        return
    record.result = body["result"]
    content, is_error = body["result"]["content"], body["result"]["is_error"]
    c.update_call(record, content, state="finished", result=content, is_error=is_error)


def _tool_unknown(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    record = _over(c, event, "unknown")
    record.reason = body["reason"]
    text = unknown_text(body["reason"])
    c.update_call(record, text, state="unknown", result=text, is_error=True)


def _over(c: Conversation, event: Event, how: str) -> CallRecord:
    """An attempt of a call is not under way any more."""
    run, key = _live(c), event.body["key"]
    record = run.calls[key]
    record.attempts[event.body["attempt"]] = how
    # None: its reply is summed up. An interrupted call that is denied today ends before its attempt does.
    if (tally := run.tallies.get(_reply(key))) is not None:
        tally.come_back(record.left, event.at)
    return record


def _reply(call: str) -> str:
    """The key of the model's reply that asked for this call."""
    return call.rpartition(".")[0]


def _approval_requested(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run, asked = _live(c), question_of(body)
    run.asked[asked.question] = asked.id
    c.approvals[asked.id] = Approval(
        id=asked.id,
        stream=c.id,
        kind=asked.kind,
        state="pending",
        body=body,
        decision=None,
        created=event.at,
        expires=asked.expires,
        settled=None,
        asked=asked,
    )
    if (shown := asked.shown_call()) is not None:
        c.update_call(run.calls[asked.key], state="waiting", **shown)


def _approval_resolved(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run, approval = _live(c), c.approvals[body["id"]]
    decision = approval.asked.read(body["decision"])
    _take_in(run, body["command"])
    _moved(run, body)
    _decided(
        c, attrs.evolve(approval, state="decided", decision=body["decision"], settled=event.at), decision
    )


def _approval_expired(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    approval = c.approvals[body["id"]]
    expired = Expired(on_expiry=approval.asked.on_expiry)
    _decided(c, attrs.evolve(approval, state="expired", settled=event.at), expired)


def _decided(c: Conversation, approval: Approval, decision: Decided) -> None:
    run, asked = _live(c), approval.asked
    c.approvals[approval.id] = approval
    run.decisions[approval.id] = decision
    if (end := asked.settled(decision)) is not None:
        record = run.calls[asked.key]
        c.update_call(record, end.text, state=end.state, result=end.text, is_error=end.is_error)


def _approval_void(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    approval, by = c.approvals[body["id"]], body.get("superseded_by")
    if by is not None:
        asked = attrs.evolve(approval.asked, superseded_by=by)
        approval = attrs.evolve(approval, body={**approval.body, "superseded_by": by}, asked=asked)
    c.approvals[approval.id] = attrs.evolve(approval, state="void", settled=event.at)


def _run_resumed(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    if body["answer"]:
        _take_in(run, body["command"])
    _moved(run, body)


def _run_paused(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    run.unsettled.clear()
    run.worked.update(body["worked"])


def _run_ended(c: Conversation, event: Event, body: Mapping[str, Any]) -> None:
    run = _live(c)
    match event.type:
        case e.RUN_FINISHED:
            answer = body["text"]
        case e.RUN_FAILED:
            answer = failure_text(body["code"], body["message"])
        case _:
            answer = CANCELLED_RUN
    last = c.messages[-1]
    if (last.role, last.content) != ("assistant", answer):  # most answers are what the last node said
        c.say(event, "assistant", answer)
    c.turns.append(Exchange(run.text, answer))
    for record in run.calls.values():
        view = c.messages[record.message].call
        if view is not None and view.state in ("requested", "waiting"):
            c.update_call(record, state="cancelled")
    c.run = None


def failure_text(code: str, message: str) -> str:
    """What the user reads when a run failed."""
    return f"LLM error: {message}" if code == "model_error" else message


def _live(c: Conversation) -> Run:
    if c.run is None:
        raise LookupError("an event of a run outside a run")
    return c.run


def _take_in(run: Run, command: str) -> None:
    run.unsettled.append(command)
    run.commands.append(command)


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
    e.APPROVAL_EXPIRED: _approval_expired,
    e.APPROVAL_VOID: _approval_void,
    e.RUN_RESUMED: _run_resumed,
    e.RUN_WAITING: _run_paused,
    e.RUN_AUTH_REQUIRED: _run_paused,
    e.RUN_FINISHED: _run_ended,
    e.RUN_FAILED: _run_ended,
    e.RUN_CANCELLED: _run_ended,
}
