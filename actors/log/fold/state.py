"""The fold: computes the state of a conversation from its events.

Only `Conversation.apply` and its second half, `apply_below`, change a conversation. Each event advances two
parts: the head (status, title, run, usage), which the writer computes before the commit because it is the
stream's summary (`advance` in `head.py`), and everything else (`apply_below`). Rules:

* The fold is a function of the events alone: no clock, no randomness, no I/O. Ids of messages are derived
  from the seq, so every fold of the same events yields the same ids.
* An event type or step kind that this version does not know makes the conversation read-only. A newer version
  wrote it, and a run that ignored it could repeat or undo work.
* A body that does not fit the state raises LookupError, TypeError or ValueError: the stream is damaged
  (`stored.py`).
* The record of a run (`live_run`), from which a replay continues, is dropped when the run ends. Before that,
  the messages that later turns need are made from it (`past.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, assert_never, cast

import attrs

from ....runtime.journal.protocol import Event
from ...approvals.asked import Asked
from ...approvals.decided import Decided, Expired
from ...approvals.kinds import AnyQuestion, Approval
from ...approvals.outcome_approval import unknown_text
from ...approvals.proxy_approval import ProxyQuestion
from ...common.kept_forms import KeptForms
from ...models.messages.messages import ToolCall
from ...tools.delegation import RemoteTask
from ...tools.needs import NeedsAnswers, NeedsDecisions
from ...tools.pictures import Picture
from ..words import events as e
from ..words import keys
from ..words.event_json import decode
from ..words.outcomes import Chosen, Delegation, Ended, NotSent, Replied, StepFailed
from .head import Head, Headed, advance
from .past import calls_of
from .record import ENDED, CallRecord, CallState, CallView, Message, RecordedExchange, Run, Tally


@attrs.define(eq=False)
class Conversation(Headed):
    """The state of a conversation. `messages[0]` is the system prompt."""

    id: str
    """UUID of the conversation."""
    head: Head = attrs.field(factory=Head)
    created: float = 0.0
    updated: float = 0.0
    last_seq: int = 0
    """The seq of the last event."""
    messages: list[Message] = attrs.field(factory=list)
    """The messages, oldest first."""
    approvals: dict[str, Approval] = attrs.field(factory=dict)
    """All approvals by id, in any state, oldest first."""
    turns: list[RecordedExchange] = attrs.field(factory=list)
    trees: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    live_run: Run | None = None
    # No docstrings, because they are not part of the public API.
    kept: KeptForms | None = None
    extracted: int = 0
    read_only: bool = False
    """Whether it can only be read or deleted, because it has an event or step unknown to this version."""

    @property
    def pending_approvals(self) -> tuple[Approval, ...]:
        """The approvals that wait for a decision, oldest first."""
        return tuple(self.approvals[id] for id in self.head.pending)

    def apply(self, entry: e.Entry) -> None:
        """Advance by the next event."""
        if entry.event is not None:
            self.head = advance(self.head, entry.event)
        self.apply_below(entry)

    def apply_below(self, entry: e.Entry) -> None:
        """Advance everything except the head, which the writer advances before the commit."""
        self.last_seq = entry.seq
        self.updated = max(self.updated, entry.at)  # a decision may be older than the last event
        match event := entry.event:
            case None:
                self.read_only = True
            case e.ConversationCreated() | e.MessageAdded() | e.StateSet() | e.ConversationCompleted():
                _apply_conversation(self, entry, event)
            case e.StepFinished() | e.BatchFinished():
                _apply_step(self, entry, event)
            case e.ToolStarted() | e.ToolAccepted() | e.ToolFinished() | e.ToolUnknown():
                _apply_tool(self, entry, event)
            case e.ApprovalRequested() | e.ApprovalVoted():
                _apply_approval(self, entry, event)
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                _apply_approval(self, entry, event)
            case e.RunStarted() | e.RunWaiting() | e.RunAuthRequired() | e.RunResumed():
                _apply_run(self, entry.at, event)
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                _apply_run_end(self, entry, event)
            case _:
                assert_never(event)

    def message_id(self, seq: int, index: int = 0) -> str:
        """Return a name-based UUID (in the form of RFC 9562, version 5) for a message of event `seq`."""
        name = f"{self.id}/{seq}/{index}".encode()
        h = hashlib.sha1(name, usedforsecurity=False).hexdigest()
        return f"{h[:8]}-{h[8:12]}-5{h[13:16]}-a{h[17:20]}-{h[20:32]}"

    def add_message(
        self,
        entry: e.Entry,
        role: Literal["system", "user", "assistant"],
        text: str,
        node: str | None = None,
        pictures: Sequence[Picture] = (),
    ) -> None:
        id = self.message_id(entry.seq)
        self.messages.append(Message(id, role, text, entry.at, node, pictures=pictures))

    def snapshot(self) -> Conversation:
        """Return a copy that later events do not change, without the record of the live run."""
        return attrs.evolve(
            self,
            messages=list(self.messages),
            approvals=dict(self.approvals),
            turns=list(self.turns),
            trees=dict(self.trees),
            live_run=None,
        )

    def has_ended(self, record: CallRecord) -> bool:
        """Whether the call has its result, was rejected or denied, or will not be sent again."""
        view = self.messages[record.message].call
        assert view is not None
        return view.state in ENDED

    def update_call(self, record: CallRecord, content: str | None = None, **changes: Any) -> None:
        message = self.messages[record.message]
        assert message.call is not None
        self.messages[record.message] = message._replace(
            content=message.content if content is None else content,
            call=message.call._replace(**changes),
        )


CANCELLED_RUN = "The run was cancelled."


def fold(id: str, history: Iterable[Event]) -> Conversation:
    """Return the state of a conversation after these events, from the first on."""
    conversation = Conversation(id)
    for event in history:
        conversation.apply(decode(event))
    return conversation


# ------------------------------------------------------ one function per group of events


def _apply_conversation(c: Conversation, entry: e.Entry, event: e.ConversationEvent) -> None:
    match event:
        case e.ConversationCreated(prompt=prompt):
            c.created = entry.at
            c.add_message(entry, "system", prompt)
        case e.MessageAdded(text=text, pictures=pictures):
            c.add_message(entry, "user", text, pictures=pictures)
        case e.StateSet() | e.ConversationCompleted():
            pass
        case _:
            assert_never(event)


def _apply_step(c: Conversation, entry: e.Entry, event: e.StepEvent) -> None:
    run = _live_run(c)
    if isinstance(event, e.BatchFinished):
        run.batches.add(event.key)
        run.tallies.pop(event.key, None)
        return
    if event.kind == "model":
        run.reply_keys.setdefault(event.node, []).append(event.key)
    match event.outcome:
        case NotSent(outcome=outcome, content=content, repeats=repeats):
            state: CallState = "denied" if outcome == "denied" else "finished"
            is_error = outcome != "exit_loop"
            run.calls[event.key].repeats = repeats
            c.update_call(run.calls[event.key], content, state=state, result=content, is_error=is_error)
        case Replied() as reply:
            run.steps[event.key] = event
            if reply.text:
                c.add_message(entry, "assistant", reply.text, event.node)
            _add_calls(c, entry, event, reply.tool_calls)
        case Delegation(call=call):
            run.steps[event.key] = event
            _add_calls(c, entry, event, (call,))
        case Ended() | Chosen() | StepFailed():
            run.steps[event.key] = event
        case _:
            assert_never(event.outcome)


def _add_calls(c: Conversation, entry: e.Entry, step: e.StepFinished, calls: Sequence[ToolCall]) -> None:
    for index, call in enumerate(calls):
        view = CallView(call.id, call.name, call.arguments)
        message = Message(c.message_id(entry.seq, index + 1), "tool", "", entry.at, step.node, view)
        _live_run(c).calls[keys.call(step.key, index)] = CallRecord(len(c.messages))
        c.messages.append(message)


def _apply_tool(c: Conversation, entry: e.Entry, event: e.ToolEvent) -> None:
    record = _live_run(c).calls[event.key]
    match event:
        case e.ToolStarted():
            _start_attempt(c, entry, event, record)
        case e.ToolAccepted(remote_task=id, context=context):
            record.remote = RemoteTask(id, context)
        case e.ToolFinished(need=None, result=result, rejected=rejected):
            _end_attempt(c, entry, event, "finished")
            record.rejected = record.rejected or rejected
            content = result.content
            _live_run(c).show_pictures(record, result)
            c.update_call(record, content, state="finished", result=content, is_error=result.is_error)
        case e.ToolFinished(need=need):
            _end_attempt(c, entry, event, "finished")
            record.need = need
            if isinstance(need, NeedsAnswers):
                record.asked, record.asked_at = need, event.attempt
            elif isinstance(need, NeedsDecisions):
                record.remote_items = need.items
            c.update_call(record, state="waiting")
        case e.ToolUnknown(reason=reason):
            _end_attempt(c, entry, event, "unknown")
            record.reason = reason
            text = unknown_text(reason, sum(state == "unknown" for state in record.attempts.values()))
            c.update_call(record, text, state="unknown", result=text, is_error=True)
        case _:
            assert_never(event)


def _start_attempt(c: Conversation, entry: e.Entry, event: e.ToolStarted, record: CallRecord) -> None:
    _live_run(c).tallies.setdefault(keys.reply_of(event.key), Tally()).start(entry.at)
    record.sent_at = entry.at
    record.attempts[event.attempt] = "started"
    record.started = event
    record.need = None
    record.brought.update(event.brings)
    # For a call through a facade, show the tool behind it from now on.
    tool = {"name": event.tool, "arguments": event.arguments, "server": event.server, "facade": event.facade}
    # Remove the text about the unknown outcome of an earlier attempt.
    c.update_call(record, "", state="started", result=None, is_error=None, **tool)


def _end_attempt(
    c: Conversation,
    entry: e.Entry,
    event: e.ToolFinished | e.ToolUnknown,
    state: Literal["finished", "unknown"],
) -> None:
    run = _live_run(c)
    record = run.calls[event.key]
    record.attempts[event.attempt] = state
    # None if the batch has ended: an interrupted call that is denied on replay ends before its attempt.
    if (tally := run.tallies.get(keys.reply_of(event.key))) is not None:
        tally.finish(record.sent_at, entry.at)


def _apply_approval(c: Conversation, entry: e.Entry, event: e.ApprovalEvent) -> None:
    match event:
        case e.ApprovalRequested(asked=asked):
            _add_approval(c, entry, asked)
        case e.ApprovalVoted(id=id, voters=voters, subject=subject, decision=decision):
            c.approvals[id] = c.approvals[id].voted(voters, subject, entry.at, decision)
        case e.ApprovalResolved(decision=decision):
            run, approval = _live_run(c), c.approvals[event.id]
            approval.asked.check_kind(decision)
            _add_command(run, event.command)
            if decision.principal is None:
                run.drive(event.command, event.token)
            else:
                run.drive_call(approval.asked.key, event.command, event.token)
            stored = decision.to_json()
            if event.subject is not None:
                approval = approval.voted(event.voters, event.subject, entry.at, decision)
            approval = attrs.evolve(approval, state="decided", decision=stored, settled=entry.at)
            _settle_approval(c, approval, decision)
        case e.ApprovalExpired():
            approval = attrs.evolve(c.approvals[event.id], state="expired", settled=entry.at)
            _settle_approval(c, approval, Expired(on_expiry=approval.asked.on_expiry))
        case e.ApprovalVoid(superseded_by=by, reason=reason):
            approval = c.approvals[event.id]
            if by is not None:
                approval = approval.patched(superseded_by=by)
            if isinstance(approval.asked, ProxyQuestion):
                approval = approval.patched(void_reason=reason)
            c.approvals[approval.id] = attrs.evolve(approval, state="void", settled=entry.at)
        case _:
            assert_never(event)


def _add_approval(c: Conversation, entry: e.Entry, asked: Asked[Any]) -> None:
    run = _live_run(c)
    run.asked[asked.question] = asked.id
    c.approvals[asked.id] = Approval(
        id=asked.id,
        stream=c.id,
        kind=asked.kind,
        state="pending",
        body=asked.to_json(),
        decision=None,
        created=entry.at,
        expires=asked.expires,
        settled=None,
        asked=cast(AnyQuestion, asked),
    )
    if (shown := asked.shown_call()) is not None:
        c.update_call(run.calls[asked.key], state="waiting", **shown)


def _settle_approval(c: Conversation, approval: Approval, decision: Decided) -> None:
    run = _live_run(c)
    asked = cast(Asked[Any], approval.asked)
    c.approvals[approval.id] = approval
    run.decisions[approval.id] = decision
    if (record := run.calls.get(asked.key)) is None or c.has_ended(record):
        return  # not about a call, or the call ended while the decision was in the inbox
    record.rejected = record.rejected or (isinstance(asked, ProxyQuestion) and decision.rejects)
    lost = any(state != "finished" for state in record.attempts.values())
    if (end := asked.settled(decision, lost=lost)) is not None:
        c.update_call(record, end.text, state=end.state, result=end.text, is_error=end.is_error)


def _apply_run(c: Conversation, at: float, event: e.RunStarted | e.RunPause | e.RunResumed) -> None:
    match event:
        case e.RunStarted():
            _start_run(c, at, event)
        case e.RunWaiting(worked=worked, settles=settles) | e.RunAuthRequired(worked=worked, settles=settles):
            run = _live_run(c)
            run.unreplied = [each for each in run.unreplied if each not in settles]
            run.worked.update(worked)
        case e.RunResumed():
            run = _live_run(c)
            if event.answer:
                _add_command(run, event.command)
            run.drive(event.command, event.token)
        case _:
            assert_never(event)


def _start_run(c: Conversation, at: float, event: e.RunStarted) -> None:
    if event.tree is not None:
        c.trees[event.tree_id] = event.tree
    if event.prompt is not None:
        c.messages[0] = c.messages[0]._replace(content=event.prompt)
    c.live_run = Run(
        event,
        at,
        text=c.messages[-1].content,
        driving_command=event.command,
        token=event.token,
        pictures=tuple(c.messages[-1].pictures),
        unreplied=[event.command],
        commands=[event.command],
    )


def _apply_run_end(c: Conversation, entry: e.Entry, event: e.RunEnd) -> None:
    run = _live_run(c)
    answer = answer_of(event)
    last = c.messages[-1]
    if (last.role, last.content) != ("assistant", answer):  # usually the answer is the last reply
        c.add_message(entry, "assistant", answer)
    c.turns.append(RecordedExchange(run.text, answer, run.pictures, calls_of(run, c.messages)))
    for record in run.calls.values():
        view = c.messages[record.message].call
        if view is not None and view.state in ("requested", "waiting"):
            c.update_call(record, state="cancelled")
    c.live_run = None


def answer_of(end: e.RunEnd) -> str:
    """Return the answer of a run to its user."""
    match end:
        case e.RunFinished(text=text):
            return text
        case e.RunFailed(code=code, message=message):
            return f"LLM error: {message}" if code == "model_error" else message
        case e.RunCancelled():
            return CANCELLED_RUN
        case _:
            assert_never(end)


def _live_run(c: Conversation) -> Run:
    if c.live_run is None:
        raise LookupError("the event needs a run, but no run is active")
    return c.live_run


def _add_command(run: Run, command: str) -> None:
    run.unreplied.append(command)
    run.commands.append(command)
