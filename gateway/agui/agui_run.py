"""The conversion of a conversation's log to the events of one AG-UI run. Pure.

An AG-UI run is the stream of one request. It begins at the request's message, or at the first decision about
an interrupt that the request answers, and ends when the run of the conversation ends or waits. Several AG-UI
runs may therefore show parts of one run of the conversation, and a repeated request shows the same part
again. `AGUIRun` folds the whole log, but emits events only after its own beginning; earlier events only set
the state.

* Text is streamed from deltas. The recorded reply completes it: the rest that was not streamed is sent then.
  If the recorded text does not begin with the streamed text (after a retry, with a fallback model, or when
  deltas were missed), the message is closed with the metadata `superseded: true`, and a new message has the
  whole text.
* Tool calls are sent when the reply is recorded, with complete arguments, so a retry never has to withdraw
  one. A result is sent once: the tool's, or the text that the model gets instead, for example after a
  rejection. Arguments that a person edited are in the metadata of the result.
* Every node is a step. A branch of a parallel node, and a call of another agent, is a subagent.
* Ids consist of the id of the conversation's run and a key of the log, so a repetition has the same ids.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, assert_never

import attrs

from ...actors.common.errors import AgentError, Fault
from ...actors.conversation.result import finished
from ...actors.log.fold.record import ENDED, Run
from ...actors.log.fold.state import Conversation, answer_of
from ...actors.log.words import events as e
from ...actors.log.words import keys
from ...actors.log.words.deltas import AnyDelta, ModelDelta
from ...actors.log.words.outcomes import Chosen, Delegation, Ended, NotSent, Replied, StepFailed
from ...actors.models.messages.messages import TextDelta, ToolCall
from ...actors.models.messages.usage import NOTHING, Spent, StepUsage
from ...actors.tools.delegation import SERVER, is_remote
from . import agui_events as ag
from .interrupts import auth_interrupt, interrupt_of
from .node_keys import Execution, executions
from .open_parts import STOPPED, OpenParts

ANSWER = "answer"
"""The key of the message with a run's answer, if no model generated the answer."""


@attrs.define(eq=False)
class Pauses:
    """The times at which the run of the conversation waits for a person or a token."""

    rests: bool = False
    """The run waits now."""
    ends: dict[str, int] = attrs.field(factory=dict)
    """The seq of the event that ended an interrupt, by interrupt id."""
    auth: ag.Interrupt | None = None
    """Set while the run waits for a bearer token."""

    def decided(self, id: str, seq: int) -> None:
        """An approval has ended. If the run waited, the next event resumes it."""
        self.ends[id], self.rests = seq, False

    def moved(self, seq: int, event: e.RunPause | e.RunResumed | e.RunEnd) -> None:
        if self.auth is not None:
            self.ends[self.auth.id] = seq
        wanted = event.wanted if isinstance(event, e.RunAuthRequired) else None
        self.auth = None if wanted is None else auth_interrupt(seq, wanted)
        self.rests = isinstance(event, e.RunWaiting | e.RunAuthRequired)


@attrs.define(eq=False)
class _CallsSeen:
    """The calls of the conversation, by key."""

    proposed: dict[str, Mapping[str, Any]] = attrs.field(factory=dict)
    """Their arguments as the model proposed them."""
    delegated: set[str] = attrs.field(factory=set)
    """Those of other agents."""
    answered: set[str] = attrs.field(factory=set)
    """Those whose results were emitted or precede the beginning."""


