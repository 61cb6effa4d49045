"""The spans of runs: which event ends which span, and the attributes of each.

Every span is made when it ends, from the event that ends it and the record of the run. Only the start of a
node is not on record (`open_nodes.py`).

The names of attributes follow the conventions of OpenTelemetry for generative AI and for errors
(https://opentelemetry.io/docs/specs/semconv/gen-ai/). Those that begin with `stopgo.` are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import assert_never

import attrs

from ...actors.approvals.tool_approval import ToolQuestion
from ...actors.log.fold.record import Run
from ...actors.log.fold.state import Conversation
from ...actors.log.words import events as e
from ...actors.log.words import keys
from ...actors.log.words.outcomes import Ended, NotSent, Replied, StepFailed, StepOutcome
from ...actors.log.writer.observer import CANCELLED, ModelCall, Observer
from ...actors.models.codecs.profiles import PROFILES
from ...actors.tools.delegation import is_remote
from ...actors.tools.verdict_facts import VerdictFacts
from ...config.sections.agent_config import AgentConfig
from ...config.sections.models import UnknownModel, resolve_model
from ...config.sections.nodes import Node
from ...runtime.clock import WallClock, system_clock
from . import content
from .approval_outcome import outcome_of
from .open_nodes import BATCH, OpenNode, OpenNodes, batch_of
from .spans import Attributes, Place, RunTrace, Span, SpanKind

UNKNOWN_OUTCOME = "unknown_outcome"
TOOL_ERROR = "tool_error"

_FINISH_REASONS = {"end": "stop", "tool_calls": "tool_calls", "max_tokens": "length"}


@attrs.frozen
class RunSpans(Observer):
    """Passes the spans of all runs of an agent to `emit`."""

    config: AgentConfig
    emit: Callable[[Span], None]
    begins: Callable[[int], bool]
    """Whether a trace that begins here, with this id, is exported."""
    with_content: bool
    """Whether spans contain prompts, arguments, results and answers."""
    wall: WallClock = system_clock
    _nodes_open: OpenNodes = attrs.field(factory=OpenNodes)

    def traceparent(self, conversation: Conversation, call: str, attempt: int) -> str | None:
        return self._trace(_live(conversation)).place(f"{call}/{attempt}").traceparent

    def _trace(self, run: Run) -> RunTrace:
        trace = RunTrace.of(run)
        return trace if trace.parent or self.begins(trace.id) else attrs.evolve(trace, sampled=False)

    def node_started(self, conversation: Conversation, key: str, node: Node, at: float) -> None:
        self._nodes_open.start(conversation, _live(conversation), key, node, at)

    def model_called(self, conversation: Conversation, call: ModelCall) -> None:
        now = self._moment(conversation, call.ended)
        if now.trace.sampled:
            self.emit(_model_call(now, call, self.config, self.with_content))

    def happened(self, conversation: Conversation, at: float, event: e.LogEvent) -> None:
        if not isinstance(event, _ENDS):
            return
        now = self._moment(conversation, at)
        if now.trace.sampled:
            for span in self._ended_by(now, event):
                self.emit(span)
        if isinstance(event, e.RunFinished | e.RunFailed | e.RunCancelled):
            self._nodes_open.forget(now.run)

    def _moment(self, conversation: Conversation, at: float) -> _Moment:
        run = _live(conversation)
        return _Moment(conversation, run, self._trace(run), at)

    def _ended_by(self, now: _Moment, event: _End) -> Sequence[Span]:
        match event:
            case e.StepFinished(kind="attempt" | "node"):
                return self._nodes(now, keys.attempt_of(event.key), _failure(event.outcome))
            case e.StepFinished(outcome=NotSent() as outcome):
                return [_unsent_call(now, event, outcome, self.with_content)]
            case e.StepFinished(outcome=Replied(tool_calls=[_, _, *_])):
                self._nodes_open.start_batch(now.conversation, now.run, event.key, event.node, now.at)
                return []
            case e.StepFinished():
                return []
            case e.BatchFinished():
                open_batch = self._nodes_open.of(now.conversation, now.run, now.at).pop(event.key, None)
                return [] if open_batch is None else [_batch(now, event.key, open_batch, event)]
            case e.ToolFinished() | e.ToolUnknown():
                return _attempt(now, event, self.with_content)
            case e.ApprovalRequested():
                return [_question(now, event)]
            case e.ApprovalResolved() | e.ApprovalExpired() | e.ApprovalVoid():
                applied = self.wall()
                return [_decision(now, event, applied), *_refused(now, event, applied, self.with_content)]
            case e.RunFinished() | e.RunFailed() | e.RunCancelled():
                return [*self._all_nodes(now, event), _run(now, event, self.config)]
            case _:
                assert_never(event)

    def _nodes(self, now: _Moment, key: str, error: str | None) -> Sequence[Span]:
        """The end of a node: of its last attempt, which alone is open, and of the nodes below it that were
        stopped."""
        nodes = self._nodes_open.of(now.conversation, now.run, now.at)
        return [
            _stopped(
                now, each, nodes.pop(each), error if key in (each, keys.without_attempt(each)) else CANCELLED
            )
            for each in [each for each in nodes if keys.is_within(each, key)]
        ]

    def _all_nodes(self, now: _Moment, event: e.RunEnd) -> Sequence[Span]:
        """The ends of the nodes that end with the run: of the root, and of all that a failure or a
        cancellation stops."""
        stop = CANCELLED if not isinstance(event, e.RunFinished) else None
        code = event.code if isinstance(event, e.RunFailed) else stop
        nodes = self._nodes_open.of(now.conversation, now.run, now.at)
        return [
            _stopped(now, key, node, code if node.type != BATCH and keys.around(key) is None else stop)
            for key, node in nodes.items()
        ]


_End = e.StepEvent | e.ToolFinished | e.ToolUnknown | e.ApprovalRequested | e.ApprovalEnd | e.RunEnd
_ENDS = (
    e.StepFinished,
    e.BatchFinished,
    e.ToolFinished,
    e.ToolUnknown,
    e.ApprovalRequested,
    e.ApprovalResolved,
    e.ApprovalExpired,
    e.ApprovalVoid,
    e.RunFinished,
    e.RunFailed,
    e.RunCancelled,
)


@attrs.frozen
class _Moment:
    """The time of an event, and the run before it."""

    conversation: Conversation
    run: Run
    trace: RunTrace
    at: float

    def span(
        self,
        name: str,
        place: Place,
        parent: Place | None,
        started: float,
        attributes: Attributes,
        *,
        kind: SpanKind = "internal",
        links: Sequence[Place] = (),
        error: str | None = None,
    ) -> Span:
        attributes["gen_ai.conversation.id"] = self.conversation.id
        return Span(name, place, parent, started, self.at, kind, attributes, links, error)


def _live(conversation: Conversation) -> Run:
    assert conversation.live_run is not None
    return conversation.live_run


# ----------------------------------------------------------------- runs and nodes


def _run(now: _Moment, event: e.RunEnd, config: AgentConfig) -> Span:
    head = now.conversation.head.run
    assert head is not None
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": config.name,
        "gen_ai.agent.version": config.revision or None,
        "stopgo.policy": now.run.started.policy,
        "gen_ai.usage.input_tokens": head.usage.input_tokens,
        "gen_ai.usage.output_tokens": head.usage.output_tokens,
        "stopgo.run": now.run.id,
        "stopgo.turn": now.run.started.turn,
        "stopgo.outcome": event.type.removeprefix("run."),
        "stopgo.cost_usd": head.usage.cost_usd,
    }
    error = None
    if not isinstance(event, e.RunFinished):
        error = event.code if isinstance(event, e.RunFailed) else CANCELLED
    name = f"invoke_agent {config.name}"
    return now.span(name, now.trace.root, now.trace.parent, now.run.started_at, attributes, error=error)


def _stopped(now: _Moment, key: str, node: OpenNode, error: str | None) -> Span:
    return _batch(now, key, node, None, error) if node.type == BATCH else _node(now, key, node, error)


def _batch(
    now: _Moment, key: str, node: OpenNode, event: e.BatchFinished | None, error: str | None = None
) -> Span:
    """`event`: its end; None: it was stopped."""
    attributes: Attributes = {"stopgo.node": node.name}
    if event is not None:
        attributes["stopgo.batch.size"] = event.size
        attributes["stopgo.batch.concurrency"] = event.concurrency
        attributes["stopgo.batch.failed"] = event.failed
    place, parent = now.trace.place(key), now.trace.node(key)
    return now.span(f"batch {node.name}", place, parent, node.started, attributes, error=error)


def _parent_of_call(now: _Moment, call: str) -> Place:
    """The parent of what happens to a call: its batch, or its node."""
    batch = batch_of(now.run, call)
    return now.trace.node(call) if batch is None else now.trace.place(batch)


def _node(now: _Moment, key: str, node: OpenNode, error: str | None) -> Span:
    attributes: Attributes = {"stopgo.node": node.name, "stopgo.node.type": node.type}
    place, parent = now.trace.place(key), now.trace.around(key)
    return now.span(f"{node.type} {node.name}", place, parent, node.started, attributes, error=error)


def _failure(outcome: StepOutcome) -> str | None:
    match outcome:
        case StepFailed(error=fault):
            return fault.code
        case Ended(continued=fault) if fault is not None:
            return fault.code
        case _:
            return None


# -------------------------------------------------------------------- model calls


def _model_call(now: _Moment, call: ModelCall, config: AgentConfig, with_content: bool) -> Span:
    request, reply = call.request, call.reply
    provider, model = _provider_and_model(call.model, config)
    attributes: Attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider,
        "gen_ai.request.model": model,
        "gen_ai.usage.input_tokens": call.spent.input_tokens,
        "gen_ai.usage.output_tokens": call.spent.output_tokens,
        "stopgo.model": call.model,
        "stopgo.node": request.node,
        "stopgo.cost_usd": call.spent.cost_usd,
    }
    reason = None if reply is None else _FINISH_REASONS[reply.stop]
    if reason is not None:
        attributes["gen_ai.response.finish_reasons"] = [reason]
    if with_content:
        attributes["gen_ai.system_instructions"] = content.instructions(request)
        attributes["gen_ai.input.messages"] = content.input_messages(request)
        if reply is not None:
            attributes["gen_ai.output.messages"] = content.output_messages(reply, str(reason))
    return now.span(
        f"chat {model}",
        now.trace.place(f"{request.step} {call.model} {call.started}"),
        now.trace.node(request.step),
        call.started,
        attributes,
        kind="client",
        error=call.error,
    )


def _provider_and_model(name: str, config: AgentConfig) -> tuple[str, str]:
    """The names in the conventions; those of a model that the program supplies (`open_model`) are ours."""
    try:
        spec = resolve_model(name, config.llm, config.models)
    except UnknownModel:
        return "stopgo", name
    return PROFILES[spec.provider].telemetry_name or spec.provider, spec.model


# --------------------------------------------------------------------- tool calls


def _attempt(now: _Moment, event: e.ToolFinished | e.ToolUnknown, with_content: bool) -> Sequence[Span]:
    record = now.run.calls[event.key]
    started = record.started
    if started is None:
        return []
    attributes: Attributes = {
        "stopgo.server": started.server,
        "stopgo.effect": started.effect,
        "stopgo.attempt": event.attempt,
        **_why(started.verdict),
    }
    if not is_remote(started.server):
        attributes["mcp.method.name"] = "tools/call"
    elif record.remote is not None:
        attributes["stopgo.remote_task"] = record.remote.id
    if with_content:
        attributes["gen_ai.tool.call.arguments"] = content.as_json(started.arguments)
    error: str | None
    match event:
        case e.ToolUnknown():
            outcome, error = "unknown", UNKNOWN_OUTCOME
        case e.ToolFinished(need=None, result=result):
            outcome, error = "finished", TOOL_ERROR if result.is_error else None
            if with_content:
                attributes["gen_ai.tool.call.result"] = result.content
        case _:
            outcome, error = "needs_input", None
    name, key = started.tool, f"{event.key}/{event.attempt}"
    return [_call(now, event.key, key, name, started.node, record.sent_at, attributes, outcome, error)]


def _unsent_call(now: _Moment, event: e.StepFinished, end: NotSent, with_content: bool) -> Span:
    message = now.conversation.messages[now.run.calls[event.key].message]
    assert message.call is not None
    error = None if end.outcome == "exit_loop" else end.outcome
    name, key, attributes = message.call.name, f"{event.key}/0", _why(end.verdict)
    if with_content:
        attributes["gen_ai.tool.call.arguments"] = content.as_json(message.call.arguments)
    return _call(now, event.key, key, name, event.node, message.created, attributes, end.outcome, error)


def _refused(now: _Moment, event: e.ApprovalEnd, applied: float, with_content: bool) -> Sequence[Span]:
    """Of a call that ends because a person rejects or answers it, or nobody decides in time: from the
    decision, until the run takes it."""
    asked, outcome = now.conversation.approvals[event.id].asked, outcome_of(event)
    if not isinstance(asked, ToolQuestion) or outcome not in ("rejected", "answered", "expired"):
        return []
    attributes: Attributes = {"stopgo.server": asked.server, **_why(asked.verdict)}
    if with_content:
        attributes["gen_ai.tool.call.arguments"] = content.as_json(asked.tool_args)
    error = None if outcome == "answered" else outcome
    key, tool, decided, now = f"{asked.key}/0", asked.tool_name, now.at, attrs.evolve(now, at=applied)
    return [_call(now, asked.key, key, tool, asked.node, decided, attributes, outcome, error)]


def _why(verdict: VerdictFacts | None) -> Attributes:
    """The rule, and the revision of the policy, by which the gate judged a call."""
    if verdict is None:
        return {}
    held = True if verdict.held else None
    return {"stopgo.rule": verdict.rule or None, "stopgo.policy": verdict.policy, "stopgo.held": held}


def _call(
    now: _Moment,
    call: str,
    key: str,
    tool: str,
    node: str,
    started: float,
    attributes: Attributes,
    outcome: str,
    error: str | None,
) -> Span:
    view = now.conversation.messages[now.run.calls[call].message].call
    attributes |= {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": None if view is None else view.id,
        "stopgo.node": node,
        "stopgo.call.outcome": outcome,
    }
    place, parent = now.trace.place(key), _parent_of_call(now, call)
    return now.span(f"execute_tool {tool}", place, parent, started, attributes, kind="client", error=error)


# ---------------------------------------------------------------------- approvals


def _question(now: _Moment, event: e.ApprovalRequested) -> Span:
    """From the reply that asked for the call, or the last attempt or decision about it, to the question."""
    asked, started = event.asked, now.at
    if (record := now.run.calls.get(asked.key)) is not None:
        earlier = [each for each in now.conversation.approvals.values() if each.asked.key == asked.key]
        created = now.conversation.messages[record.message].created
        started = max(created, record.sent_at, *(each.settled or 0.0 for each in earlier))
    attributes: Attributes = {
        "gen_ai.tool.name": asked.tool_name if asked.is_of_call else None,
        "stopgo.approval": asked.id,
        "stopgo.approval.kind": asked.kind,
        "stopgo.node": asked.node,
        "stopgo.server": asked.server,
        **_why(asked.verdict if isinstance(asked, ToolQuestion) else None),
    }
    place = now.trace.place(f"question {asked.id}")
    return now.span(f"ask {asked.tool_name}", place, _parent_of_call(now, asked.key), started, attributes)


def _decision(now: _Moment, event: e.ApprovalEnd, applied: float) -> Span:
    """From the decision, whose time the event has, until the run takes it. It is linked to the question and
    to the request that decided."""
    asked, decided = now.conversation.approvals[event.id].asked, now.at
    links = [now.trace.place(f"question {asked.id}")]
    if isinstance(event, e.ApprovalResolved):
        request = Place.parse(event.decision.traceparent)
        links += [] if request is None else [request]
    attributes: Attributes = {
        "gen_ai.tool.name": asked.tool_name if asked.is_of_call else None,
        "stopgo.approval": asked.id,
        "stopgo.approval.kind": asked.kind,
        "stopgo.approval.outcome": outcome_of(event),
        "stopgo.node": asked.node,
    }
    place, parent = now.trace.place(f"decision {asked.id}"), _parent_of_call(now, asked.key)
    name, now = f"decide {asked.tool_name}", attrs.evolve(now, at=applied)
    return now.span(name, place, parent, decided, attributes, links=links)