@attrs.define(eq=False, kw_only=True)
class AGUIRun:
    """The fold. It emits from the event with the seq `begins` on, or from the start of the run of
    `command`."""

    conversation: Conversation
    thread: str = ""
    run: str = ""
    begins: int | None = None
    command: str | None = None
    refused: Mapping[str, AgentError] = attrs.field(factory=dict)
    """Errors of refused answers, by interrupt id."""

    begun: bool = False
    ended: bool = False
    """The last event of the AG-UI run has been emitted."""
    pauses: Pauses = attrs.field(factory=Pauses)
    messages: dict[str, str] = attrs.field(factory=dict)
    """The user's messages by command key."""
    _session: dict[str, str] = attrs.field(factory=dict)
    _open: OpenParts = attrs.field(factory=OpenParts)
    _calls: _CallsSeen = attrs.field(factory=_CallsSeen)
    _used: dict[str | None, Spent] = attrs.field(factory=dict)
    """Usage by model."""
    _last_text: str | None = None
    """The last text of a model in the conversation's run."""

    @property
    def last_seq(self) -> int:
        return self.conversation.last_seq

    @property
    def interrupts(self) -> Sequence[ag.Interrupt]:
        """The open interrupts, oldest first."""
        pending = [self.conversation.approvals[id] for id in self.conversation.head.pending]
        found = [
            interrupt_of(
                each,
                call=self._open.id_of(each.asked.key),
                subagent=self._asker(each.asked.key),
                refused=self.refused.get(each.id),
            )
            for each in pending
        ]
        return found if self.pauses.auth is None else [*found, self.pauses.auth]

    @property
    def open_ids(self) -> frozenset[str]:
        """The ids of the open interrupts."""
        auth = () if self.pauses.auth is None else (self.pauses.auth.id,)
        return frozenset((*self.conversation.head.pending, *auth))

    # ------------------------------------------------------------------------ emitting

    def start(self, parent: str | None = None) -> ag.AGUIEvent:
        """The first event. Its metadata names the conversation."""
        about = {"conversation_id": self.conversation.id}
        return ag.RunStarted(thread_id=self.thread, run_id=self.run, parent_run_id=parent, metadata=about)

    def begin(self) -> Sequence[ag.AGUIEvent]:
        """Begin to emit: first the state, then the steps in progress."""
        return tuple(self._begin())

    def apply(self, entry: e.Entry) -> Sequence[ag.AGUIEvent]:
        """Apply the next event of the log and return the emitted events."""
        run = self.conversation.live_run  # read before `apply`, which clears it at the end of the run
        self.conversation.apply(entry)
        if entry.event is None or self.ended:
            return ()
        emitted = list(self._events(entry, entry.event, run))
        if not self.begun:
            return ()
        return [attrs.evolve(each, timestamp=round(entry.at * 1000)) for each in emitted]

    def delta(self, delta: AnyDelta) -> Sequence[ag.AGUIEvent]:
        """Emit the text of a model's delta. AG-UI has no event for the progress of a tool."""
        if not self.begun or self.ended or not isinstance(delta, ModelDelta):
            return ()
        if not isinstance(delta.delta, TextDelta) or not delta.delta.text:
            return ()
        owner, text = self._owner(delta.key), delta.delta.text
        emitted = self._open.add_text(delta.key, delta.attempt, text, delta.node, owner)
        return [*self._enter(delta.key), *emitted]

    def pause(self) -> Sequence[ag.AGUIEvent]:
        """End the AG-UI run with the open interrupts, at least one."""
        found = self.interrupts
        begin = () if self.begun else self.begin()
        return [*begin, *self._open.suspend(found), self._finish(ag.Interrupted(interrupts=found))]

    def fail(self, code: str, message: str) -> Sequence[ag.AGUIEvent]:
        """End the AG-UI run with an error."""
        self.ended = True
        closed = self._open.close() if self.begun else ()
        return [*closed, ag.RunError(message=message, code=code, usage=self._usage())]

    # ------------------------------------------------------------------------- the fold

    def _events(self, entry: e.Entry, event: e.LogEvent, run: Run | None) -> Iterator[ag.AGUIEvent]:
        yield from self._begin_at(entry.seq, event)
        match event:
            case e.MessageAdded(text=text, command=command):
                self.messages[command] = text
            case e.StateSet(key=key, value=value):
                yield from self._set({key: value})
            case e.StepFinished():
                yield from self._step(event)
            case e.ToolStarted() | e.ToolFinished(need=None) | e.ToolUnknown():
                yield from self._tool(event, run)
            case e.ApprovalRequested(asked=asked):
                yield from self._enter(asked.key)
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                self.pauses.decided(event.id, entry.seq)
                yield from self._result(self.conversation.approvals[event.id].asked.key, run)
            case e.RunWaiting() | e.RunAuthRequired() | e.RunResumed():
                self.pauses.moved(entry.seq, event)
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                self.pauses.moved(entry.seq, event)
                yield from self._run_ended(event, run)
            case (
                e.ConversationCreated()
                | e.ConversationCompleted()
                | e.RunStarted()
                | e.BatchFinished()
                | e.ApprovalVoted()
                | e.ToolAccepted()
                | e.ToolFinished()
            ):
                pass
            case _:
                assert_never(event)

    def _begin_at(self, seq: int, event: e.LogEvent) -> Iterator[ag.AGUIEvent]:
        """Begin to emit if this event is the beginning of the AG-UI run."""
        is_start = False
        if isinstance(event, e.RunStarted):
            self.pauses.rests, self._last_text = False, None
            self._session = {}
            self._open = OpenParts(event.run)
            is_start = event.command == self.command
        if not self.begun and (is_start or seq == self.begins):
            yield from self._begin()

    def _begin(self) -> Iterator[ag.AGUIEvent]:
        self.begun = True
        self._open = OpenParts(self._open.run)
        self._used.clear()
        yield ag.StateSnapshot(snapshot=dict(self._session))
        if (run := self.conversation.live_run) is not None:
            yield from self._enter(keys.root(run.started.turn))

    def _step(self, step: e.StepFinished) -> Iterator[ag.AGUIEvent]:
        yield from self._enter(step.key)
        match step.outcome:
            case Replied(text=text, tool_calls=calls, usage=usage, model=model):
                self._count(model, usage)
                yield from self._open.complete_text(step.key, text, step.node, self._owner(step.key))
                self._last_text = text or self._last_text
                yield from self._proposed(step.key, calls)
            case Delegation(call=call):
                yield from self._proposed(step.key, (call,))
            case Ended(end=end):
                yield from self._set(end.writes)
                yield from self._open.end(step.key, result=end.text)
            case StepFailed(error=error, usage=usage):
                self._count(None, usage)
                yield from self._failed(step, error)
            case NotSent(outcome=outcome, content=content):
                yield from self._open.end(step.key, failed=(content, outcome))
                yield from self._result(step.key, self.conversation.live_run)
            case Chosen():
                pass
            case _:
                assert_never(step.outcome)

    def _failed(self, step: e.StepFinished, error: Fault) -> Iterator[ag.AGUIEvent]:
        match step.kind:
            case "node":
                yield from self._open.end(step.key, failed=(error.message, error.code))
            case "attempt":
                execution = self._inside(step.key)[-1].key
                yield from self._open.close(execution, but=execution)
            case _:
                yield from self._open.close(step.key)

    def _proposed(self, key: str, calls: Sequence[ToolCall]) -> Iterator[ag.AGUIEvent]:
        owner, message = self._owner(key), self._open.message_of(key)
        for index, call in enumerate(calls):
            place = keys.call(key, index)
            id = self._open.id_of(place)
            self._calls.proposed[place] = call.arguments
            yield ag.ToolCallStart(
                tool_call_id=id, tool_call_name=call.name, parent_message_id=message, subagent_run_id=owner
            )
            arguments = json.dumps(call.arguments, ensure_ascii=False)
            yield ag.ToolCallArgs(tool_call_id=id, delta=arguments, subagent_run_id=owner)
            yield ag.ToolCallEnd(tool_call_id=id, subagent_run_id=owner)

    def _tool(
        self, event: e.ToolStarted | e.ToolFinished | e.ToolUnknown, run: Run | None
    ) -> Iterator[ag.AGUIEvent]:
        match event:
            case e.ToolStarted(key=key):
                yield from self._enter(key)
                yield from self._delegated(event)
            case e.ToolFinished(key=key, result=result):
                failed = (result.content, "tool_error") if result.is_error else None
                yield from self._open.end(key, result=result.content, failed=failed)
                yield from self._result(key, run)
            case e.ToolUnknown(key=key, reason=reason):
                yield from self._open.end(key, failed=(reason, "tool_outcome_unknown"))
            case _:
                assert_never(event)

    def _delegated(self, event: e.ToolStarted) -> Iterator[ag.AGUIEvent]:
        if is_remote(event.server):
            self._calls.delegated.add(event.key)
            name, call = event.server.removeprefix(SERVER), self._open.id_of(event.key)
            yield from self._open.begin_subagent(event.key, name, parent=self._owner(event.key), call=call)

    def _result(self, key: str, run: Run | None, *, stopped: bool = False) -> Iterator[ag.AGUIEvent]:
        """Emit the result of a call if it has one, or if the run was `stopped`."""
        record = run.calls.get(key) if run is not None else None
        if record is None or key in self._calls.answered:
            return
        call = self.conversation.messages[record.message].call
        if call is None or not (call.state in ENDED or stopped):
            return
        self._calls.answered.add(key)
        metadata: dict[str, Any] = {"is_error": call.is_error is not False}
        if call.arguments != self._calls.proposed.get(key):
            metadata["arguments"] = call.arguments
        id = self._open.id_of(key)
        yield ag.ToolCallResult(
            message_id=f"{id}:result",
            tool_call_id=id,
            content=STOPPED if call.result is None else call.result,
            subagent_run_id=self._owner(key),
            metadata=metadata,
        )

    def _set(self, writes: Mapping[str, str]) -> Iterator[ag.AGUIEvent]:
        changed = {key: value for key, value in writes.items() if self._session.get(key) != value}
        self._session.update(changed)
        if changed:
            yield ag.StateDelta(delta=[ag.Operation.setting(*item) for item in changed.items()])

    def _run_ended(self, event: e.RunEnd, run: Run | None) -> Iterator[ag.AGUIEvent]:
        if not self.begun:
            return
        # A client would execute a call without a result itself.
        for key in run.calls if run is not None else ():
            yield from self._result(key, run, stopped=True)
        match event:
            case e.RunFinished(text=text):
                if text not in ("", self._last_text):
                    yield from self._open.complete_text(ANSWER, text, None, None)
                yield from self._open.close()
                head = self.conversation.head.run
                assert head is not None
                yield self._finish(ag.Success(), finished(head, text).response)
            case e.RunFailed(code=code):
                yield from self.fail(code, answer_of(event))
            case e.RunCancelled():
                yield from self._open.close()
                yield self._finish(ag.Cancelled())
            case _:
                assert_never(event)

    def _finish(
        self, outcome: ag.Success | ag.Interrupted | ag.Cancelled, result: str | None = None
    ) -> ag.AGUIEvent:
        self.ended = True
        return ag.RunFinished(
            thread_id=self.thread, run_id=self.run, outcome=outcome, result=result, usage=self._usage()
        )

    # ------------------------------------------------------------------------- places

    def _inside(self, key: str) -> Sequence[Execution]:
        run = self.conversation.live_run
        tree = None if run is None else self.conversation.trees.get(run.started.tree_id)
        return executions(key, tree or {})

    def _owner(self, key: str) -> str | None:
        return self._open.owner(self._inside(key))

    def _asker(self, key: str) -> str | None:
        """The subagent that a question belongs to: a remote agent or a branch."""
        return self._open.id_of(key) if key in self._calls.delegated else self._owner(key)

    def _enter(self, key: str) -> Iterator[ag.AGUIEvent]:
        return self._open.enter(self._inside(key))

    # -------------------------------------------------------------------------- usage

    def _count(self, model: str | None, usage: StepUsage | None) -> None:
        if usage is not None:
            self._used[model] = self._used.get(model, NOTHING).plus(usage)

    def _usage(self) -> Sequence[ag.TokenUsage] | None:
        return [_usage_of(*item) for item in self._used.items()] or None if self.begun else None


def _usage_of(model: str | None, used: Spent) -> ag.TokenUsage:
    provider, colon, name = (model or "").partition(":")
    return ag.TokenUsage(
        provider=provider if colon else None,
        model=name if colon else model,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        total_tokens=used.input_tokens + used.output_tokens,
        cached_input_tokens=used.cached_tokens or None,
        cache_write_input_tokens=used.cache_write_tokens or None,
    )
